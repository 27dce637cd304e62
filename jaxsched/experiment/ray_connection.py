"""Ray as a sweep uses it: found, started or joined, and silent unless its lines are asked for."""

import contextlib
import gc
import os
import signal
import socket
import warnings
from collections.abc import Iterator
from typing import Any

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, needed
from jaxsched.runs import interrupts
from jaxsched.runtime import num_cores

PATIENCE_S = 5.0
"""Until an address that does not answer is refused."""


def load(log: bool) -> Any:
    """The module.

    Args:
      log: whether Ray's own lines are printed.

    Raises:
      JaxschedError: it is not installed.
    """
    with _environment(log), _no_warnings():
        return needed("ray", "ray")


@contextlib.contextmanager
def connection(ray: Any, address: str | None, log: bool) -> Iterator[None]:
    """A connection to Ray: the program's own, one to a running cluster, or a new Ray.

    Args:
      ray: the module.
      address: of a running cluster; ``RAY_ADDRESS``, or a new Ray on this machine, if absent.
      log: whether Ray's own lines are printed.

    Raises:
      JaxschedError: nothing answers at the address, or the cluster has another version.
    """
    if ray.is_initialized():
        if address is not None:
            raise JaxschedError(
                f"{argument('address')} is {address!r}, and this program is connected to Ray; "
                f"accepted: without {argument('address')}"
            )
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    if address == "local" and num_cores() < (os.cpu_count() or 1):
        own["num_cpus"] = num_cores()
    _check_answers(address)
    try:
        with _environment(log), _handlers(), _no_warnings():
            ray.init(
                address=address,
                log_to_driver=log,
                logging_level="INFO" if log else "ERROR",
                **own,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise JaxschedError(f"Ray at {address!r}: {' '.join(str(error).split())}") from error
    try:
        yield
    finally:
        with _handlers(), _no_warnings():
            ray.shutdown()
            gc.collect()  # now, while nobody hears of files that it leaves open


def _check_answers(address: str) -> None:
    """Refuse an address where nothing answers: Ray would try for a minute and end the process."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "local", "auto"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise JaxschedError(f"Ray at {address!r}: nothing answers there ({error})") from None


@contextlib.contextmanager
def _environment(log: bool) -> Iterator[None]:
    """No report of usage; and no line of Ray's, unless they are asked for."""
    ours = {"RAY_USAGE_STATS_ENABLED": "0"}
    if not log:
        ours |= {"RAY_DEDUP_LOGS_SKIP_REGEX": "."}  # read as Ray is imported
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update({name: value for name, value in ours.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


@contextlib.contextmanager
def _handlers() -> Iterator[None]:
    """Signals' handlers stay as they are; Ray sets one."""
    before = {number: signal.getsignal(number) for number in interrupts.ENDING}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Ray leaves files and processes open and announces changes, and JAX warns of any fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
