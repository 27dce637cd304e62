"""Which jobs count, and by which weeks figures are told apart.

Forecasts of run times and spreads of services are learnt from what came before; so the jobs that
count are the last ones of a log, and all jobs before them are played as well. The jobs after the
last twentieth of the submissions are played, too, and do not count: the cluster drains behind them.
Axis: ``m`` jobs that count.
"""

from typing import NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable
from jaxsched.leaderboard.window import Window

HISTORY = 0.6
"""Share of the submissions before the jobs that count: what 2D-Gittins takes for its past."""

TAIL = 0.05
"""Share of the submissions after the jobs that count."""

LEAST_JOBS = 20
"""Fewer jobs are not judged."""

DAY_S = 86400
_LENGTHS = {"week": 7 * DAY_S, "day": DAY_S, "hour": 3600}
_LEAST_PERIODS = 3


class Span(NamedTuple):
    """The jobs that count, in periods.

    Attributes:
      window: their rows, and when they were submitted.
      period: ``week``, ``day``, ``hour``, or ``span`` where not even three hours are covered.
      of: the period of each job, from 0 without gaps, ``[m]``; a last one of less than half its
        length belongs to the one before.
    """

    window: Window
    period: str
    of: Integers

    @property
    def num_periods(self) -> int:
        """How many periods there are."""
        return int(self.of.max()) + 1


def span_of(table: JobTable, history: float = HISTORY) -> Span:
    """The jobs of a log that count.

    Args:
      table: all jobs.
      history: share of the submissions before them, from 0 to 0.9.

    Raises:
      JaxschedError: another share, or too few jobs.
    """
    if not 0 <= history <= 0.9:
        raise JaxschedError(f"history is {history:g}; accepted: a share from 0 to 0.9")
    count, submit = len(table), table["submit_time"]
    first, stop = int(count * history), count - int(count * TAIL)
    if stop - first < LEAST_JOBS:
        raise JaxschedError(
            f"{count} jobs leave {stop - first} that count after a history of {history:g}; "
            f"accepted: {LEAST_JOBS} or more"
        )
    begin = int(submit[first])
    window = Window(first, stop, begin, max(int(submit[stop - 1]), begin + 1))
    length = window.end_s - begin
    period = next(
        (name for name, each in _LENGTHS.items() if length >= _LEAST_PERIODS * each), "span"
    )
    seconds = _LENGTHS.get(period, length + 1)
    number = (submit[window.jobs] - begin) // seconds
    if length % seconds < seconds / 2:
        number = np.minimum(number, max(length // seconds - 1, 0))
    return Span(window, period, np.unique(number, return_inverse=True)[1].reshape(-1))
