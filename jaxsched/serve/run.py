"""A service in the foreground, until SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from socket import socket

import uvicorn

from jaxsched.errors import JaxschedError
from jaxsched.serve import TOKEN
from jaxsched.serve.app import Service
from jaxsched.serve.decisions import Wanted
from jaxsched.serve.listening import is_loopback, listen, url_of

GRACE_S = 10


def run(
    sources: Sequence[str | Wanted],
    host: str,
    port: int,
    token: str,
    most_bytes: int,
    say: Callable[[str], object],
) -> None:
    """Serve policies; requests under way are answered before it ends.

    Args:
      sources: as ``decisions.load`` takes them.
      host: address.
      port: 0 for any free one.
      token: that requests must bear; none if empty.
      most_bytes: of a body.
      say: told where it listens.

    Raises:
      JaxschedError: the address is not to be had, or needs a token; a policy cannot be loaded.
    """
    sockets = listen(host, port)
    try:
        _check_token(host, sockets, token)
        service = Service(sources, token=token, most_bytes=most_bytes)
        _run(service, sockets, say)
    finally:
        for one in sockets:
            one.close()


def _run(service: Service, sockets: list[socket], say: Callable[[str], object]) -> None:
    config = uvicorn.Config(
        service.app(),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
    )
    asyncio.run(_serve(service, uvicorn.Server(config), sockets, say))


async def _serve(
    service: Service,
    server: uvicorn.Server,
    sockets: list[socket],
    say: Callable[[str], object],
) -> None:
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task] = set()

    def reload() -> None:
        task = loop.create_task(service.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    task = loop.create_task(server.serve(sockets))
    while not server.started and not task.done():
        await asyncio.sleep(0.02)
    if server.started:
        names = ", ".join(service.policies)
        say(f"serving {names} at {url_of(sockets[0])} (Ctrl-C ends it)")
    await task


def _check_token(host: str, sockets: list[socket], token: str) -> None:
    if not token and not all(is_loopback(one) for one in sockets):
        raise JaxschedError(
            f"--host {host} can be reached from elsewhere; accepted there: a token, by "
            f"--token-file FILE or ${TOKEN}"
        )
