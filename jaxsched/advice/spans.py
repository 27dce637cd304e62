"""Which jobs are measured, and the periods by which figures are listed.

Forecasts of run times and spreads of services are learnt from earlier jobs; so the measured
jobs are late ones of a log, and all jobs before them are replayed as well. The last
twentieth of the submissions is replayed, too, and not measured: the cluster drains behind it.
Axis: ``m`` measured jobs.
"""

from typing import NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable
from jaxsched.leaderboard.window import Window

HISTORY = 0.6
"""Share of the submissions before the measured jobs: the past that 2D-Gittins learns from."""

TAIL = 0.05
"""Share of the submissions after the measured jobs."""

LEAST_JOBS = 20
"""Least number of measured jobs."""

DAY_S = 86400
_LENGTHS = {"week": 7 * DAY_S, "day": DAY_S, "hour": 3600}
_LEAST_PERIODS = 3


class Span(NamedTuple):
    """The measured jobs, in periods.

    Attributes:
      window: their rows, and when they were submitted.
      period: ``week``, ``day``, ``hour``, or ``span`` where not even three hours are covered.
      of: index of each job's period, from 0 without gaps, ``[m]``; a last period of less than half
        its length is merged into the one before.
    """

    window: Window
    period: str
    of: Integers

    @property
    def num_periods(self) -> int:
        """Number of periods."""
        return int(self.of.max()) + 1


def span_of(table: JobTable, history: float = HISTORY) -> Span:
    """The measured jobs of a log.

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
