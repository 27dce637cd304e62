"""What a row of a sweep is expected to take, and whether that is more than may be spent."""

import math
from typing import NamedTuple

from jaxsched.bench.timing import WARM_UPS, Stopwatch

NETWORK_FACTOR = 2.0
"""Of the environment's alone: first guess at the start and the pace with a policy network."""


class Pace(NamedTuple):
    """What a row took.

    Attributes:
      start_s: seconds before its first step, mostly of compiling.
      step_s: seconds of one step of one environment.
    """

    start_s: float
    step_s: float


class Budget:
    """Seconds for each row and for a sweep; learns from every row what to expect of the next.

    The clock of the sweep runs from the creation.

    Args:
      row_s: of one row, compiling included.
      total_s: of the whole sweep.
    """

    def __init__(self, row_s: float, total_s: float = math.inf) -> None:
        self._row_s, self._total_s = row_s, total_s
        self._watch = Stopwatch()
        self._paces: dict[str, Pace] = {}

    def learn(self, figure: str, pace: Pace) -> None:
        """Remember what a row of a figure took."""
        self._paces[figure] = pace

    def left_s(self) -> float:
        """Seconds that the next row may take."""
        return min(self._row_s, self._total_s - self._watch.lap().wall_s)

    def pace(self, figure: str) -> Pace | None:
        """What the last row of this figure took, or a guess from the environment's own."""
        known = self._paces.get(figure)
        if known is None and "environment" in self._paces:
            known = Pace(*(NETWORK_FACTOR * part for part in self._paces["environment"]))
        return known

    def expected_s(self, figure: str, steps: int, repeats: int) -> float | None:
        """Seconds of a row with so many steps of all environments in a repeat; None: not known."""
        pace = self.pace(figure)
        if pace is None:
            return None
        return pace.start_s + (WARM_UPS + repeats) * steps * pace.step_s

    def fitting_steps(self, figure: str, repeats: int) -> float:
        """Steps of all environments in a repeat with which the next row stays within its budget."""
        pace = self.pace(figure)
        if pace is None:
            return math.inf
        return (self.left_s() - pace.start_s) / ((WARM_UPS + repeats) * pace.step_s)
