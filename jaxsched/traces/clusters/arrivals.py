"""Submission times: random gaps in operational time, moved so that the rate changes with the clock.

A workload's rate is its mean rate times the weight of the hour of the day, that of the weekday, and
gamma factors of mean 1, each constant over windows of one length (a cascade: a factor per day times
one per hour times one per ten minutes gives bursts at all of these scales). The expected number of
jobs by a moment is the operational time; gaps are drawn in it, exponential (then the counts of
windows are negative binomial, given the slower factors) or from a mixture of exponentials.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.draws import generator, pick

Floats = npt.NDArray[np.float64]

HOUR_S, DAY_S, WEEK_S = 3600, 86400, 604800
MONDAY_S = 4 * DAY_S
"""1970-01-05 00:00, a Monday: where the clock of generated traces with weekdays starts (s)."""

_GAP_BRANCH, _PHASE_BRANCH, _FACTOR_BRANCH, _STAY_BRANCH = 0, 1, 2, 10
_MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class Arrivals:
    """How jobs come.

    Attributes:
      mean_gap_s: mean time between submissions (s).
      phases: (share, mean) of the exponentials that gaps are a mixture of; means are relative to
        each other.
      stay: probability that a gap is of the phase of the gap before, else its phase is drawn; in
        [0, 1). Runs of short gaps are bursts.
      factors: (window (s), variance) of the gamma factors of the rate; windows divide a week.
      hours: weight of each hour of the day; empty: all alike.
      weekdays: weight of each weekday, Monday first; empty: all alike.
    """

    mean_gap_s: float
    phases: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    stay: float = 0.0
    factors: tuple[tuple[int, float], ...] = ()
    hours: tuple[float, ...] = ()
    weekdays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that cannot be drawn from."""
        weights = (*self.hours, *self.weekdays)
        checks = (
            ("mean_gap_s", 0 < self.mean_gap_s < float("inf"), "seconds above 0"),
            (
                "phases",
                len(self.phases) > 0 and all(w > 0 and m > 0 for w, m in self.phases),
                "pairs of a share and a mean above 0",
            ),
            ("stay", 0 <= self.stay < 1, "a probability in [0, 1)"),
            (
                "factors",
                all(s >= 1 and WEEK_S % s == 0 and v > 0 for s, v in self.factors),
                "pairs of a window in seconds that divides a week and a variance above 0",
            ),
            ("hours", len(self.hours) in (0, 24), "24 weights, or none"),
            ("weekdays", len(self.weekdays) in (0, 7), "7 weights, or none"),
            (
                "weights",
                all(0 <= w < float("inf") for w in weights)
                and all(sum(group) > 0 for group in (self.hours, self.weekdays) if group),
                "numbers from 0 on, not all of them 0",
            ),
        )
        for name, holds, accepted in checks:
            if not holds:
                found = weights if name == "weights" else getattr(self, name)
                raise JaxschedError(f"arrivals: {name} is {found}; accepted: {accepted}")

    @property
    def has_calendar(self) -> bool:
        """Whether the hour of the day or the weekday matters."""
        return bool(self.hours or self.weekdays)

    @property
    def cell_s(self) -> int:
        """Longest time (s) over which the rate never changes."""
        windows = [seconds for seconds, _ in self.factors]
        windows += [HOUR_S] if self.hours else [DAY_S] if self.weekdays else []
        return int(np.gcd.reduce([WEEK_S, *windows]))


def draw_times(arrivals: Arrivals, seed: int, num_jobs: int, mean_gap_s: float) -> Floats:
    """Seconds from the start (a Monday, 00:00) to each submission ``[num_jobs]``, ascending.

    The first ``n`` times do not depend on ``num_jobs >= n``.

    Args:
      arrivals: how jobs come.
      seed: whole number from 0 on.
      num_jobs: from 1 on.
      mean_gap_s: in place of the workload's own (s).

    Raises:
      JaxschedError: the span is too long to be drawn.
    """
    gaps = _gaps(arrivals, seed, num_jobs)
    elapsed = np.cumsum(gaps) * mean_gap_s
    if not (arrivals.factors or arrivals.has_calendar):
        return elapsed
    cells = float(elapsed[-1]) / arrivals.cell_s
    if cells > _MOST_CELLS:
        raise JaxschedError(
            f"{num_jobs} jobs with a mean gap of {mean_gap_s:.6g} s span {elapsed[-1]:.3g} s; "
            f"accepted: at most {_MOST_CELLS * arrivals.cell_s:.3g} s, with fewer jobs or more load"
        )
    return _by_the_clock(arrivals, seed, elapsed)


def _gaps(arrivals: Arrivals, seed: int, num_jobs: int) -> Floats:
    """Gaps of mean 1 in operational time."""
    shares = np.asarray([share for share, _ in arrivals.phases])
    means = np.asarray([mean for _, mean in arrivals.phases])
    means = means / (shares @ means / shares.sum())
    uniforms = generator(seed, _GAP_BRANCH).random(num_jobs)
    drawn = pick(generator(seed, _PHASE_BRANCH).random(num_jobs), shares.tolist())
    stays = generator(seed, _STAY_BRANCH).random(num_jobs) < arrivals.stay
    phase = drawn[np.maximum.accumulate(np.where(stays, 0, np.arange(num_jobs)))]
    gaps: Floats = -np.log1p(-uniforms) * means[phase]
    return gaps


def _by_the_clock(arrivals: Arrivals, seed: int, elapsed: Floats) -> Floats:
    """Clock times (s) at which the expected number of jobs reaches given operational times (s)."""
    reached, ends = 0.0, []
    weeks = _weekly_rates(arrivals, seed)
    while reached <= elapsed[-1]:
        end = reached + np.cumsum(next(weeks)) * arrivals.cell_s
        ends.append(end)
        reached = float(end[-1])
    operational = np.concatenate([[0.0], *ends])
    clock = np.arange(len(operational)) * float(arrivals.cell_s)
    cell = np.searchsorted(operational, elapsed, side="right") - 1
    width = operational[cell + 1] - operational[cell]
    times: Floats = clock[cell] + (elapsed - operational[cell]) / width * arrivals.cell_s
    return times


def _weekly_rates(arrivals: Arrivals, seed: int) -> Iterator[Floats]:
    """The rate relative to its mean in each cell, week by week; every week has its own branch."""
    cells = WEEK_S // arrivals.cell_s
    calendar = np.ones(cells)
    for weights, seconds in ((arrivals.hours, HOUR_S), (arrivals.weekdays, DAY_S)):
        if weights:
            window = np.arange(cells) * arrivals.cell_s // seconds
            calendar *= np.asarray(weights)[window % len(weights)] / np.mean(weights)
    week = 0
    while True:
        rates = calendar.copy()
        for k, (seconds, variance) in enumerate(arrivals.factors):
            rng = generator(seed, _FACTOR_BRANCH, k, week)
            drawn = rng.gamma(1 / variance, variance, WEEK_S // seconds)
            rates *= np.repeat(drawn, seconds // arrivals.cell_s)
        yield rates
        week += 1
