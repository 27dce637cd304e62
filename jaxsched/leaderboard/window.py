"""The stationary part of a replay, and the figures of the jobs in it.

A replay begins with an idle cluster and ends with one that drains. So the measured jobs are those
submitted after the first tenth of the submissions and before the last; all others run as
well, and compete with them. Axes: ``n`` jobs in order of submission.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.shares import slots_of
from jaxsched.trace_replay import Cluster, Records
from jaxsched.trace_replay.records import by_priority
from jaxsched.trace_replay.tables import groups_of

WARM_UP = COOL_DOWN = 0.1
"""Shares of the submissions before and after the window."""

QUARTERS = 4

IMBALANCE = 0.1
"""Most relative difference between work offered and work done in a stationary window."""

GROWTH = 2.0
"""A queue grows if it is longer in each next quarter, and in the last by this factor."""

SLOWDOWN_S = 10
"""Run times below this many seconds count as this many in slowdowns (bounded slowdown; Feitelson
et al., JSSPP'97)."""

LEAST_OF_GROUP = 50
"""A virtual cluster with fewer jobs in the window is never the worst."""


class Window(NamedTuple):
    """The measured jobs, and when they are submitted.

    Attributes:
      first: the first of them.
      stop: the first one after them.
      begin_s: submission of ``first``, seconds.
      end_s: submission of the last one of them, at least a second later.
    """

    first: int
    stop: int
    begin_s: int
    end_s: int

    @property
    def jobs(self) -> slice:
        """The rows of the measured jobs."""
        return slice(self.first, self.stop)


def window_of(table: JobTable) -> Window:
    """The middle of the submissions; at least one job."""
    count, submit = len(table), table["submit_time"]
    first = int(count * WARM_UP)
    stop = max(first + 1, count - int(count * COOL_DOWN))
    begin = int(submit[first])
    return Window(first, stop, begin, max(int(submit[stop - 1]), begin + 1))


def offered_load(table: JobTable, cluster: Cluster, window: Window) -> float:
    """GPU-seconds submitted in the window over GPU-seconds of the cluster in it."""
    work = slots_of(table, cluster.slots)[window.jobs] * table["duration"][window.jobs]
    return float(np.sum(work)) / cluster.in_slots.num_gpus / (window.end_s - window.begin_s)


def waiting_by_quarter(records: Records, window: Window) -> NDArray[np.float64]:
    """Mean number of jobs that wait for their first start, in each quarter of the window's time."""
    edges = np.linspace(window.begin_s, window.end_s, QUARTERS + 1)
    found = []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        waited = np.minimum(records.start, end) - np.maximum(records.submit, begin)
        found.append(float(np.sum(np.maximum(waited, 0))) / (end - begin))
    return np.array(found)


def utilization(records: Records, cluster: Cluster, window: Window) -> float:
    """Share of the GPUs' time in the window that jobs hold (``Records.held_within``)."""
    held = records.held_within(window.begin_s, window.end_s)
    span = window.end_s - window.begin_s
    return float(np.sum(records.num_gpus * held)) / cluster.num_gpus / span


def is_stationary(waiting: Sequence[float], load: float, busy: float) -> bool:
    """Whether a window can be in a steady state: as much work leaves as arrives, no queue grows.

    Args:
      waiting: mean number of waiting jobs in its quarters.
      load: offered load in it.
      busy: share of the GPUs' time in it that jobs hold.
    """
    grows = bool(np.all(np.diff(waiting) > 0)) and waiting[-1] > GROWTH * waiting[0]
    return load < 1 and abs(busy - load) <= IMBALANCE * load and not grows


def figures(
    records: Records, table: JobTable, cluster: Cluster, window: Window
) -> dict[str, float]:
    """Figures of the jobs in the window, times in seconds.

    ``avg_jct``, ``median_jct``, ``p99_jct``, ``avg_wait`` (to the first start), ``slowdown_p50``
    and ``slowdown_p99`` (bounded), ``preemptions`` for each job; ``worst_group``: of the virtual
    clusters with ``LEAST_OF_GROUP`` jobs the largest mean JCT over mean run time, absent where jobs
    have no owners; ``utilization`` of the window; ``makespan`` of the whole replay; where jobs have
    priorities, those of ``records.by_priority``.
    """
    within = window.jobs
    jct = records.jct[within].astype(np.float64)
    duration = records.duration[within]
    slowdown = np.maximum(jct / np.maximum(duration, SLOWDOWN_S), 1.0)
    found = {
        "avg_jct": np.mean(jct),
        "median_jct": np.median(jct),
        "p99_jct": np.percentile(jct, 99),
        "avg_wait": np.mean(records.wait[within]),
        "slowdown_p50": np.median(slowdown),
        "slowdown_p99": np.percentile(slowdown, 99),
        "preemptions": np.mean(records.preemptions[within]),
        "makespan": np.max(records.end) - np.min(records.submit),
        "utilization": utilization(records, cluster, window),
    }
    worst = worst_group(jct, duration, groups_of(table)[within])
    if worst is not None:
        found["worst_group"] = worst
    if "priority" in table.columns:
        high = table["priority"] == table["priority"].max()
        found |= by_priority(records.of(within), high[within])
    return {name: float(value) for name, value in found.items()}


def worst_group(jct: NDArray[np.float64], duration: Integers, group: Integers) -> float | None:
    """The largest mean JCT over mean run time of any group that is large enough."""
    jobs = np.bincount(group)
    large = jobs >= LEAST_OF_GROUP
    if np.sum(jobs > 0) < 2 or not large.any():
        return None
    total, ideal = np.bincount(group, jct), np.bincount(group, duration)
    return float(np.max(total[large] / ideal[large]))
