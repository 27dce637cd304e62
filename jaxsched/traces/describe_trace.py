"""Statistics of a canonical trace as it is, before it becomes job tables.

Jobs that are known to use no GPU count as ``cpu_only`` and nowhere else: gaps, run times, the
calendar and GPU time are those of the other jobs, which are called GPU jobs here. Axis: ``n`` jobs.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError, check_counts
from jaxsched.traces.trace import LARGEST, REQUIRED, STATUSES, Trace, distinct, known
from jaxsched.traces.usable import is_job

Floats = npt.NDArray[np.float64]

SIZES: tuple[tuple[str, float], ...] = (
    ("<1", 0.0),
    ("1", 1.0),
    ("2", 2.0),
    ("3-4", 3.0),
    ("5-8", 5.0),
    ("9-16", 9.0),
    ("17-32", 17.0),
    (">32", 33.0),
)
"""Classes of GPU demand: name, and the demand from which on a job belongs to it; demands between
two whole numbers above 1 count as the next one."""

DESCRIBED = (*REQUIRED, "status", "group", "user")
"""Columns that statistics are made of."""

HOUR_S, DAY_S = 3600, 86400
WINDOWS_S = (600, HOUR_S, DAY_S)
"""Lengths of the windows (s) whose counts of submissions give the index of dispersion."""

_PERCENTILES = (10, 25, 50, 75, 90, 99)
FIRST_WEEKDAY = 3  # 1970-01-01 was a Thursday; Monday is 0
_BUSIEST = 5


class BusyGpus(NamedTuple):
    """GPUs in use over time if every job ran from its submission.

    Attributes:
      times_s: moments at which the number changes, on the trace's clock, ``[k]`` ascending.
      gpus: GPUs in use from that moment to the next, ``[k]``.
    """

    times_s: Floats
    gpus: Floats

    def mean(self, begin_s: float, end_s: float) -> float:
        """Mean number in use from one moment to a later one."""
        if not len(self.times_s):
            return 0.0
        held = np.diff(np.clip(self.times_s, begin_s, end_s), append=end_s)
        return float(np.sum(self.gpus * held)) / (end_s - begin_s)


def describe_trace(
    trace: Trace,
    num_servers: int | None = None,
    gpus_per_server: int = 8,
    *,
    daily: bool = False,
) -> dict[str, Any]:
    """Statistics of a trace, ready for JSON; None where they are not defined.

    Args:
      trace: the trace.
      num_servers: servers of the cluster that ``load`` refers to; None: no load.
      gpus_per_server: GPUs of each.
      daily: whether a trace whose clock has no meaning has hours of the day and weekdays too, as
        if its origin were Thursday, 1970-01-01, 00:00.

    Returns:
      ``name``, ``source``, ``clock``, ``digest``, ``notes``, ``rows_read``; ``jobs``, ``gpu_jobs``
      and ``playable``, those that commands play (``usable``; counts); ``unknown`` (jobs without
      GPUs, run time); ``demand`` (size -> share
      of all jobs, with ``cpu_only`` and ``unknown``); ``mean_gpus``; ``gpu_time`` (size -> share
      of GPU time); ``status`` (-> share of GPU jobs); ``duration_s`` and ``gap_s`` (mean, cv,
      percentiles); ``dispersion`` (window in s -> variance over mean of submissions in it);
      ``hour_weights`` (24) and ``weekday_weights`` (7, Monday first), both of mean 1; ``span_s``
      (first to last submission); ``gpu_seconds`` and ``gpu_seconds_per_job``, of the jobs with
      both known; ``cluster_gpus`` and ``load`` = gpu_seconds / (cluster_gpus * span_s);
      ``busy_gpus`` if no job waited: ``mean`` from the first to the last submission, ``peak``;
      ``groups`` and ``users`` (how many, and the ones with most GPU time).

    Raises:
      JaxschedError: a trace without jobs or with numbers above ``LARGEST``, or a cluster without
        GPUs.
    """
    check_numbers(trace)
    check_counts(optional=True, num_servers=num_servers, gpus_per_server=gpus_per_server)
    jobs = gpu_jobs(trace.only(DESCRIBED))
    submit = np.sort(jobs["submit_time"])
    seconds = gpu_seconds(jobs)
    total = float(np.nansum(seconds))
    span = float(submit[-1] - submit[0]) if len(submit) else 0.0
    sized = np.count_nonzero(~np.isnan(seconds))
    busy = _mean_and_peak(busy_gpus(jobs), submit)
    capacity = num_servers * gpus_per_server if num_servers else None
    return {
        "name": trace.name,
        "source": trace.source,
        "clock": trace.clock,
        "digest": trace.digest(),
        "rows_read": trace.rows_read,
        "notes": list(trace.notes),
        "jobs": len(trace),
        "gpu_jobs": len(jobs),
        "playable": int(np.sum(is_job(trace))),
        "unknown": {name: _unknown(trace, name) for name in ("num_gpus", "duration")},
        "demand": demand_shares(trace),
        "mean_gpus": _mean(jobs["num_gpus"]),
        "gpu_time": gpu_time_shares(jobs),
        "status": _statuses(jobs),
        "duration_s": _spread(jobs["duration"]),
        "gap_s": _spread(np.diff(submit)),
        "dispersion": {str(window): dispersion(submit, window) for window in WINDOWS_S},
        "hour_weights": _listed(hour_weights(jobs) if has_calendar(trace, daily) else None),
        "weekday_weights": _listed(weekday_weights(jobs) if has_calendar(trace, daily) else None),
        "span_s": span,
        "gpu_seconds": total if sized else None,
        "gpu_seconds_per_job": total / sized if sized else None,
        "cluster_gpus": capacity,
        "load": total / (capacity * span) if capacity and span and sized else None,
        "busy_gpus": busy if sized else {"mean": None, "peak": None},
        "groups": _busiest(jobs, "group", seconds),
        "users": _busiest(jobs, "user", seconds),
    }


def check_numbers(trace: Trace) -> None:
    """Refuse what has no statistics: a trace without jobs, and numbers whose products overflow."""
    if len(trace) == 0:
        raise JaxschedError(f"{trace.name}: has no jobs; accepted: one or more")
    for column in REQUIRED:
        most = float(np.max(np.abs(np.nan_to_num(trace[column]))))
        if most > LARGEST:
            raise JaxschedError(
                f"{trace.name}: {column} reaches {most:.3g}; accepted: numbers up to {LARGEST:g}"
            )


def gpu_jobs(trace: Trace) -> Trace:
    """The jobs that are not known to use no GPU."""
    return trace.take(~(trace["num_gpus"] == 0))


def gpu_seconds(trace: Trace) -> Floats:
    """GPU time of each job (s), ``[n]``; NaN where GPUs or run time are not known."""
    product: Floats = trace["num_gpus"] * trace["duration"]
    return product


def size_classes(num_gpus: Floats) -> npt.NDArray[np.int64]:
    """Index into ``SIZES`` of each demand above 0."""
    whole = np.where(num_gpus < 1, num_gpus, np.ceil(num_gpus))
    lowest = np.array([least for _, least in SIZES])
    return np.searchsorted(lowest, whole, side="right") - 1


def demand_shares(trace: Trace) -> dict[str, float]:
    """Share of all jobs by size, and of those without GPUs or with an unknown number."""
    gpus = trace["num_gpus"]
    counts = np.bincount(size_classes(gpus[gpus > 0]), minlength=len(SIZES))
    numbers = {"cpu_only": int(np.count_nonzero(gpus == 0))}
    numbers |= {name: int(count) for (name, _), count in zip(SIZES, counts, strict=True)}
    numbers["unknown"] = int(np.count_nonzero(np.isnan(gpus)))
    return {name: number / len(trace) for name, number in numbers.items()}


def gpu_time_shares(trace: Trace) -> dict[str, float]:
    """Share of the GPU time by size, of the jobs with both known; empty if there is none."""
    seconds = gpu_seconds(trace)
    counted = seconds > 0
    total = float(np.sum(seconds[counted]))
    if not total:
        return {}
    sizes = size_classes(trace["num_gpus"][counted])
    sums = np.bincount(sizes, weights=seconds[counted], minlength=len(SIZES))
    return {name: float(part) / total for (name, _), part in zip(SIZES, sums, strict=True)}


def busy_gpus(trace: Trace) -> BusyGpus:
    """GPUs in use over time if no job waited; a job's end frees its GPUs before others start."""
    counted = gpu_seconds(trace) > 0
    gpus, starts = trace["num_gpus"][counted], trace["submit_time"][counted]
    moments = np.concatenate([starts, starts + trace["duration"][counted]])
    changes = np.concatenate([gpus, -gpus])
    if not len(moments):
        return BusyGpus(moments, changes)
    del gpus, starts, counted  # millions of jobs have no room for what is not needed
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    changes = changes[order]
    del order
    begins = np.append(True, moments[1:] != moments[:-1])  # the first of those at the same time
    held = np.add.reduceat(changes, np.flatnonzero(begins))
    np.cumsum(held, out=held)
    return BusyGpus(moments[begins], np.maximum(held, 0.0, out=held))


def _mean_and_peak(busy: BusyGpus, submit: Floats) -> dict[str, float | None]:
    """From the first to the last submission, and at any time."""
    spans = len(submit) > 0 and submit[-1] > submit[0]
    return {
        "mean": busy.mean(submit[0], submit[-1]) if spans else None,
        "peak": float(np.max(busy.gpus)) if len(busy.gpus) else None,
    }


def dispersion(submit: Floats, window_s: float) -> float | None:
    """Index of dispersion: variance over mean of submissions per window.

    Windows count from the first submission; what is left of the last is not counted.

    Args:
      submit: submission times (s), ``[n]`` ascending.
      window_s: length of a window (s).

    Returns:
      None with fewer than two whole windows, or none with a job.
    """
    windows = np.floor((submit - submit[0]) / window_s) if len(submit) else submit
    num_windows = int(windows[-1]) if len(windows) else 0
    counts = np.unique(windows[windows < num_windows], return_counts=True)[1].astype(np.float64)
    if num_windows < 2 or not counts.size:
        return None
    mean = float(np.sum(counts)) / num_windows
    return (float(np.sum(counts**2)) / num_windows - mean**2) / mean


def hour_weights(trace: Trace) -> Floats | None:
    """Submissions in each hour of the day, per time that hour occurs in the span; mean 1, ``[24]``.

    None if an hour does not occur.
    """
    return _profile(np.floor(trace["submit_time"] / HOUR_S), 24)


def weekday_weights(trace: Trace) -> Floats | None:
    """Submissions on each weekday, per time that it occurs; mean 1, Monday first, ``[7]``.

    None if a weekday does not occur.
    """
    return _profile(np.floor(trace["submit_time"] / DAY_S) + FIRST_WEEKDAY, 7)


def has_calendar(trace: Trace, daily: bool = False) -> bool:
    """Whether a trace has hours of the day and weekdays: its clock does, or ``daily`` says so."""
    return daily or trace.clock != "relative"


def _profile(slots: Floats, period: int) -> Floats | None:
    """Jobs per occurrence of each slot of a repeating calendar, divided by the mean of these."""
    if not len(slots):
        return None
    phases = np.arange(period)
    first, last = np.min(slots), np.max(slots)
    occurrences = np.floor((last - phases) / period) - np.floor((first - 1 - phases) / period)
    if np.any(occurrences == 0):
        return None
    counts = np.bincount(np.mod(slots, period).astype(np.int64), minlength=period)
    rates: Floats = counts / occurrences
    return rates / np.mean(rates)


def _unknown(trace: Trace, column: str) -> int:
    return int(np.count_nonzero(~known(trace, column)))


def _statuses(trace: Trace) -> dict[str, float]:
    if "status" not in trace or not len(trace):
        return {}
    values = trace["status"]
    shares = {name or "unknown": float(np.mean(values == name)) for name in STATUSES}
    return {name: share for name, share in shares.items() if share}


def _spread(values: Floats) -> dict[str, float | None]:
    values = values[~np.isnan(values)]
    if not values.size:
        return {"mean": None, "cv": None, **{f"p{p}": None for p in _PERCENTILES}}
    mean = float(np.mean(values))
    marks = np.percentile(values, _PERCENTILES)
    return {
        "mean": mean,
        "cv": float(np.std(values)) / mean if mean else None,
        **{f"p{p}": float(mark) for p, mark in zip(_PERCENTILES, marks, strict=True)},
    }


def _busiest(trace: Trace, column: str, seconds: Floats) -> dict[str, Any] | None:
    """How many groups there are, and those with most GPU time."""
    named = known(trace, column)
    if not np.any(named):
        return None
    names, where = distinct(trace, column, named)
    jobs = np.bincount(where)
    times = np.bincount(where, weights=np.nan_to_num(seconds[named]))
    total = float(np.nansum(seconds))
    order = np.lexsort((names, -jobs, -times))[:_BUSIEST]
    return {
        "count": len(names),
        "busiest": [
            {
                "name": str(names[i]),
                "jobs": int(jobs[i]),
                "gpu_time": float(times[i]) / total if total else None,
            }
            for i in order
        ],
    }


def _mean(values: Floats) -> float | None:
    values = values[~np.isnan(values)]
    return float(np.mean(values)) if values.size else None


def _listed(values: Floats | None) -> list[float] | None:
    return None if values is None else values.tolist()
