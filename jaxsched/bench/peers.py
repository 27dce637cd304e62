"""Other projects' environments, timed by a worker process beside ours."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from jaxsched.errors import JaxschedError
from jaxsched.runtime import DEVICES_VARIABLE, prepare_cpu

PACKAGE = "jaxsched.bench.peer_workers"
HOW_TO = (
    "install the `bench` extra (gymnax apart), or make an environment (python -m venv peers; "
    "peers/bin/pip install jax jumanji gymnax gpu-choochoo) and pass --peer-python peers/bin/python"
)


class Known(NamedTuple):
    """A peer: its name, and the worker that times it."""

    name: str
    worker: str
    arguments: tuple[str, ...] = ()


def known_peers(system: str) -> tuple[Known, ...]:
    """What a system is measured beside; the plain simulators exist in checkouts only."""
    return (
        Known("jumanji", f"{PACKAGE}.jumanji_worker"),
        Known("gymnax", f"{PACKAGE}.gymnax_worker"),
        Known("gpu-choochoo", f"{PACKAGE}.choochoo_worker"),
        Known("plain Python", "benchmarks.peers.plain", (system,)),
    )


class MissingPeer(JaxschedError):
    """A peer that is not installed."""


class Peer:
    """A worker that times another environment; a context manager.

    Args:
      known: which one.
      python: interpreter that has it; this one by default.
      devices: that its environments are divided between; of a CPU it takes as many cores for them.

    Attributes:
      about: name, versions, and whether it is ``batched``.
      stopped: why it can no longer be asked; empty while it can.

    Raises:
      MissingPeer: the interpreter has no such environment.
      JaxschedError: the interpreter cannot be run.
    """

    def __init__(self, known: Known, python: str | None = None, devices: int = 1) -> None:
        prepare_cpu()
        self.known, self._devices, self.stopped = known, devices, ""
        package_root = str(Path(__file__).resolve().parents[2])
        paths = [package_root, os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            DEVICES_VARIABLE: str(devices),
        }
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, "-m", known.worker, *known.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                text=True,
            )
        except OSError as error:
            raise JaxschedError(f"{python}: {error.strerror or error}; {HOW_TO}") from error
        try:
            self.about: dict[str, Any] = self._read()
        except JaxschedError as error:
            self.close()
            raise MissingPeer(f"{known.name} is not installed; {HOW_TO}") from error

    @property
    def batched(self) -> bool:
        """Whether it steps many environments side by side; else it is measured once."""
        return bool(self.about["batched"])

    def time(
        self, *, batch: int, num_steps: int, repeats: int, least_s: float = 0.0
    ) -> dict[str, Any]:
        """One row, or ``{"error": ...}`` where the memory does not suffice or the worker stops."""
        request = {
            "batch": batch,
            "num_steps": num_steps,
            "repeats": repeats,
            "least_s": least_s,
            "devices": self._devices,
        }
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return self._read()
        except (OSError, JaxschedError):
            self.stopped = self._why()
            return {"error": self.stopped}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise JaxschedError(self._why())
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _why(self) -> str:
        return f"the worker of {self.known.name} stopped"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # nobody reads what is still to be written
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait()
