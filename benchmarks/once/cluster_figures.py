"""Parameters of the cluster workloads that are known from figures only: Helios and PAI.

``fit_cluster_workloads.py`` writes them with the others.
"""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.once.coupling import couple, rake
from benchmarks.once.fitting import cascade, duration_knots, with_mean
from jaxsched.traces.clusters.arrivals import DAY_S
from jaxsched.traces.clusters.measure import SIZE_BINS, WITHIN_S

VENUS_WEEKDAYS = [1.03, 1.07, 1.28, 1.21, 0.95, 0.68, 0.78]
HELIOS_DAYS = 181
SKEW_FROM_S = 4096
HELIOS_FACTORS_AT = {600: 1.93, 3600: 0.70, DAY_S: 0.183}


def pai() -> dict[str, Any]:
    """PAI, from the figures of its paper."""
    knots = duration_knots(0.5, 60.0 * DAY_S, 2)
    mixture = ((0.366, 4.158, 1.331), (0.634, 7.501, 1.801))
    percent = [
        100
        * sum(
            w * 0.5 * math.erfc(-(math.log(t) - mu) / sigma / math.sqrt(2))
            for w, mu, sigma in mixture
        )
        for t in knots
    ]
    percent = [0.0, *np.round(percent[1:-1], 4).tolist(), 100.0]
    outcome = {"status": "", "share": 1.0, "percent": percent, "skew": 1.0}
    hours: list[float] = [1085, 740, 535, 440, 555, 535, 600, 730, 590, 700, 1080, 1115]
    hours += [770, 760, 960, 1005, 970, 1075, 810, 800, 770, 680, 605, 520]
    hours = [round(24 * h / sum(hours), 4) for h in hours]
    gpu_sizes = ((0.1, 14.7), (0.25, 26.5), (0.5, 13.2), (1.0, 43.0), (2.0, 2.75))
    total = sum(share for _, share in gpu_sizes)
    cpu_share = 1 - 82_184 / 100_000
    kinds = {"MISC": 0.671, "T4": 0.217, "P100": 0.069, "V100": 0.026, "V100M32": 0.016}
    demand = dict.fromkeys(SIZE_BINS, 0.0) | {"<1": 0.543, "1": 0.43, "2": 0.0275}
    return {
        "description": "Alibaba PAI 2020: short jobs, most on a part of a GPU, some without",
        "sources": {
            "sizes": "digitised: Weng et al., NSDI'22, GPUs per instance; one number stands for "
            "each bin (below 0.25, 0.25-0.5, 0.5-1, 1, above 1). CPU jobs: 17.8 % of the "
            "simulator's sample of 100,000 jobs, as a third party counted them",
            "classes": "digitised: Weng et al., NSDI'22, run time of tasks; a mixture of two "
            "log-normals, (0.366, 4.158, 1.331) and (0.634, 7.501, 1.801), with an error of at "
            "most 0.022 in the distribution, cut at 60 days; independent of the demand",
            "arrivals": "digitised: Weng et al., NSDI'22, tasks per hour (medians), about 800 GPU "
            "tasks an hour; independent exponential gaps otherwise",
            "gpu_types": "digitised: Weng et al., NSDI'22, share of tasks",
            "num_gpus": "measured: the machine list published with the trace",
        },
        "num_gpus": 6742,
        "sizes": [[0, cpu_share], *((g, (1 - cpu_share) * s / total) for g, s in gpu_sizes)],
        "knots_s": list(knots),
        "skew_from_s": 0,
        "classes": [{"max_gpus": 2, "outcomes": [outcome], "groups": {}}],
        "arrivals": {
            "mean_gap_s": 4.5 * (1 - cpu_share),
            "phases": [[1, 1]],
            "stay": 0,
            "factors": [],
            "hours": hours,
            "weekdays": [],
        },
        "runs": None,
        "gpu_types": kinds,
        "num_users": 0,
        "published": {
            "cpu_share": cpu_share,
            "demand": demand,
            "duration_s": {"p10": 25, "p50": 507, "p90": 11000, "p99": 99000},
            "over_1h": 0.23,
            "gap_s": {"mean": 4.5},
            "hours": hours,
        },
    }


def helios(folder: Path, cluster: str) -> dict[str, Any]:
    """One Helios cluster, from the figures and the summary of its paper's artifact."""
    title = cluster.capitalize()
    figures = folder / "helios/figures"
    sizes_table = _columns(figures / "job_gpu_num_cdf_percent.csv")
    times_table = _columns(figures / "job_duration_cdf_percent.csv")
    status_table = _columns(figures / "status_by_gpu_num_percent.csv")
    hours_table = _columns(figures / "diurnal.csv")
    with open(folder / "helios/helios_cluster_summary.csv", encoding="utf-8") as file:
        summary = next(row for row in csv.DictReader(file) if row["id"] == title)
    number = {key: float(value) for key, value in summary.items() if key != "id"}

    gpus = sizes_table["gpu_num_le"]
    shares = np.diff(sizes_table[f"{title}_jobs"], prepend=0.0) / 100
    work = np.diff(sizes_table[f"{title}_gpu_time"], prepend=0.0) / 100
    rest = (number["avg_gpu_num"] - shares[:-1] @ gpus[:-1]) / shares[-1]
    gpus[-1] = max(round(rest / 8) * 8, 72)
    by_status = np.asarray([number[f"{s}_gpu_time"] for s in ("complete", "cancel", "fail")])
    gpu_seconds = float(by_status.sum() / number["gpu_job_num"])

    limits = np.asarray([1, 2, 4, 8, 16, 32, 64, gpus[-1]])
    index = np.searchsorted(limits, gpus)
    share_c = np.bincount(index, shares)
    gpus_c = np.bincount(index, shares * gpus) / share_c
    work_c = np.bincount(index, work)
    mean_c = work_c * gpu_seconds / (share_c * gpus_c)
    columns = ("completed_percent", "canceled_percent", "failed_percent")
    table = np.stack([status_table[column] for column in columns], axis=1)
    table = np.concatenate([table, table[-1:]])
    rates = [number[f"{s}_rate_gpu"] for s in ("complete", "cancel", "fail")]
    joint = rake(table * share_c[:, None], share_c / share_c.sum(), rates)

    knots = [0.5, *times_table["duration_s"].tolist()]
    percent = [0.0, *times_table[f"{title}_gpu_jobs"][:-1].tolist(), 100.0]
    curve = with_mean(knots, percent, number["avg_run_time_gpu"], SKEW_FROM_S)
    coupled = couple(
        joint,
        np.diff(percent) / 100,
        curve.bin_means_s(),
        gpus_c=gpus_c,
        mean_c=mean_c,
        work_k=by_status,
    )
    cpu_percent = [0.0, *times_table[f"{title}_cpu_jobs"][:-1].tolist(), 100.0]
    cpu_curve = with_mean(knots, cpu_percent, number["avg_run_time_cpu"], SKEW_FROM_S)
    cpu_rates = np.asarray([number[f"{s}_rate_cpu"] for s in ("complete", "cancel", "fail")])
    statuses = ("completed", "killed", "failed")
    cpu_outcomes = [
        {"status": s, "share": float(rate), "percent": cpu_percent, "skew": cpu_curve.skew}
        for s, rate in zip(statuses, cpu_rates / cpu_rates.sum(), strict=True)
    ]
    classes = [{"max_gpus": 0, "outcomes": cpu_outcomes, "groups": {}}]
    for c, limit in enumerate(limits):
        outcomes = []
        for k, status in enumerate(statuses):
            steps = np.cumsum(coupled[c, k]) / coupled[c, k].sum() * 100
            curve_percent = [0.0, *np.round(steps[:-1], 4).tolist(), 100.0]
            share = float(coupled[c, k].sum() / coupled[c].sum())
            outcomes.append(
                {"status": status, "share": share, "percent": curve_percent, "skew": curve.skew}
            )
        classes.append({"max_gpus": float(limit), "outcomes": outcomes, "groups": {}})

    cpu_share = number["cpu_job_num"] / number["job_num"]
    submitted = hours_table[f"{title}_avg_gpu_jobs_submitted_per_hour"]
    hours = [round(float(h), 4) for h in submitted / submitted.mean()]
    mean_gap = HELIOS_DAYS * DAY_S / number["gpu_job_num"]
    size = np.where(gpus < 1, 0, 1 + np.searchsorted((1, 2, 4, 8, 16, 32), gpus))
    by_bin = [np.bincount(size, w, minlength=len(SIZE_BINS)) for w in (shares, work)]
    jobs_by_bin, work_by_bin = (
        dict(zip(SIZE_BINS, (w / w.sum()).tolist(), strict=True)) for w in by_bin
    )
    return {
        "description": f"SenseTime Helios 2020, cluster {title}: GPU and CPU jobs, three outcomes",
        "sources": {
            "sizes, knots_s, hours": "read out of the vector figures of the artifact of Hu et al., "
            "SC'21 (CC-BY-4.0): GPUs of jobs, run time of GPU and of CPU jobs, GPU jobs submitted "
            "per hour; jobs above 64 GPUs have one demand that gives the published mean",
            "classes": "fitted to the published margins by coupling.couple: run time of all GPU "
            "jobs, share of jobs and of GPU time by size (read out), outcome by size over all four "
            "clusters (read out) raked to the outcomes of this cluster, and GPU time by outcome "
            "(summary of the artifact); skew gives the published mean run time",
            "arrivals": "GPU jobs over 181 days (summary); weekdays and the variance of counts "
            "measured on the 10-minute throughput of Venus"
            + ("" if cluster == "venus" else ", assumed to hold for this cluster too")
            + "; CPU jobs are assumed to come as GPU jobs do",
        },
        "num_gpus": int(number["gpu_num"]),
        "sizes": [
            [0, cpu_share],
            *([float(g), float(s) * (1 - cpu_share)] for g, s in zip(gpus, shares, strict=True)),
        ],
        "knots_s": knots,
        "skew_from_s": SKEW_FROM_S,
        "classes": classes,
        "arrivals": {
            "mean_gap_s": mean_gap * (1 - cpu_share),
            "phases": [[1, 1]],
            "stay": 0,
            "factors": helios_factors(),
            "hours": hours,
            "weekdays": VENUS_WEEKDAYS,
        },
        "runs": None,
        "gpu_types": {},
        "num_users": 0,
        "published": {
            "cpu_share": cpu_share,
            "demand": jobs_by_bin,
            "mean_gpus": number["avg_gpu_num"],
            "duration_s": {"p50": number["med_run_time_gpu"], "mean": number["avg_run_time_gpu"]},
            "within_s": {str(s): percent[knots.index(s)] / 100 for s in WITHIN_S},
            "gpu_seconds_per_job": gpu_seconds,
            "gpu_time": work_by_bin,
            "status": dict(zip(statuses, (np.asarray(rates) / sum(rates)).tolist(), strict=True)),
            "gpu_time_by_status": dict(
                zip(statuses, (by_status / by_status.sum()).tolist(), strict=True)
            ),
            "gap_s": {"mean": mean_gap},
            **({"dispersion": {"600": 15, "3600": 39, "86400": 151}} if cluster == "venus" else {}),
            "hours": hours,
            "weekdays": VENUS_WEEKDAYS,
        },
    }


def helios_factors() -> list[tuple[int, float]]:
    """Cascade that gives Venus' counts their variance, less that of hours and weekdays."""
    return cascade(tuple(HELIOS_FACTORS_AT.values()), tuple(HELIOS_FACTORS_AT))


def _columns(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Columns of a table of numbers; '>=64' counts as 64."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        key: np.asarray([float(row[key].removeprefix(">=")) for row in rows]) for key in rows[0]
    }
