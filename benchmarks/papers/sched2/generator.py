"""F3: what the generator draws (Figure 3)."""

from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, show
from benchmarks.papers.settings import ROLE_SEEDS
from jaxsched import traces
from jaxsched.envs.sched2.show.paper import (
    ONE_GPU_SHARE,
    PERCENT,
)
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.traces import describe_tables

TRACE = f"sched2-{PERCENT}"
NUM_JOBS, NUM_TRACES, TRACE_JOBS = 10_000, 30, 1000
SHARES = np.linspace(0.0, 1.0, 201)


def generated(lab: Lab) -> Outcome:
    """F3, Fig. 3: one long table, and for the gaps tables of an episode's length."""
    (long,) = _drawn(lab, 1, NUM_JOBS)
    figures_of = describe_tables([long], num_gpus=120)
    gap_cv = describe_tables(_drawn(lab, NUM_TRACES, TRACE_JOBS))["gap_s"]["cv"]
    demand, duration = figures_of["demand"], figures_of["duration_s"]
    table = Table(
        f"{NUM_JOBS} jobs",
        ["what", "value"],
        [
            *([f"jobs of {gpus} GPUs", count] for gpus, count in demand.items()),
            *([f"run time, {name} (s)", value] for name, value in duration.items()),
            ["mean gap (s)", figures_of["gap_s"]["mean"]],
            [f"gap variation, mean of {NUM_TRACES} tables", show(gap_cv, 2)],
            ["offered load of 120 GPUs", show(figures_of["load"], 3)],
        ],
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        counts = {"jobs": [float(count) for count in demand.values()]}
        figures.bars(left, list(demand), counts, y_label="jobs", title="GPUs of a job")
        hours = np.quantile(long["duration"], SHARES) / 3600
        curve = {"run time": list(zip(hours, SHARES, strict=True))}
        figures.curves(right, curve, x_label="run time (h)", y_label="share of the jobs")

    checks = checks_of(figures_of["one_gpu_share"], duration["mean"], gap_cv)
    return Outcome([table], checks, {"long": figures_of, "gap_cv": gap_cv}, draw)


def checks_of(one_gpu_share: float, mean_duration_s: float, gap_cv: float) -> list[Check]:
    """What the paper says of its trace."""
    return [
        Check("share of one-GPU jobs", show(ONE_GPU_SHARE, 2), show(one_gpu_share, 4)),
        Check("mean run time (s)", "minutes to hours", show(mean_duration_s)),
        Check("variation of the gaps", "-", show(gap_cv, 2)),
    ]


def _drawn(lab: Lab, num_traces: int, num_jobs: int) -> list[JobTable]:
    tables = traces.get(TRACE, seed=ROLE_SEEDS["test"], num_traces=num_traces, num_jobs=num_jobs)
    lab.digests[f"{TRACE}, test, {num_traces} of {num_jobs} jobs"] = digest_tables(tables)
    return tables
