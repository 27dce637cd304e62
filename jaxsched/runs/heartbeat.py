"""Progress lines of commands that take longer than two seconds."""

import threading
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console

from jaxsched.runtime import shows
from jaxsched.units import readable_time

FIRST_S, EVERY_S = 2.0, 10.0
REFRESH_S = 0.5  # of the line that a terminal shows


class Heartbeat:
    """A line after two seconds, then every ten: the step, its progress, speed and time left.

    Use as a context manager and call ``update`` as work goes on. A terminal shows one line that
    changes; elsewhere lines go where the command shows its results, as those of a training do, and
    to standard error where ``--json -`` has standard output for itself. With ``--quiet``, or where
    the output is closed, nothing is said and the work goes on.

    Args:
      console: where the command shows its results.
      what: the step, such as ``playing fifo``.
      first_s: seconds before the first line.
      every_s: seconds between lines.
      clock: seconds, for tests.
    """

    def __init__(
        self,
        console: Console,
        what: str,
        *,
        first_s: float = FIRST_S,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._first_s, self._every_s = first_s, every_s
        self._clock = clock
        self._start = self._began = clock()
        self._what, self._done, self._total, self._unit = what, 0.0, 0.0, ""
        self._expected_s = 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Heartbeat":
        self._start = self._began = self._clock()
        if shows():
            target = self._in_terminal if self._console.is_terminal else self._in_lines
            self._thread = threading.Thread(target=target, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def update(self, what: str, done: float = 0, total: float = 0, unit: str = "") -> None:
        """Report the present step and its progress.

        Args:
          what: what is done.
          done: how much of it, from 0 on; 0 where that is not known.
          total: how much there is; 0 where that is not known.
          unit: of both, in the plural.
        """
        if what != self._what:
            self._began = self._clock()
            self._expected_s = 0.0
        self._what, self._done, self._total, self._unit = what, done, total, unit

    def expect(self, seconds: float) -> None:
        """Report how long the present step will take, if its progress is unknown."""
        self._expected_s = seconds

    def line(self) -> str:
        """The state as one line of text."""
        now = self._clock()
        passed = now - self._began
        parts = [f"{self._what}: {readable_time(round(now - self._start))} so far"]
        if self._done and passed > 0:
            rate = self._done / passed
            of = f" of {self._total:,.0f}" if self._total else ""
            parts.append(f"{self._done:,.0f}{of} {self._unit}, {_figures(rate)} a second")
            if self._total:
                left = max(self._total - self._done, 0) / rate
                parts.append(f"about {readable_time(round(left))} left")
        elif self._expected_s:
            if self._total:
                parts.append(f"{_figures(self._total / self._expected_s)} {self._unit} a second")
            left = max(self._expected_s - passed, 0)
            parts.append(f"about {readable_time(round(left))} left")
        return ", ".join(parts)

    def _in_lines(self) -> None:
        wait = self._first_s
        while not self._over.wait(wait):
            wait = self._every_s
            try:
                self._console.print(self.line(), highlight=False, markup=False)
            except (OSError, ValueError):  # closed
                return

    def _in_terminal(self) -> None:
        try:
            with self._console.status(self._what) as status:
                while not self._over.wait(REFRESH_S):
                    status.update(self.line())
        except (OSError, ValueError):  # closed
            return


def _figures(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
