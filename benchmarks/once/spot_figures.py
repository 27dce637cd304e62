"""Parameters of a workload like Alibaba's spot-GPU trace of 2026, from published counts of it.

``fit_cluster_workloads.py`` writes them with the others. The trace's table of jobs was not at hand;
its README gives columns and example rows. The counts below are those that the public analysis
``sultanul-ovi/GPU-Cluster-Spot-Resource-Dataset-Analysis`` (MIT) made of the whole table: its CSV
files in ``outputs`` and ``outputs_extra`` and the printed output of its notebook. 3,588 jobs, all
of them of high priority, stand at time 0: services that ran before the trace begins, with a median
run time of 45 days. They are left out here, with that run time each.

Shares by size and kind are raked from what is published by size and by kind; run times of each kind
follow its published quantiles, and those of each size its GPU time (``coupling.couple``).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from benchmarks.once.acme_figures import stepped
from benchmarks.once.coupling import couple, rake
from benchmarks.once.fitting import cascade, duration_knots, with_mean
from jaxsched.traces.clusters.arrivals import DAY_S, HOUR_S
from jaxsched.traces.clusters.durations import DurationCurve

Floats = npt.NDArray[np.float64]

NUM_GPUS = 10_412
JOBS, STANDING, SPAN_DAYS = 466_867, 3_588, 184.06
STANDING_S = 45 * DAY_S
STANDING_GPU_S = 20.55e9
"""GPU time of all jobs of the first hour, 3,740, nearly all of it of those at time 0."""
LONGEST_S, LONGEST_SPOT_S = 4415.999722 * HOUR_S, 1624.507222 * HOUR_S

BUCKETS: tuple[tuple[float, int, float], ...] = (
    (0.999, 48_587, 1_069_695_774.56),
    (1, 297_596, 77_856_117_851.5),
    (4, 48_978, 11_171_263_736.5),
    (8, 45_752, 13_612_350_665.5),
    (16, 12_051, 5_058_028_729.5),
    (32, 6_760, 5_042_607_254.0),
    (64, 3_262, 3_693_953_010.0),
    (128, 1_594, 3_299_298_266.0),
    (1024, 2_287, 21_510_793_806.5),
)
"""GPUs of a job at most, jobs, their GPU seconds (``bucket_gpu_demand.csv``)."""

SIZES: tuple[tuple[float, float], ...] = (
    (0.1, 2_430),
    (0.2, 8_355),
    (0.3, 11_996),
    (0.5, 26_457),
    (1, 1),
    (2, 0.6),
    (3, 0.04),
    (4, 0.36),
    (8, 1),
    (16, 1),
    (32, 1),
    (64, 1),
    (128, 1),
    (256, 0.73),
    (512, 0.27),
)
"""Shares inside the buckets. Below a GPU as in the notebook; above, powers of two are assumed, 2 to
4 like the requests of a worker, and beyond 128 so that all jobs ask for the published 2,297,967."""

WORKERS = ((2, 13_142), (3, 4_600), (4, 5_267), (8, 7_526), (16, 4_203), (32, 2_966), (128, 1_579))
"""Workers of the jobs with several (``worker_count_distribution.csv``, ranges by their ends)."""

HOURS: tuple[float, ...] = (
    0.9764,
    0.8249,
    0.7299,
    0.6935,
    0.6694,
    0.7319,
    0.7373,
    0.7791,
    0.8261,
    0.8793,
    1.2981,
)
HOURS += (1.3333, 1.0242, 0.9986, 1.3109, 1.2972, 1.3996, 1.3147, 1.037, 1.0977, 1.1338, 0.9927)
HOURS += (0.9746, 0.9397)
WEEKDAYS = (1.11, 1.174, 1.161, 0.993, 0.938, 0.801, 0.823)
COUNTS = ((HOUR_S, 104.8617, 62.1387), (DAY_S, 2504.2108, 1038.5499))
"""Window (s), mean and index of dispersion of its submissions; like the profiles computed from
``hourly_summary.csv`` and ``daily_summary.csv`` without the jobs at time 0."""

GPU_TYPES = {
    "A10": 228_643,
    "A100-SXM4-80GB": 169_020,
    "GPU-series-2": 30_397,
    "GPU-series-1": 18_911,
    "H800": 11_097,
    "A800-SXM4-80GB": 8_799,
}
ORGANISATIONS = (181_107, 108_911, 45_879, 43_293, 16_584, 13_718, 13_153, 11_417, 4_832, 4_555)
"""Jobs of the ten with most; the other 74 of the 84 are one here."""


class Kind(NamedTuple):
    """High-priority or spot jobs.

    Attributes:
      priority: as in the trace's reader.
      jobs: how many.
      requests: of them by the GPUs of a worker: less than 1, 1, 2, 3 to 4, 5 to 8.
      several: with several workers.
      mean_s: of their run times.
      gpu_seconds: of all of them.
      at_most: (s, jobs that run at most so long).
    """

    priority: int
    jobs: int
    requests: tuple[int, ...]
    several: int
    mean_s: float
    gpu_seconds: float
    at_most: tuple[tuple[float, float], ...]


_HIGH, _SPOT = 415_713, 51_154
SPOT = Kind(
    priority=0,
    jobs=_SPOT,
    requests=(1_013, 35_095, 3_396, 5_820, 5_830),
    several=16_129,
    mean_s=13_679.58,
    gpu_seconds=3_453_365_487.0,
    at_most=(
        (60, 0.1 * _SPOT),  # assumed: nothing is published below the first quartile
        (543, 0.25 * _SPOT),
        (2_095.5, 0.5 * _SPOT),
        (8_630, 0.75 * _SPOT),
        (21_600, 45_961),
    ),
)
HIGH = Kind(
    priority=1,
    jobs=_HIGH - STANDING,
    requests=(48_220, 279_827 - STANDING, 19_589, 12_249, 55_823),
    several=23_154,
    mean_s=(206_521.02 * _HIGH - STANDING * STANDING_S) / (_HIGH - STANDING),
    gpu_seconds=138_860_743_607.06 - STANDING_GPU_S,
    at_most=(
        (60, 57_687 - 0.1 * _SPOT),
        (205, 0.25 * _HIGH),
        (1_101, 0.5 * _HIGH),
        (4_009, 0.75 * _HIGH),
        (21_600, 355_453),
        (58_770, 0.9 * _HIGH),
        (3 * DAY_S, _HIGH - 28_028 + 500),  # of the 28,028 beyond, some 500 are assumed spot jobs
    ),
)
KINDS = (HIGH, SPOT)


def spot_gpu() -> dict[str, Any]:
    """The jobs of the trace that come while it is recorded, of both kinds."""
    sizes, shares = _sizes()
    limits = [limit for limit, _, _ in BUCKETS]
    bucket = np.searchsorted(limits, sizes)
    gpus = np.array([np.average(sizes[bucket == b], weights=shares[bucket == b]) for b in _all()])
    by_kind = _by_bucket_and_kind()
    # Of common knots, so that both kinds' run times are percentages of the same times.
    knots = sorted(
        {*duration_knots(0.5, LONGEST_S + 1, 2), *(t for k in KINDS for t, _ in k.at_most)}
    )
    outcomes: list[list[dict[str, Any]]] = [[] for _ in BUCKETS]
    for k, kind in enumerate(KINDS):
        joint, skew = _run_times(kind, by_kind[:, k], gpus, knots)
        for b, bins in enumerate(joint):
            share = float(by_kind[b, k] / by_kind[b].sum())
            entry = {"status": "", "priority": kind.priority, "share": share}
            outcomes[b].append({**entry, "percent": stepped(bins), "skew": skew})
    gap_s = SPAN_DAYS * DAY_S / (JOBS - STANDING)
    names = [f"org{rank}" for rank in range(1, len(ORGANISATIONS) + 1)]
    groups = dict(zip(names, ORGANISATIONS, strict=True))
    groups["others"] = JOBS - sum(ORGANISATIONS)
    return {
        "description": "Alibaba spot GPUs 2026: high-priority and spot jobs of six kinds of GPU",
        "sources": {
            "all": "measured: counts of the whole trace by a public analysis, in "
            "benchmarks/once/spot_figures.py, without the 3,588 services that ran before it begins",
            "classes": "fitted by coupling.couple to each kind's quantiles and mean of run times "
            "and its GPU time, with GPU time by size as of both kinds together; shares of the "
            "kinds by size raked from the requests and workers of each kind",
            "sizes": "measured in ranges; powers of two are assumed inside them",
            "arrivals": "measured on published hourly counts: hours, weekdays and the variance of "
            "counts by hour and day; the days with least jobs are taken for weekends. Spot jobs "
            "come at one rate, while there were hardly any in the first four weeks",
            "groups": "measured; sizes, kinds and kinds of GPU of organisations are assumed alike",
        },
        "num_gpus": NUM_GPUS,
        "sizes": [[float(g), float(s)] for g, s in zip(sizes, shares, strict=True)],
        "knots_s": knots,
        "skew_from_s": 0,
        "classes": [
            {"max_gpus": limit, "outcomes": found, "groups": groups}
            for limit, found in zip(limits, outcomes, strict=True)
        ],
        "arrivals": {
            "mean_gap_s": gap_s,
            "phases": [[1, 1]],
            "stay": 0,
            "factors": [list(factor) for factor in _factors()],
            "hours": HOURS,
            "weekdays": WEEKDAYS,
        },
        "runs": None,
        "gpu_types": GPU_TYPES,
        "num_users": 0,
        "published": {
            "cpu_share": 0,
            "duration_s": {"p50": 1216, "p90": 45773.4},
            "median_s_by_priority": {"1": 1101, "0": 2095.5},
            "mean_s_by_priority": {str(kind.priority): kind.mean_s for kind in KINDS},
            "gpu_seconds_per_job": sum(k.gpu_seconds for k in KINDS) / sum(k.jobs for k in KINDS),
            "spot_share": _SPOT / JOBS,
            "gap_s": {"mean": gap_s, "p50": 16, "p90": 86, "p99": 252},
            "dispersion": {str(window): found for window, _, found in COUNTS},
        },
    }


def _all() -> range:
    return range(len(BUCKETS))


def _sizes() -> tuple[Floats, Floats]:
    """Demands, and the share of jobs of each."""
    sizes = np.array([gpus for gpus, _ in SIZES])
    inside = np.array([share for _, share in SIZES])
    bucket = np.searchsorted([limit for limit, _, _ in BUCKETS], sizes)
    inside /= np.bincount(bucket, inside)[bucket]
    jobs = np.array([count for _, count, _ in BUCKETS])
    return sizes, inside * jobs[bucket] / jobs.sum()


def _by_bucket_and_kind() -> Floats:
    """Share of jobs of each size and kind ``[C, K]``: workers and requests at first independent."""
    limits = [limit for limit, _, _ in BUCKETS]
    gpus = np.array([0.5, 1, 2, 4, 8])
    workers = np.array([1, *(number for number, _ in WORKERS)])
    counts = np.array([count for _, count in WORKERS])
    seed = np.zeros((len(BUCKETS), len(KINDS)))
    for k, kind in enumerate(KINDS):
        shares = np.concatenate([[kind.jobs - kind.several], kind.several * counts / counts.sum()])
        both = np.outer(kind.requests, shares) / kind.jobs
        where = np.searchsorted(limits, np.minimum(np.outer(gpus, workers), limits[-1]))
        np.add.at(seed[:, k], where.ravel(), both.ravel())
    rows = np.array([count for _, count, _ in BUCKETS]) / JOBS
    columns = np.array([kind.jobs for kind in KINDS], np.float64)
    return rake(seed, rows, columns / columns.sum())


def _run_times(
    kind: Kind, shares: Floats, gpus: Floats, knots: list[float]
) -> tuple[Floats, float]:
    """Run times by size, in bins between the knots ``[C, B]``, and where they lie inside."""
    longest = LONGEST_S if kind.priority else LONGEST_SPOT_S
    own = np.array([0.5, *(seconds for seconds, _ in kind.at_most), longest + 1])
    reached = np.array([count for _, count in kind.at_most]) / kind.jobs * 100
    percent = np.concatenate([[0.0], reached, [100.0]])
    whole = with_mean(own, percent, kind.mean_s, own[-2])
    steps = np.round(_percent(whole, knots), 4)
    curve = with_mean(knots, steps, kind.mean_s)
    shares = shares / shares.sum()
    jobs, work = np.array([[count, seconds] for _, count, seconds in BUCKETS]).T
    mean_c = _mean_run_times(work / jobs / gpus, shares, gpus, kind)
    bins = np.diff(steps) / 100
    filled = bins > 0
    coupled = couple(
        shares[:, None],
        bins[filled],
        curve.bin_means_s()[filled],
        gpus_c=gpus,
        mean_c=mean_c,
        work_k=[1.0],
    )
    joint = np.zeros((len(shares), len(bins)))
    joint[:, filled] = coupled[:, 0]
    return joint, curve.skew


def _percent(curve: DurationCurve, times_s: list[float]) -> Floats:
    """Percent of the jobs that run at most so long."""
    parts = np.linspace(0, 1, 400_001)[:-1]
    found = np.interp(times_s, curve.quantiles(parts), 100 * parts)
    found[np.asarray(times_s) >= curve.knots_s[-1]] = 100
    return found


def _mean_run_times(both: Floats, shares: Floats, gpus: Floats, kind: Kind) -> Floats:
    """Mean run time (s) of each size, with the means of run time and GPU time of a kind.

    As of both kinds together, times a power of the demand.
    """

    def means(power: float) -> Floats:
        shape = both * gpus**power
        return kind.mean_s * shape / (shares @ shape)

    wanted = kind.gpu_seconds / kind.jobs
    return means(brentq(lambda power: shares @ (gpus * means(power)) - wanted, -3, 3))


def _factors() -> list[tuple[int, float]]:
    """Gamma factors that give the counts of hours and days their variance beside the profiles'."""
    relative = []
    for window, mean, dispersion in COUNTS:
        profile = np.outer(HOURS, WEEKDAYS) if window == HOUR_S else np.array(WEEKDAYS)
        spread = np.var(profile) / np.mean(profile) ** 2
        relative.append((1 + (dispersion - 1) / mean) / (1 + spread) - 1)
    return cascade(relative, [window for window, _, _ in COUNTS])
