"""Shares of a GPU against whole GPUs, and FGD against best fit and first fit, on a log with shares.

    python -m benchmarks.gpu_shares LOG [--slots 20] [--out FILE.json]

The log is one whose jobs ask for parts of a GPU, such as Alibaba's ``openb_pod_list_default.csv``.

``waits``: the submissions of the log's dense days, each of a job drawn from them, on servers of 8
GPUs, of which there are as many as the days themselves take for a load of 0.9 if every share is
rounded up to a whole GPU. In every draw submissions come as close together as the load says, which
counts whole GPUs. Jobs are served as submitted, later ones where the first does not fit.

``filled``: an empty cluster is asked for ever more, as in the evaluation of FGD (Weng et al.,
USENIX ATC'23, section 6): tasks drawn from these jobs come one by one and never leave; what does
not fit is passed over. Its figure is the share of all GPUs that tasks hold once so many percent of
them were asked for, the mean over draws.
"""

import argparse
import json
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status, table
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.shares import slots_of
from jaxsched.provenance import surroundings
from jaxsched.results.statistics import paired_difference
from jaxsched.trace_replay import Cluster, Policy, Records, from_trace, replay_batch
from jaxsched.trace_replay.demands import capped
from jaxsched.trace_replay.policies import PLACINGS, Placing
from jaxsched.traces import Trace
from jaxsched.traces.formats import load

DAY_S, HOUR_S = 86_400, 3600
LOADS = (0.9, 1.1, 1.3)
ASKED = (80, 90, 100, 110, 120, 130)
FOREVER = 2**23
"""Seconds that a task of ``filled`` runs."""

WHOLE, BEST_FIT, GPUS = "whole GPUs, pack", "shares, pack", 8

Way = tuple[str, int, Placing]


def ways(slots: int) -> list[Way]:
    """Name, slots of a GPU and placement of what is compared."""
    whole: list[Way] = [(WHOLE, 1, "pack")]
    return whole + [(f"shares, {placing}", slots, placing) for placing in PLACINGS]


def jobs_of(path: Path, from_day: float) -> JobTable:
    """The jobs of a log from a day on.

    Raises:
      JaxschedError: the file is no log, or no job asks for a part of a GPU.
    """
    log = load(path)
    if not isinstance(log, Trace):
        raise JaxschedError(f"{path}: holds job tables; accepted: a published trace")
    jobs = from_trace(log)
    first = int(np.searchsorted(jobs["submit_time"], from_day * DAY_S))
    jobs = jobs.window(first, len(jobs) - first)
    if "gpu_milli" not in jobs.columns:
        raise JaxschedError(f"{path}: no job asks for a part of a GPU; accepted: a log with shares")
    return jobs


def waits(jobs: JobTable, slots: int, draws: int, seed: int) -> dict[str, Any]:
    """Mean waits (h) of every draw and GPU hours held, at every load, by way."""
    span = int(jobs["submit_time"][-1])
    servers = math.ceil(_work(jobs) / span / LOADS[0] / GPUS)
    rng = np.random.default_rng(seed)
    drawn = [_drawn(jobs, rng.integers(0, len(jobs), len(jobs))) for _ in range(draws)]
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, each, placing in ways(slots):
        cluster, policy = Cluster(servers, GPUS, slots=each), Policy("fifo", "skip", placing)
        rows[name] = []
        for goal in LOADS:
            played = replay_batch([_at_load(own, cluster, goal) for own in drawn], cluster, policy)
            hours = [float(np.sum(own.num_gpus * own.held)) / HOUR_S for own in played]
            rows[name].append(
                {
                    "avg_wait_h": [float(np.mean(own.wait)) / HOUR_S for own in played],
                    "gpu_hours": float(np.mean(hours)),
                }
            )
    shared = 100 * float(np.mean(jobs["gpu_milli"] < 1000))
    return {
        "num_servers": servers,
        "num_jobs": len(jobs),
        "shared_percent": shared,
        "loads": LOADS,
        "rows": rows,
    }


def _work(jobs: JobTable) -> float:
    """GPU-seconds in whole GPUs."""
    return float(np.sum(jobs["num_gpus"] * jobs["duration"]))


def _drawn(jobs: JobTable, rows: Integers) -> JobTable:
    """The log's submissions, each of one of its jobs."""
    names = [name for name in ("num_gpus", "gpu_milli", "duration") if name in jobs.columns]
    needs = {name: jobs[name][rows] for name in names}
    return JobTable({"submit_time": jobs["submit_time"], **needs})


def _at_load(jobs: JobTable, cluster: Cluster, goal: float) -> JobTable:
    """The jobs with submissions as far apart as a load in whole GPUs takes."""
    times = jobs["submit_time"]
    factor = _work(jobs) / cluster.num_gpus / goal / int(times[-1])
    return jobs.with_columns(submit_time=np.floor(times * factor).astype(np.int64))


def filled(jobs: JobTable, slots: int, servers: str, draws: int, seed: int) -> dict[str, Any]:
    """Percent of all GPUs held once so many percent were asked for, by way."""
    fine = Cluster.of(_with_slots(servers, slots))
    limited, _ = capped(jobs, fine)
    parts = slots_of(limited, fine.slots) / slots
    rng = np.random.default_rng(seed)
    tasks = math.ceil(2 * ASKED[-1] / 100 * fine.num_gpus / float(parts.mean()))
    drawn = [rng.integers(0, len(limited), tasks) for _ in range(draws)]
    drawn = [rows[: _until(parts[rows], ASKED[-1] / 100 * fine.num_gpus)] for rows in drawn]
    rows = {}
    for name, each, placing in ways(slots):
        cluster = Cluster.of(_with_slots(servers, each))
        tables = [_arriving(limited, own) for own in drawn]
        played = replay_batch(tables, cluster, Policy("fifo", "skip", placing))
        held = [
            _held(records, parts[own], fine.num_gpus)
            for records, own in zip(played, drawn, strict=True)
        ]
        rows[name] = {"mean": np.mean(held, axis=0).tolist(), "draws": held}
    return {"servers": servers, "draws": draws, "asked_percent": ASKED, "rows": rows}


def _with_slots(servers: str, slots: int) -> str:
    """``100x8/96`` with slots on each GPU."""
    size, sign, limits = servers.partition("/")
    return f"{size}x{slots}{sign}{limits}"


def _until(parts: Any, gpus: float) -> int:
    """How many tasks ask for so many GPUs."""
    return int(np.searchsorted(np.cumsum(parts), gpus)) + 1


def _arriving(jobs: JobTable, rows: Integers) -> JobTable:
    """Tasks of these jobs' needs, one a second."""
    names = [
        name for name in ("num_gpus", "gpu_milli", "cpus", "memory_gb") if name in jobs.columns
    ]
    needs = {name: jobs[name][rows] for name in names}
    count = len(rows)
    return JobTable({"submit_time": np.arange(count), "duration": np.full(count, FOREVER), **needs})


def _held(records: Records, parts: Any, gpus: int) -> list[float]:
    """Percent of the GPUs that tasks hold, in what they asked for, at each of ``ASKED``."""
    asked, fits = np.cumsum(parts), records.start == records.submit
    holds = np.cumsum(np.where(fits, parts, 0))
    return [100 * float(holds[_until(parts, p / 100 * gpus) - 1]) / gpus for p in ASKED
            if asked[-1] >= p / 100 * gpus]  # fmt: skip


def shown(found: dict[str, Any]) -> str:
    """Both tables; differences are paired over the draws, with 95 % bootstrap intervals."""
    waited, full = found["waits"], found["filled"]
    head, first = ["", "GPU hours held"], []
    for goal in LOADS:
        head += [f"wait at load {goal:g} (h)", "less than in whole GPUs"]
    reference = waited["rows"][WHOLE]
    for name, row in waited["rows"].items():
        cells = [name, f"{row[0]['gpu_hours']:,.0f}"]
        for at, usual in zip(row, reference, strict=True):
            mine, other = np.array(at["avg_wait_h"]), np.array(usual["avg_wait_h"])
            cells += [f"{mine.mean():.2f}", "" if name == WHOLE else _difference(other, mine)]
        first.append(cells)
    second, best_fit = [], np.array(full["rows"][BEST_FIT]["draws"])
    for name, row in full["rows"].items():
        gap = np.array(row["draws"])[:, -1] - best_fit[:, -1]
        more = "" if name == BEST_FIT else _difference(gap, np.zeros_like(gap))
        second.append([name, *(f"{value:.1f}" for value in row["mean"]), more])
    shared = f"{waited['num_jobs']} jobs, {waited['shared_percent']:.1f} % of parts of a GPU"
    size = f"{waited['num_servers']} servers of {GPUS} GPUs, {shared}"
    return "\n\n".join(
        (
            f"waits: {size}, {found['slots']} slots a GPU, {full['draws']} draws",
            table(head, first),
            f"filled: {full['servers']}, {full['draws']} draws, percent of the GPUs held",
            table(
                ["", *(f"{percent} % asked" for percent in ASKED), "more than best fit at the end"],
                second,
            ),
        )
    )


def _difference(more: Any, less: Any) -> str:
    gap = paired_difference(more, less)
    return f"{gap.estimate:.2f} [{gap.low:.2f}, {gap.high:.2f}]"


def main() -> None:
    """Replay, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--slots", type=int, default=20, help="of each GPU")
    parser.add_argument("--from-day", type=float, default=115, help="of the log")
    parser.add_argument("--servers", default="60x8/96", help="that are filled")
    parser.add_argument("--draws", type=int, default=10, help="of jobs and of tasks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="JSON file")
    asked = parser.parse_args()
    jobs = jobs_of(asked.log, asked.from_day)
    words = [asked.log.name if word == str(asked.log) else word for word in sys.argv[1:]]
    found = {
        "command": shlex.join(["python", "-m", "benchmarks.gpu_shares", *words]),
        **surroundings(),
        "log": asked.log.name,
        "slots": asked.slots,
        "waits": waits(jobs, asked.slots, asked.draws, asked.seed),
        "filled": filled(jobs, asked.slots, asked.servers, asked.draws, asked.seed),
    }
    print(shown(found))
    if asked.out is not None:
        write_whole(asked.out, json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    sys.exit(exit_status(main))
