"""Statistics by which a generated trace and the published figures of its cluster are compared."""

from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.traces import describe_trace
from jaxsched.traces.describe_trace import (
    HOUR_S,
    SIZES,
    WINDOWS_S,
    gpu_seconds,
    has_calendar,
    hour_weights,
    size_classes,
    weekday_weights,
)
from jaxsched.traces.trace import Trace, Values, known

Floats = npt.NDArray[np.float64]
Shares = dict[str, float]

SIZE_BINS = tuple(name for name, _ in SIZES)
WITHIN_S = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)


def measure(trace: Trace) -> dict[str, Any]:
    """Demand, run time, outcome and arrival statistics of a trace, ready for JSON.

    All but ``cpu_share`` are over the GPU jobs with a run time; shares are in [0, 1].

    Returns:
      ``cpu_share``: of all jobs with known demand; ``demand``: share of jobs by size
      (``SIZE_BINS``); ``mean_gpus``; ``duration_s``: p10, p50, p90, p99, mean; ``over_1h``: share
      that runs longer; ``within_s``: share that runs at most so many seconds;
      ``gpu_seconds_per_job``; ``gpu_time``: share of GPU time by size; ``clipped_at_8``: both as
      if no job had more than 8 GPUs, which some tables do not tell from 8;
      ``status``, ``status_by_size``, ``gpu_time_by_status`` where the trace has them; ``gap_s``:
      mean, cv (standard deviation over mean), p50; ``dispersion``: variance over mean of the
      counts in windows of so many seconds; ``hours``, ``weekdays``: weights of mean 1, on a clock
      that has them, if each occurs.

    Raises:
      JaxschedError: fewer than two GPU jobs.
    """
    gpus, duration = trace["num_gpus"], trace["duration"]
    jobs = trace.take((gpus > 0) & ~np.isnan(duration)).by_submission()
    if len(jobs) < 2:
        raise JaxschedError(f"{trace.name} has {len(jobs)} GPU jobs; accepted: two or more")
    gpus, duration = jobs["num_gpus"], jobs["duration"]
    work, clipped = gpu_seconds(jobs), np.minimum(gpus, 8) * duration
    size = size_classes(gpus)
    result: dict[str, Any] = {
        "cpu_share": float(np.mean(trace["num_gpus"][known(trace, "num_gpus")] == 0)),
        "demand": _by_size(size, np.ones(len(jobs))),
        "mean_gpus": float(np.mean(gpus)),
        "duration_s": {
            **{f"p{p}": float(np.percentile(duration, p)) for p in (10, 50, 90, 99)},
            "mean": float(np.mean(duration)),
        },
        "over_1h": float(np.mean(duration > HOUR_S)),
        "within_s": {str(s): float(np.mean(duration <= s)) for s in WITHIN_S},
        "gpu_seconds_per_job": float(np.mean(work)),
        "gpu_time": _by_size(size, work),
        "clipped_at_8": {
            "gpu_seconds_per_job": float(np.mean(clipped)),
            "gpu_time": _by_size(np.minimum(size, SIZE_BINS.index("5-8")), clipped),
        },
    }
    if np.any(known(jobs, "status")):
        status = jobs["status"]
        result["status"] = _by_status(status, np.ones(len(jobs)))
        result["status_by_size"] = {
            name: _by_status(status[size == k], np.ones(int(np.sum(size == k))))
            for k, name in enumerate(SIZE_BINS)
            if np.any(size == k)
        }
        result["gpu_time_by_status"] = _by_status(status, work)
    return result | _arrivals(jobs)


def dispersion(times: Floats, window_s: float) -> float:
    """Variance over mean of the counts in full windows of so many seconds; NaN without two."""
    found = describe_trace.dispersion(times, window_s)
    return float("nan") if found is None else found


def _arrivals(jobs: Trace) -> dict[str, Any]:
    times = jobs["submit_time"]
    gaps = np.diff(times)
    mean = float(np.mean(gaps))
    result: dict[str, Any] = {
        "gap_s": {
            "mean": mean,
            "cv": float(np.std(gaps) / mean) if mean > 0 else float("nan"),
            "p50": float(np.median(gaps)),
        },
        "dispersion": {str(window): dispersion(times, window) for window in WINDOWS_S},
    }
    if has_calendar(jobs):
        weights = {"hours": hour_weights(jobs), "weekdays": weekday_weights(jobs)}
        result |= {name: found.tolist() for name, found in weights.items() if found is not None}
    return result


def _by_size(size: npt.NDArray[np.int64], weights: Floats) -> Shares:
    totals = np.bincount(size, weights, minlength=len(SIZE_BINS)) / np.sum(weights)
    return dict(zip(SIZE_BINS, totals.tolist(), strict=True))


def _by_status(status: Values, weights: Floats) -> Shares:
    total = float(np.sum(weights))
    return {str(name): float(np.sum(weights[status == name])) / total for name in np.unique(status)}
