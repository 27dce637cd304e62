"""Request bodies: bounded, strict JSON, one line for what is wrong."""

import json
from typing import Any, NoReturn

from starlette.requests import Request

from jaxsched.errors import JaxschedError
from jaxsched.serve.decisions import MOST_CLUSTERS

DEFAULT_MOST_BYTES = 4 * 2**20


class TooLargeError(JaxschedError):
    """The body is longer than the service takes."""


async def read_body(request: Request, most: int) -> Any:
    """The JSON of a request.

    Raises:
      TooLargeError: longer than ``most`` bytes; nothing beyond is read.
      JaxschedError: no JSON.
    """
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > most:
        raise TooLargeError(f"the body has {told} bytes; accepted: at most {most}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooLargeError(f"the body is longer than {most} bytes, which are accepted at most")
        parts.append(part)
    try:
        return json.loads(b"".join(parts).decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JaxschedError(f"the body is not JSON: {' '.join(str(error).split())[:120]}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def wanted(body: Any) -> tuple[str | None, list[Any], bool]:
    """The policy asked for, the clusters, and whether there is one alone.

    Raises:
      JaxschedError: the body is not as the description says.
    """
    if not isinstance(body, dict):
        raise JaxschedError("the body is no object; accepted: {'cluster': ...}")
    unknown = sorted(set(body) - {"policy", "cluster", "clusters"})
    if unknown:
        raise JaxschedError(f"{unknown[0][:40]!r} is unknown; accepted: policy, cluster, clusters")
    policy = body.get("policy")
    if policy is not None and not isinstance(policy, str):
        raise JaxschedError("policy is no text; accepted: the name of a policy")
    if ("cluster" in body) == ("clusters" in body):
        raise JaxschedError("accepted: either cluster, an object, or clusters, a list of them")
    if "cluster" in body:
        return policy, [body["cluster"]], True
    clusters = body["clusters"]
    if not isinstance(clusters, list) or not 1 <= len(clusters) <= MOST_CLUSTERS:
        raise JaxschedError(f"clusters is no list of 1 to {MOST_CLUSTERS} objects")
    return policy, clusters, False
