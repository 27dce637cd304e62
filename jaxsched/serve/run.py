"""A service in the foreground, until SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable, Sequence

import uvicorn

from jaxsched.errors import JaxschedError
from jaxsched.serve.app import Service
from jaxsched.serve.decisions import Wanted

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
      JaxschedError: a policy cannot be loaded, or the address is not to be had.
    """
    service = Service(sources, token=token, most_bytes=most_bytes)
    config = uvicorn.Config(
        service.app(),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
    )
    asyncio.run(_serve(service, uvicorn.Server(config), say))


async def _serve(service: Service, server: uvicorn.Server, say: Callable[[str], object]) -> None:
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task] = set()

    def reload() -> None:
        task = loop.create_task(service.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    task = loop.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.02)
    if server.started:
        address = server.servers[0].sockets[0].getsockname()
        names = ", ".join(service.policies)
        say(f"serving {names} at http://{address[0]}:{address[1]} (Ctrl-C ends it)")
    try:
        await task
    except SystemExit:
        host, port = server.config.host, server.config.port
        raise JaxschedError(f"cannot listen at {host}, port {port}") from None
