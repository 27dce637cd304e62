"""Every policy on the log's own cluster, beside what happened.

The wait of a job is all the time from its submission to its completion in which it does not get on:
before its start, while it is suspended, and what suspensions cost. Axes: ``m`` jobs that count,
``P`` periods, ``K`` owners.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.advice.owners import Owners
from jaxsched.advice.spans import Span
from jaxsched.leaderboard.board import interval
from jaxsched.leaderboard.entries import Entry
from jaxsched.leaderboard.window import utilization
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.results.statistics import Interval
from jaxsched.trace_replay import Records
from jaxsched.trace_replay.bounds import lower_bounds, pooled

Floats = npt.NDArray[np.float64]

LOSS_SHARE, LOSS_S = 0.05, 60.0
"""An owner loses whose mean wait grows by more than this share and by more than these seconds."""

LEAST_OF_OWNER = 20
"""Jobs of an owner of whom it is said that they win or lose."""


class Outcome(NamedTuple):
    """What became of the jobs that count, under one policy or as the log has it.

    Attributes:
      entry: the policy, or what happened.
      figures: ``avg_wait``, ``median_wait``, ``p95_wait``, ``p99_wait``, ``avg_jct`` in seconds;
        ``utilization`` of the span, a share; ``suspensions`` of each job.
      by_period: sum of the waits of each period's jobs, s, ``[P]``.
      by_owner: mean wait of each owner's jobs, s, ``[K]``.
      share: of the GPU time held in the span, that of each owner, ``[K]``.
    """

    entry: Entry
    figures: dict[str, float]
    by_period: Floats
    by_owner: Floats
    share: Floats


def outcome(entry: Entry, records: Records, ready: Prepared, span: Span, owners: Owners) -> Outcome:
    """The figures of a replay.

    Args:
      entry: the policy.
      records: what became of all jobs.
      ready: the jobs and the cluster.
      span: the jobs that count.
      owners: whose they are.
    """
    window = span.window
    wait = wait_of(records)[window.jobs]
    held = records.held_within(window.begin_s, window.end_s)[window.jobs]
    work = np.bincount(
        owners.of, (records.num_gpus[window.jobs] * held), minlength=len(owners.labels)
    )
    jobs = np.bincount(owners.of, minlength=len(owners.labels))
    figures: dict[str, Any] = {
        "avg_wait": np.mean(wait),
        "median_wait": np.median(wait),
        "p95_wait": np.percentile(wait, 95),
        "p99_wait": np.percentile(wait, 99),
        "avg_jct": np.mean(records.jct[window.jobs]),
        "utilization": utilization(records, ready.cluster, window),
        "suspensions": np.mean(records.preemptions[window.jobs]),
    }
    return Outcome(
        entry=entry,
        figures={name: float(value) for name, value in figures.items()},
        by_period=np.bincount(span.of, wait, minlength=span.num_periods).astype(np.float64),
        by_owner=np.bincount(owners.of, wait, minlength=len(jobs)) / np.maximum(jobs, 1),
        share=work / max(float(work.sum()), 1.0),
    )


def wait_of(records: Records) -> Floats:
    """Seconds in which each job did not get on, ``[n]``."""
    return np.maximum(records.jct - records.duration, 0).astype(np.float64)


def over(found: Outcome, reference: Outcome) -> Interval:
    """Mean wait over that of the reference, with Student's 95 % interval over the periods.

    The ends are NaN where there are too few periods, or a mean is 0. Weeks follow each other and
    are not independent draws: a queue of one week is the next one's begin.
    """
    above, below = found.by_period, reference.by_period
    if not below.sum():
        return Interval(math.nan, math.nan, math.nan)
    if not above.sum():
        return Interval(0.0, math.nan, math.nan)
    return interval(above, below)


def better_periods(found: Outcome, reference: Outcome) -> int:
    """In how many periods the mean wait is lower than the reference's."""
    return int(np.sum(found.by_period < reference.by_period))


def losers(found: Outcome, reference: Outcome, owners: Owners) -> list[int]:
    """Owners who would have waited longer, those first who would have lost most time per job."""
    more = found.by_owner - reference.by_owner
    jobs = np.bincount(owners.of, minlength=len(owners.labels))
    lost = (more > LOSS_S) & (more > LOSS_SHARE * reference.by_owner) & (jobs >= LEAST_OF_OWNER)
    return sorted(np.flatnonzero(lost).tolist(), key=lambda k: -float(more[k]))


def bounds_of(ready: Prepared, span: Span, iterations: int) -> dict[str, float]:
    """What no schedule of the jobs that count can beat: mean waits, s.

    Returns:
      ``any_s``: of all schedules; ``non_preemptive_s``: of those that suspend no job.
    """
    window = span.window
    jobs = ready.table.window(window.first, window.stop - window.first)
    cluster = pooled(ready.cluster)
    found = lower_bounds(
        jobs["submit_time"],
        jobs["num_gpus"],
        jobs["duration"],
        num_servers=cluster.num_servers,
        gpus_per_server=cluster.gpus_per_server,
        iterations=iterations,
    )
    run = float(np.mean(jobs["duration"]))
    return {
        "any_s": max(found.preemptive.avg_jct_s - run, 0.0),
        "non_preemptive_s": max(found.non_preemptive.avg_jct_s - run, 0.0),
    }


def closest(found: Sequence[Outcome], recorded: Outcome, span: Span) -> Outcome | None:
    """The policy whose mean waits by period come nearest to what happened; None: none plays.

    Nearness is the mean distance of the logarithms, a minute added to each; policies that know run
    times do not count.
    """
    jobs = np.bincount(span.of)

    def distance(each: Outcome) -> float:
        waits = np.log([each.by_period / jobs + 60, recorded.by_period / jobs + 60])
        return float(np.mean(np.abs(waits[0] - waits[1])))

    players = [
        each for each in found if not each.entry.recorded and each.entry.knows != "run times"
    ]
    return min(players, key=distance, default=None)
