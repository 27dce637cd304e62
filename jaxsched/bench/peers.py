"""Other projects' environments, timed by a worker process beside ours."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jaxsched.errors import JaxschedError
from jaxsched.runtime import prepare_cpu

HOW_TO = (
    "--peers needs jumanji: install the `bench` extra, or make an environment for it "
    "(python -m venv peers; peers/bin/pip install jax jumanji) and pass --peer-python "
    "peers/bin/python"
)


class Peer:
    """A worker that times jumanji's JobShop-v0; a context manager.

    Raises:
      JaxschedError: the interpreter cannot be run or has no jumanji.
    """

    def __init__(self, python: str | None = None) -> None:
        prepare_cpu()
        package_root = str(Path(__file__).resolve().parents[2])
        paths = [package_root, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, "-m", "jaxsched.bench.peer_worker"],
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
        except JaxschedError:
            self.close()
            raise

    def time(
        self, *, batch: int, num_steps: int, repeats: int, least_s: float = 0.0
    ) -> dict[str, Any]:
        """One row, or ``{"error": ...}`` where the memory does not suffice."""
        request = {
            "batch": batch,
            "num_steps": num_steps,
            "repeats": repeats,
            "least_s": least_s,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise JaxschedError(f"the peer's worker stopped; {HOW_TO}")
        reply: dict[str, Any] = json.loads(line)
        return reply

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
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait()
