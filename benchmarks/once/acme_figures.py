"""Parameters of workloads like Acme's two clusters, known from the release's summary only.

``fit_cluster_workloads.py`` writes them with the others. The summary gives, over all GPU jobs of a
cluster, mean and median of run time and of GPUs, the largest of both, and shares of jobs and of GPU
time by outcome. The rest is a shape with one parameter for each of these figures.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from benchmarks.once.coupling import couple
from benchmarks.once.fitting import duration_knots, with_mean
from jaxsched.traces.clusters.arrivals import DAY_S

Floats = npt.NDArray[np.float64]

ONE_GPU_SHARE = 0.6
"""Assumed; the summary says that it is above a half, and nobody knows by how much."""

DAYS = 184  # March to August 2023
SIZES = tuple(2.0**k for k in range(11))
STATUSES = ("completed", "killed", "failed")


class Summary(NamedTuple):
    """GPU jobs of a cluster (``data/cluster_summary.csv`` of the release; times in seconds)."""

    num_gpus: int
    jobs: int
    mean_s: float
    median_s: float
    longest_s: float
    mean_gpus: float
    status: tuple[float, float, float]
    gpu_time: tuple[float, float, float]  # GPU s


ACME = {
    "seren": Summary(
        2288,
        663_813,
        1414.335,
        122.0,
        1_209_604,
        5.68,
        (0.497, 0.075, 0.429),
        (4_560_592_618, 14_274_584_510, 2_675_447_459),
    ),
    "kalos": Summary(
        2416,
        19_907,
        1259.689,
        124.0,
        625_740,
        26.77,
        (0.541, 0.062, 0.397),
        (1_667_685_146, 3_239_202_064, 426_292_851),
    ),
}


def acme(cluster: str) -> dict[str, Any]:
    """The GPU jobs of one cluster of Acme."""
    known = ACME[cluster]
    sizes = np.asarray(SIZES)
    shares = _size_shares(sizes, known.mean_gpus)
    gpu_seconds = sum(known.gpu_time) / known.jobs
    mean_c = _mean_run_times(sizes, shares, known.mean_s, gpu_seconds)
    knots = list(duration_knots(0.5, known.longest_s, 2))
    percent = _run_time_percent(knots, known)
    curve = with_mean(knots, percent, known.mean_s, 0)
    rates = np.asarray(known.status) / sum(known.status)
    coupled = couple(
        shares[:, None] * rates,
        np.diff(percent) / 100,
        curve.bin_means_s(),
        gpus_c=sizes,
        mean_c=mean_c,
        work_k=known.gpu_time,
    )
    work = np.asarray(known.gpu_time) / sum(known.gpu_time)
    title = cluster.capitalize()
    return {
        "description": f"Shanghai AI Lab Acme 2023, cluster {title}: LLM development, GPU jobs",
        "sources": {
            "num_gpus": "recalled: Hu et al., NSDI'24",
            "classes": "fitted by coupling.couple to the summary of the release: mean and median "
            "run time (a log-normal), mean GPUs, GPU time by outcome; run times grow with a power "
            "of the demand that gives the whole GPU time",
            "sizes": f"assumed: powers of two to 1,024, {ONE_GPU_SHARE:.0%} of jobs with one GPU, "
            "the others falling with a power of the demand that gives the published mean",
            "arrivals": f"assumed: independent exponential gaps, GPU jobs over {DAYS} days",
        },
        "num_gpus": known.num_gpus,
        "sizes": [[float(g), float(s)] for g, s in zip(sizes, shares, strict=True)],
        "knots_s": knots,
        "skew_from_s": 0,
        "classes": [
            {"max_gpus": float(gpus), "outcomes": _outcomes(coupled[c], curve.skew), "groups": {}}
            for c, gpus in enumerate(sizes)
        ],
        "arrivals": {
            "mean_gap_s": DAYS * DAY_S / known.jobs,
            "phases": [[1, 1]],
            "stay": 0,
            "factors": [],
            "hours": [],
            "weekdays": [],
        },
        "runs": None,
        "gpu_types": {},
        "num_users": 0,
        "published": {
            "cpu_share": 0,
            "mean_gpus": known.mean_gpus,
            "duration_s": {"p50": known.median_s, "mean": known.mean_s},
            "gpu_seconds_per_job": gpu_seconds,
            "status": dict(zip(STATUSES, rates.tolist(), strict=True)),
            "gpu_time_by_status": dict(zip(STATUSES, work.tolist(), strict=True)),
            "gap_s": {"mean": DAYS * DAY_S / known.jobs},
        },
    }


def _size_shares(sizes: Floats, mean_gpus: float) -> Floats:
    """Share of jobs of each demand with the published mean."""

    def shares(power: float) -> Floats:
        others = sizes[1:] ** -power
        rest = (1 - ONE_GPU_SHARE) * others / others.sum()
        return np.concatenate([[ONE_GPU_SHARE], rest])

    return shares(brentq(lambda power: shares(power) @ sizes - mean_gpus, -2, 4))


def _mean_run_times(sizes: Floats, shares: Floats, mean_s: float, gpu_seconds: float) -> Floats:
    """Mean run time (s) of each demand, with the means of run time and GPU time over all jobs."""

    def means(power: float) -> Floats:
        return mean_s * sizes**power / (shares @ sizes**power)

    return means(brentq(lambda power: shares @ (sizes * means(power)) - gpu_seconds, 0, 4))


def _run_time_percent(knots: list[float], known: Summary) -> list[float]:
    """Percent of jobs up to each knot: a log-normal with the published median and mean."""
    sigma = math.sqrt(2 * math.log(known.mean_s / known.median_s))
    at = [(math.log(t) - math.log(known.median_s)) / sigma / math.sqrt(2) for t in knots]
    inner = [round(50 * math.erfc(-z), 4) for z in at[1:-1]]
    return [0.0, *inner, 100.0]


def _outcomes(joint: Floats, skew: float) -> list[dict[str, Any]]:
    found = []
    for status, bins in zip(STATUSES, joint, strict=True):
        share = float(bins.sum() / joint.sum())
        entry = {"status": status, "share": share, "percent": stepped(bins), "skew": skew}
        found.append(entry)
    return found


def stepped(bins: Floats) -> list[float]:
    """Percent of the jobs up to each knot from the shares between them."""
    steps = np.cumsum(bins) / bins.sum() * 100
    return [0.0, *np.round(steps[:-1], 4).tolist(), 100.0]
