"""Progress of a training run: a live display on a terminal, a line now and then elsewhere."""

import math
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jaxsched.units import readable_time

_RATE_WINDOW_S = 20.0


class TrainingProgress:
    """Shows steps, speed and scores of a training run.

    Use as a context manager and call ``update`` between chunks. Whatever happens to the output (a
    narrow or closed terminal), training goes on.

    Args:
      total_steps: environment steps of the whole run.
      description: short name of the run.
      start_steps: environment steps done before, where a run is resumed.
      best: best evaluation before, likewise.
      interval_s: seconds between two lines where the output is no terminal.
      higher_is_better: how the best evaluation is chosen.
      console: where to write; standard output by default.
      clock: seconds, for tests.
      shown: whether anything is written at all.
    """

    def __init__(
        self,
        total_steps: int,
        *,
        description: str = "training",
        start_steps: int = 0,
        best: float | None = None,
        interval_s: float = 5.0,
        higher_is_better: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        shown: bool = True,
    ) -> None:
        self.total_steps = max(int(total_steps), 1)
        self.description = description
        self.env_steps = start_steps
        self.gradient_steps: int | None = None
        self.episode_return: float | None = None
        self.evaluation: float | None = None
        self.best = best
        self._higher_is_better = higher_is_better
        self._interval_s = interval_s
        self._console = console or Console()
        self._clock = clock
        self._start = self._last_line = clock()
        self._history: deque[tuple[float, int, int | None]] = deque([(self._start, start_steps, 0)])
        self._live: Live | None = None
        self._silent = not shown

    def __enter__(self) -> "TrainingProgress":
        self._start = self._last_line = self._clock()
        self._history = deque([(self._start, self.env_steps, self.gradient_steps)])
        if not self._silent and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self._render(), console=self._console, auto_refresh=False)
            self._guard(self._live.start)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is None:
            self._guard(self._print_line)
        else:
            self._guard(self._refresh)
            self._guard(self._live.stop)

    def update(
        self,
        env_steps: int,
        *,
        gradient_steps: int | None = None,
        episode_return: float | None = None,
        evaluation: float | None = None,
    ) -> None:
        """Report the state of the run.

        Args:
          env_steps: environment steps so far, those before a resume included.
          gradient_steps: gradient steps so far.
          episode_return: mean return of the episodes that ended of late; kept if absent.
          evaluation: result of an evaluation that was just made.
        """
        now = self._clock()
        self.env_steps = int(env_steps)
        self.gradient_steps = gradient_steps if gradient_steps is not None else self.gradient_steps
        if episode_return is not None and not math.isnan(episode_return):
            self.episode_return = float(episode_return)
        if evaluation is not None:
            self._evaluated(float(evaluation))
        self._history.append((now, self.env_steps, self.gradient_steps))
        while len(self._history) > 2 and now - self._history[1][0] > _RATE_WINDOW_S:
            self._history.popleft()
        if self._live is not None:
            self._guard(self._refresh)
        elif now - self._last_line >= self._interval_s:
            self._guard(self._print_line)

    def steps_per_s(self) -> float:
        """Environment steps per second of late; nan before the first update."""
        return self._rate(1)

    def line(self) -> str:
        """The state as one line of text."""
        share = min(self.env_steps / self.total_steps, 1.0)
        return "  ".join([f"{self.description} {share:4.0%}", *self._figures()])

    def _evaluated(self, value: float) -> None:
        self.evaluation = value
        if math.isnan(value):
            return
        better = self.best is None or (value > self.best) == self._higher_is_better
        self.best = value if better else self.best

    def _rate(self, column: int) -> float:
        first, last = self._history[0], self._history[-1]
        before, after = first[column] or 0, last[column]
        seconds = last[0] - first[0]
        return float("nan") if after is None or seconds <= 0 else (after - before) / seconds

    def _time_left_s(self) -> float:
        rate = self.steps_per_s()
        left = max(self.total_steps - self.env_steps, 0)
        return left / rate if rate > 0 else float("nan")

    def _figures(self) -> list[str]:
        """The known figures, the most important first (a narrow terminal cuts off the end)."""
        parts = [f"{_short(self.env_steps)} steps", f"{_short(self.steps_per_s())} steps/s"]
        if self.gradient_steps is not None:
            parts.append(f"{_short(self._rate(2))} grad/s")
        if self.episode_return is not None:
            parts.append(f"return {_plain(self.episode_return)}")
        if self.evaluation is not None:
            best = "" if self.best is None else f" (best {_plain(self.best)})"
            parts.append(f"evaluation {_plain(self.evaluation)}{best}")
        parts.append(f"{readable_time(self._time_left_s())} left")
        return parts

    def _render(self) -> Group:
        done = min(self.env_steps, self.total_steps)
        share = Text(f"{done / self.total_steps:4.0%}", no_wrap=True)
        elapsed = readable_time(self._clock() - self._start)
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(no_wrap=True, overflow="ellipsis")
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_column(no_wrap=True, justify="right")
        progress = ProgressBar(total=self.total_steps, completed=done)
        bar.add_row(Text(self.description), progress, share, Text(elapsed))
        return Group(bar, Text("  ".join(self._figures()), no_wrap=True, overflow="ellipsis"))

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._render(), refresh=True)

    def _print_line(self) -> None:
        self._last_line = self._clock()
        self._console.print(
            self.line(), markup=False, highlight=False, soft_wrap=True, no_wrap=True
        )
        self._console.file.flush()

    def _guard(self, draw: Callable[[], object]) -> None:
        """Draw, unless the output has failed before; a display must not end a training run."""
        if self._silent:
            return
        try:
            draw()
        except (OSError, ValueError):  # closed pipe, closed file
            self._silent = True


def _short(value: float) -> str:
    """A count with three figures: 950, 12.3k, 4.56M."""
    if not math.isfinite(value):
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _plain(value: float) -> str:
    """A number with four figures, never as a power of ten where it is large."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
