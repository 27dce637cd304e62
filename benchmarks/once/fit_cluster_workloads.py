"""Fit the parameters of the cluster workloads to published files.

    python -m benchmarks.once.fit_cluster_workloads FOLDER [NAME ...]

FOLDER holds the published tables as ``philly/philly.csv.gz`` (successful jobs, from the Pollux
artifact), ``philly/philly_job_distribution_all.csv.gz`` (run time and GPUs of jobs of all statuses,
from Gavel), ``philly/vc_jobs_all_status_4vc.csv.gz`` (four virtual clusters, from Muri),
``itp/raw/cluster*.csv.gz``, ``alibaba/gpu-v2023/openb_pod_list_default.csv.gz`` and, read out of
the figures of the Helios artifact, ``helios/figures/*.csv`` and
``helios/helios_cluster_summary.csv``. The files go to ``jaxsched/traces/data/clusters``; NAMEs
choose some of them.
"""

import argparse
import csv
import gzip
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.once.acme_figures import ACME, acme
from benchmarks.once.cluster_figures import helios, pai
from benchmarks.once.fitting import duration_knots, fit, size_classes, with_cascade
from benchmarks.once.spot_figures import spot_gpu
from jaxsched.traces.clusters.arrivals import DAY_S, Arrivals
from jaxsched.traces.clusters.measure import SIZE_BINS, measure
from jaxsched.traces.readers import itp, philly_csv
from jaxsched.traces.trace import Trace

OUT = Path(__file__).parents[2] / "jaxsched" / "traces" / "data" / "clusters"
COMMAND = "python -m benchmarks.once.fit_cluster_workloads"
KILLED_SHARE = 13.5 / (13.5 + 17.2)
"""Killed among the Philly jobs that were killed or failed (Jeon et al., ATC'19), recalled."""

PHILLY_HOURS = [16, 14, 16, 14, 14, 16, 20, 18, 20, 17, 14, 12]
PHILLY_HOURS += [11, 11, 10, 11, 11, 15, 15, 15, 15, 16, 17, 19]
PHILLY_WEEKDAYS = [0.76, 1.07, 1.15, 1.35, 1.48, 0.65, 0.55]
PHILLY_USERS = 300
HELIOS = ("venus", "earth", "saturn", "uranus")
ITP = ("02", "04", "07", "08")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    made = makers()
    for name in arguments.names or made:
        content = made[name](arguments.folder)
        content["sources"]["command"] = f"{COMMAND} FOLDER {name}"
        write(OUT / f"{name}.json", content)
        print(name, f"{(OUT / f'{name}.json').stat().st_size / 1024:.1f} KiB")


def makers() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """How each workload's parameters are made."""
    return {
        "philly-like": philly_all,
        "philly-pass-like": philly_pass,
        "philly-vc-like": philly_vc,
        **{f"helios-{c}-like": partial(helios, cluster=c) for c in HELIOS},
        "itp-like": itp_pooled,
        **{f"itp-cluster{c}-like": partial(itp_cluster, cluster=c) for c in ITP},
        "openb-like": openb,
        "pai-like": lambda folder: pai(),
        "spot-gpu-like": lambda folder: spot_gpu(),
        **{f"acme-{c}-like": partial(acme_cluster, cluster=c) for c in ACME},
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """One JSON file, a line per field, outcome and statistic."""
    path.parent.mkdir(exist_ok=True)
    lines = []
    for key, value in content.items():
        if key == "classes":
            body = ",\n".join(f"  {json.dumps(rounded(entry))}" for entry in value)
            lines.append(f'"classes": [\n{body}\n ]')
        elif isinstance(value, dict) and value:
            body = ",\n".join(
                f"  {json.dumps(k)}: {json.dumps(rounded(v))}" for k, v in value.items()
            )
            lines.append(f"{json.dumps(key)}: {{\n{body}\n }}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(rounded(value))}")
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Numbers with at most seven significant digits; whole ones without a point."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    if isinstance(value, float):
        short = float(f"{value:.7g}")
        return int(short) if short.is_integer() else short
    return value


def epoch_seconds(stamp: str) -> float:
    """Seconds from 1970-01-01 to a local date and time."""
    return float(np.datetime64(stamp.replace(" ", "T"), "s").astype(np.int64))


def philly_table(folder: Path) -> Trace:
    """Successful jobs between 3 October and 14 December 2017, where the log is dense."""
    jobs = philly_csv.read(folder / "philly/philly.csv.gz").by_submission()
    begin, end = epoch_seconds("2017-10-03 00:00:00"), epoch_seconds("2017-12-15 00:00:00")
    times = jobs["submit_time"]
    dense = jobs.take((times >= begin) & (times < end))
    status = np.full(len(dense), "completed")
    return Trace({**dense.columns, "status": status}, "philly", clock="local")


def philly_arrivals(jobs: Trace) -> dict[str, Any]:
    """Cascade of all successful jobs, with the hourly profile that bursts do not dominate."""
    times = jobs["submit_time"]
    hours = tuple(round(24 * h / sum(PHILLY_HOURS), 4) for h in PHILLY_HOURS)
    mean_gap = round(float(np.mean(np.diff(times))), 3)
    made = Arrivals(mean_gap, hours=hours, weekdays=tuple(PHILLY_WEEKDAYS))
    return asdict(with_cascade(made, times))


PHILLY_ARRIVALS = (
    "measured on the 73,565 successful jobs of 2017-10-03..12-14: gaps, weekdays and the variance "
    "of counts; hours are medians over days, since a few bursts dominate the means"
)
PHILLY_USERS_SOURCE = "assumed: 300 users with shares as 1 / rank; the tables hold no users"


def philly_pass(folder: Path) -> dict[str, Any]:
    """Successful jobs."""
    jobs = philly_table(folder)
    content = fit(
        jobs,
        description="Microsoft Philly 2017, successful jobs: one-GPU jobs in bursts",
        sources={
            "jobs": "measured: table of successful jobs published with Pollux (OSDI'21), of the "
            "trace of Jeon et al., ATC'19 (CC-BY-4.0)",
            "arrivals": PHILLY_ARRIVALS,
            "num_users": PHILLY_USERS_SOURCE,
        },
        num_gpus=2474,
        class_limits=(1, 2, 4, 8, 16),
    )
    content["arrivals"] = philly_arrivals(jobs)
    content["published"]["hours"] = content["arrivals"]["hours"]
    return {**content, "num_users": PHILLY_USERS}


def philly_all(folder: Path) -> dict[str, Any]:
    """Jobs of all statuses; their times are those of the successful ones."""
    passed = philly_pass(folder)
    with gzip.open(folder / "philly/philly_job_distribution_all.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    gpus = np.asarray([float(row["scale_factor"]) for row in rows])
    duration = np.maximum([float(row["duration"]) for row in rows], 1.0)
    ok = np.asarray([row["matched_pass"] == "1" for row in rows])
    times = np.arange(len(rows), dtype=np.float64)
    trace = Trace(
        {
            "submit_time": times,
            "num_gpus": gpus,
            "duration": duration,
            "status": np.where(ok, "completed", "failed"),
        },
        "philly",
    )
    knots = duration_knots(0.5, float(np.max(duration)) + 1, 4)
    classes = size_classes(trace, (1, 2, 4, 32), knots)
    for entry in classes:
        entry["outcomes"] = [part for o in entry["outcomes"] for part in _split(o)]
    classes[-1]["max_gpus"] = 32
    sizes = [[1, 0.8665], [2, 0.0226], [4, 0.0492], [8, 0.0510], [16, 0.0078], [32, 0.0029]]
    published = measure(trace)
    for key in ("gap_s", "dispersion", "hours", "weekdays"):
        published[key] = passed["published"][key]
    published["status"] = {"completed": float(np.mean(ok))}
    published["status"] |= dict(zip(("killed", "failed"), _parts(1 - np.mean(ok)), strict=True))
    published["status_by_size"] = {
        name: {"completed": part["completed"]} for name, part in published["status_by_size"].items()
    }
    published["gpu_time_by_status"] = {"completed": 0.313, "killed": 0.326, "failed": 0.361}
    published["demand"] = _lumped(published["demand"])
    for key in ("mean_gpus", "gpu_seconds_per_job", "gpu_time"):
        del published[key]
    return {
        **passed,
        "description": "Microsoft Philly 2017, completed, killed and failed jobs",
        "sources": {
            "jobs": "measured: run time and GPUs of 111,549 jobs published with Gavel (OSDI'20), "
            "successful ones told by comparison with the table published with Pollux (OSDI'21); "
            "trace of Jeon et al., ATC'19 (CC-BY-4.0). Demands of 8 and more are one number "
            "there; 8, 16 and 32 are split as in the four virtual clusters published with Muri "
            "(SIGCOMM'22) and in the successful jobs",
            "killed and failed": "recalled: 13.5 and 17.2 % of jobs (Jeon et al., ATC'19); both "
            "have the run times of the jobs that did not succeed",
            "published gpu_time_by_status": "digitised: Hu et al., SC'21, comparison with Philly",
            "published clipped_at_8": "measured; the source clips GPUs at 8",
            "arrivals": PHILLY_ARRIVALS,
            "num_users": PHILLY_USERS_SOURCE,
        },
        "sizes": sizes,
        "knots_s": list(knots),
        "classes": classes,
        "published": published,
    }


def _parts(share: float) -> tuple[float, float]:
    return float(share) * KILLED_SHARE, float(share) * (1 - KILLED_SHARE)


def _split(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """Killed and failed in place of not successful."""
    if outcome["status"] == "completed":
        return [outcome]
    killed, failed = _parts(outcome["share"])
    return [
        {**outcome, "status": "killed", "share": killed},
        {**outcome, "status": "failed", "share": failed},
    ]


def _lumped(shares: dict[str, float]) -> dict[str, float]:
    """Shares by size below 8 GPUs, and those of 8 and more under ``>=5``."""
    small = {name: shares[name] for name in SIZE_BINS[:4]}
    return {**small, ">=5": 1 - sum(small.values())}


def philly_vc(folder: Path) -> dict[str, Any]:
    """One virtual cluster with many multi-GPU jobs, all statuses."""
    with gzip.open(folder / "philly/vc_jobs_all_status_4vc.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["vc"] == "ee9e8c"]
    ok = np.asarray([row["matched_pass"] == "1" for row in rows])
    jobs = Trace(
        {
            "submit_time": np.asarray([epoch_seconds(row["submit_time"]) for row in rows]),
            "num_gpus": np.asarray([float(row["num_gpus"]) for row in rows]),
            "duration": np.maximum([float(row["duration_s"]) for row in rows], 1.0),
            "status": np.where(ok, "completed", "failed"),
        },
        "philly-vc",
        clock="local",
    )
    content = fit(
        jobs,
        description="Microsoft Philly 2017, virtual cluster ee9e8c: multi-GPU jobs, few successful",
        sources={
            "jobs": "measured: 5,755 jobs of virtual cluster ee9e8c published with Muri "
            "(SIGCOMM'22), of the trace of Jeon et al., ATC'19 (CC-BY-4.0); successful ones told "
            "by comparison with the table published with Pollux (OSDI'21)",
            "killed and failed": "recalled: 13.5 and 17.2 % of jobs (Jeon et al., ATC'19)",
            "num_users": "assumed: 40 users with shares as 1 / rank",
        },
        class_limits=(1, 2, 4, 8),
        num_phases=5,
    )
    for entry in content["classes"]:
        entry["outcomes"] = [part for o in entry["outcomes"] for part in _split(o)]
    published = content["published"]
    for shares in (published["status"], *published["status_by_size"].values()):
        shares["killed"], shares["failed"] = _parts(1 - shares["completed"])
    published["gpu_time_by_status"] = {"completed": published["gpu_time_by_status"]["completed"]}
    return {**content, "num_users": 40}


def acme_cluster(folder: Path, cluster: str) -> dict[str, Any]:
    """One cluster of Acme; its figures are in the module."""
    return acme(cluster)


def itp_cluster(folder: Path, cluster: str) -> dict[str, Any]:
    """One ITP cluster."""
    return fit(
        itp.read(folder / f"itp/raw/cluster{cluster}.csv.gz"),
        description=f"Microsoft ITP 2021, cluster {cluster}: jobs of ten minutes and more",
        sources={"all": "measured: trace published with ElasticFlow, ASPLOS'23 (MIT)"},
        class_limits=(1, 2, 4, 8, 16),
        knots_per_octave=8,
        num_phases=5,
    )


def itp_pooled(folder: Path) -> dict[str, Any]:
    """All ten clusters as one stream."""
    traces = [itp.read(path) for path in sorted((folder / "itp/raw").glob("cluster*.csv.gz"))]
    columns = {
        name: np.concatenate([trace[name] for trace in traces])
        for name in ("submit_time", "num_gpus", "duration")
    }
    return fit(
        Trace(columns, "itp"),
        description="Microsoft ITP 2021, all ten clusters: jobs of ten minutes and more",
        sources={"all": "measured: trace published with ElasticFlow, ASPLOS'23 (MIT)"},
        class_limits=(1, 2, 4, 8, 16),
        knots_per_octave=8,
    )


def openb(folder: Path) -> dict[str, Any]:
    """Pods with parts of GPUs; days 115 to 149, where creations are dense."""
    path = folder / "alibaba/gpu-v2023/openb_pod_list_default.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["scheduled_time"]]
    created = np.asarray([float(row["creation_time"]) for row in rows])
    scheduled = np.asarray([float(row["scheduled_time"]) for row in rows])
    deleted = np.asarray([float(row["deletion_time"]) for row in rows])
    milli = np.asarray([float(row["num_gpu"]) * float(row["gpu_milli"]) for row in rows])
    trace = Trace(
        {
            "submit_time": created,
            "num_gpus": milli / 1000,
            "duration": np.maximum(deleted - scheduled, 1.0),
        },
        "openb",
    ).take((created >= 115 * DAY_S) & (created < 150 * DAY_S))
    content = fit(
        trace,
        description="Alibaba openb 2023: pods with parts of GPUs, some without",
        sources={
            "all": "measured: scheduled pods created in days 115-149 of the list published with "
            "FGD, ATC'23; run time from scheduling to deletion. Phases are left out: they tell "
            "how pods stood when the list was taken, not how they ended"
        },
        num_gpus=6212,
        class_limits=(0, 0.999, 1),
        num_phases=3,
    )
    total = sum(count for _, count in content["sizes"])
    content["runs"] = None  # neighbouring pods are no more alike than chance has it
    content["sizes"] = [[gpus, count / total] for gpus, count in content["sizes"]]
    return content


if __name__ == "__main__":
    main()
