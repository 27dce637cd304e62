"""The HTTP service: decisions, health, metrics, description.

Decisions are made one after the other in a thread of their own, so that the service answers while
it decides. A reload loads everything anew and then swaps; requests under way end as they began.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from jaxsched.errors import JaxschedError
from jaxsched.serve.bodies import DEFAULT_MOST_BYTES, TooLargeError, read_body, wanted
from jaxsched.serve.counters import Counters
from jaxsched.serve.decisions import Decider, Wanted, load
from jaxsched.serve.openapi import document, page

OPEN_PATHS = ("/healthz",)
Answer = Callable[[Request], Awaitable[Response]]


class Service:
    """What all requests share.

    Args:
      sources: the policies, as ``decisions.load`` takes them.
      token: what requests must bear; none if empty.
      most_bytes: of a request's body.

    Raises:
      JaxschedError: a policy cannot be loaded.
    """

    def __init__(
        self,
        sources: Sequence[str | Wanted],
        *,
        token: str = "",
        most_bytes: int = DEFAULT_MOST_BYTES,
    ) -> None:
        self.sources = tuple(sources)
        self.token, self.most_bytes = token, most_bytes
        self.counters = Counters()
        self.worker = ThreadPoolExecutor(1, "decide")
        self.policies = self._load()

    def _load(self) -> dict[str, Decider]:
        """All policies, each having decided once: a first request does not wait for a compiler."""
        found = load(self.sources)
        for decider in found.values():
            decider.decide([decider.example])
        self.counters.policies.set(len(found))
        return found

    async def decide(self, request: Request) -> Response:
        """``POST /decide``."""
        name, clusters, alone = wanted(await read_body(request, self.most_bytes))
        decider = self.policy(name)
        began = perf_counter()
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self.worker, decider.decide, clusters)
        self.counters.seconds.labels(decider.name).observe(perf_counter() - began)
        self.counters.decisions.labels(decider.name).inc(len(clusters))
        if alone:
            return JSONResponse({"policy": decider.name, "decision": answers[0]})
        return JSONResponse({"policy": decider.name, "decisions": answers})

    def policy(self, name: str | None) -> Decider:
        """The policy of that name; the only one where none is named.

        Raises:
          JaxschedError: there is none, or several to choose from.
        """
        known = ", ".join(self.policies)
        if name is None:
            if len(self.policies) > 1:
                raise JaxschedError(f"policy is missing; accepted: {known}")
            return next(iter(self.policies.values()))
        if name not in self.policies:
            raise JaxschedError(f"there is no policy {name[:40]!r}; accepted: {known}")
        return self.policies[name]

    async def reload(self, request: Request | None = None) -> Response:
        """``POST /reload``, or SIGHUP: load all policies again; the old ones stay if one fails."""
        del request
        loop = asyncio.get_running_loop()
        try:
            self.policies = await loop.run_in_executor(None, self._load)
        except JaxschedError as error:
            self.counters.reloads.labels("failed").inc()
            return _problem(409, error)
        self.counters.reloads.labels("done").inc()
        return await self.list()

    async def list(self, request: Request | None = None) -> Response:
        """``GET /policies``."""
        del request
        return JSONResponse({name: decider.facts for name, decider in self.policies.items()})

    async def health(self, request: Request) -> Response:
        """``GET /healthz``."""
        del request
        return JSONResponse({"status": "ok", "policies": len(self.policies)})

    async def metrics(self, request: Request) -> Response:
        """``GET /metrics``."""
        del request
        return Response(self.counters.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """``GET /openapi.json``."""
        del request
        return JSONResponse(document(self.policies))

    async def front(self, request: Request) -> Response:
        """``GET /``: the description as a page."""
        del request
        return HTMLResponse(page(document(self.policies), self.policies))

    def allowed(self, request: Request) -> bool:
        """Whether a request bears the token."""
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode())

    def route(self, path: str, method: str, answer: Answer) -> Route:
        """A path with the token checked, errors as JSON, and everything counted."""

        async def counted(request: Request) -> Response:
            if self.token and path not in OPEN_PATHS and not self.allowed(request):
                response: Response = _problem(
                    401, "a token is missing or wrong; accepted: Bearer TOKEN"
                )
            else:
                response = await _answered(answer, request)
            self.counters.requests.labels(path, response.status_code).inc()
            return response

        return Route(path, counted, methods=[method])

    def app(self) -> Starlette:
        """The application."""
        routes = [
            self.route("/", "GET", self.front),
            self.route("/decide", "POST", self.decide),
            self.route("/policies", "GET", self.list),
            self.route("/reload", "POST", self.reload),
            self.route("/healthz", "GET", self.health),
            self.route("/metrics", "GET", self.metrics),
            self.route("/openapi.json", "GET", self.openapi),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _unknown})


async def _answered(answer: Answer, request: Request) -> Response:
    try:
        return await answer(request)
    except TooLargeError as error:
        return _problem(413, error)
    except JaxschedError as error:
        return _problem(422, error)


def _problem(status: int, error: object) -> JSONResponse:
    return JSONResponse({"error": " ".join(str(error).split())}, status)


async def _unknown(request: Request, error: Exception) -> Response:
    """Paths and methods that are not there."""
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, f"{request.method} {request.url.path[:80]}: {error.detail}")
