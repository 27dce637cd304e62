"""What became of every job of a replay, and the figures of a leaderboard (host side).

Axes: ``n`` jobs in order of submission.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.jobs import Integers, metrics
from jaxsched.trace_replay.cluster import Cluster

Booleans = npt.NDArray[np.bool_]


class Records(NamedTuple):
    """One replay; int64 ``[n]``, times in whole seconds; ``num_gpus`` float64 if GPUs have slots.

    Attributes:
      submit: submission.
      num_gpus: GPUs wanted, of shares the part that their slots are.
      duration: run time.
      start: start of the first run.
      end: completion.
      num_servers: servers of the last run.
      first_server: the lowest index among them.
      preemptions: how often the job was suspended.
      held: seconds for which it held its GPUs, those that suspensions added included.
      cut: int64 ``[r, 3]``, runs that ended in a suspension: the job's row, when the run began and
        when it was suspended; None: not known (schedules of others).
    """

    submit: Integers
    num_gpus: Integers | npt.NDArray[np.float64]
    duration: Integers
    start: Integers
    end: Integers
    num_servers: Integers
    first_server: Integers
    preemptions: Integers
    held: Integers
    cut: Integers | None = None

    def of(self, jobs: slice | Booleans) -> "Records":
        """The same of some jobs, with no cut runs."""
        columns = {name: column[jobs] for name, column in self._asdict().items() if name != "cut"}
        return Records(**columns)

    def held_within(self, begin: float, end: float) -> npt.NDArray[np.float64]:
        """Seconds of a span of time for which each job held its GPUs, ``[n]``.

        Every run counts from when it began to when it ended. Where the runs of a suspended job are
        not known, it counts as if it held its GPUs evenly from its first start to its end.
        """

        def inside(start: Integers, stop: Integers) -> npt.NDArray[np.float64]:
            return np.maximum(np.minimum(stop, end) - np.maximum(start, begin), 0).astype(float)

        if self.cut is None:
            part = self.held / np.maximum(self.end - self.start, 1)
            return inside(self.start, self.end) * part
        job, start, stop = self.cut.T
        before = np.bincount(job, stop - start, minlength=len(self.end)).astype(np.int64)
        found = inside(self.end - (self.held - before), self.end)  # the last run
        return found + np.bincount(job, inside(start, stop), minlength=len(self.end))

    @property
    def wait(self) -> Integers:
        """Seconds from submission to the first start."""
        return self.start - self.submit

    @property
    def jct(self) -> Integers:
        """Job completion time: seconds from submission to completion."""
        return self.end - self.submit


def by_priority(records: Records, high: Booleans) -> dict[str, float]:
    """The figures of high-priority and of spot jobs apart; none where one of the kinds is missing.

    Args:
      records: the jobs.
      high: which of them have the largest priority, ``[n]``; the others are spot jobs.

    Returns:
      ``high_avg_jct``, ``high_avg_wait``, ``high_p99_wait`` and ``spot_avg_jct``,
      ``spot_avg_wait`` (to the first start), ``spot_avg_queued`` (all the time without GPUs),
      seconds; ``eviction_rate``, the share of the runs of spot jobs that end in a suspension;
      ``wasted_gpu_s``, the GPU time that jobs held beyond their run times, restarts included, and
      ``wasted_share``, of the GPU time that spot jobs held.
    """
    spot = ~high
    if not (high.any() and spot.any()):
        return {}
    stops, wait, jct = records.preemptions[spot], records.wait, records.jct
    held = records.num_gpus * records.held
    wasted = float(np.sum(held - records.num_gpus * records.duration))
    figures = {
        "high_avg_jct": np.mean(jct[high]),
        "high_avg_wait": np.mean(wait[high]),
        "high_p99_wait": np.percentile(wait[high], 99),
        "spot_avg_jct": np.mean(jct[spot]),
        "spot_avg_wait": np.mean(wait[spot]),
        "spot_avg_queued": np.mean((jct - records.held)[spot]),
        "eviction_rate": np.sum(stops) / (np.sum(stops) + len(stops)),
        "wasted_gpu_s": wasted,
        "wasted_share": wasted / np.sum(held[spot]),
    }
    return {name: float(value) for name, value in figures.items()}


def summary(records: Records, cluster: Cluster) -> dict[str, float]:
    """The figures of one replay.

    ``jaxsched.jobs.metrics`` defines ``finished``, ``avg_jct``, ``avg_wait``, ``avg_slowdown``,
    ``makespan``, ``median_jct`` and ``utilization``, the last for the time that jobs held GPUs.
    Times are in seconds; ``p99_jct`` is the 99th percentile (linear interpolation), ``preemptions``
    a total.
    """
    everyone = np.ones(len(records.submit), bool)
    jobs = metrics.JobRecords(
        started=everyone,
        submit=records.submit,
        start=records.start,
        finish=records.end,
        duration=records.duration,
        num_gpus=records.num_gpus,
    )
    holding = jobs._replace(start=records.end - records.held)
    figures = {
        "finished": metrics.finished(jobs),
        "avg_jct": metrics.avg_jct(jobs),
        "median_jct": np.median(records.jct),
        "p99_jct": np.percentile(records.jct, 99),
        "avg_wait": metrics.avg_wait(jobs),
        "avg_slowdown": metrics.avg_slowdown(jobs),
        "makespan": metrics.makespan(jobs),
        "utilization": metrics.utilization(holding, cluster.num_gpus),
        "preemptions": np.sum(records.preemptions),
    }
    return {name: float(value) for name, value in figures.items()}
