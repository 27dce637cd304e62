"""E10: the order of the rules on jobs of Microsoft's Philly cluster, by load."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs import pictures
from benchmarks.papers.mlfs.comparison import MINUTE, load_name, unfinished
from benchmarks.papers.mlfs.judging import by_load, checks_of
from benchmarks.papers.mlfs.players import cluster_env, heuristic
from benchmarks.papers.mlfs.plays import NUM_TABLES, play_all, samples_of, values_of
from benchmarks.papers.outcome import Outcome
from benchmarks.papers.settings import ROLE_SEEDS
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import SMALL_JOBS, SPAN_S
from jaxsched.envs.mlfs.show.paper import BASELINES, DEADLINES, JCT, MLF_H, PHILLY
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.systems import functions
from jaxsched.traces.formats import load_trace
from jaxsched.traces.mapping import import_trace
from jaxsched.traces.named import data_file

FILE, CLUSTER = "philly_sample.csv.gz", "small"
LOADS, QUICK_LOADS = (0.5, 1.0, 2.0, 4.0), (0.5,)
RULES = (MLF_H, *(name for name in BASELINES if name != "fifo"))
NOTE = (
    "20 GPUs; 155 x jobs in 36 hours, drawn from the 500 jobs of Philly that the package ships: "
    "submissions and run times are theirs, models, numbers of GPUs, tasks and deadlines are drawn; "
    "intervals are 95 % bootstraps over workloads"
)


def philly_order(lab: Lab) -> Outcome:
    """E10: rules on Philly's jobs, x from 1/2 to 4 (the order of Fig. 5a)."""
    env = cluster_env(lab, CLUSTER)
    players = [heuristic(lab, name, env) for name in RULES]
    tables = {load_name(x): philly_tables(lab, env, x) for x in lab.choose(LOADS, QUICK_LOADS)}
    plays = play_all(lab, players, tables)
    shown = [
        by_load(plays, JCT, "average completion time (min) by load", unit=MINUTE, digits=1),
        by_load(plays, DEADLINES, "share of the jobs that meet their deadline"),
    ]
    checks = [
        replace(check, item=f"{load}: {check.item}")
        for load, found in plays.items()
        for check in checks_of(samples_of(found), PHILLY)
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        pictures.lines_by_load(left, plays, JCT, "average JCT (min)", MINUTE)
        pictures.lines_by_load(right, plays, DEADLINES, "deadline ratio")
        figures.legend_beside(figure, left)

    return Outcome(shown, checks, values_of(plays), draw, [NOTE, *unfinished(plays)])


def philly_tables(lab: Lab, env: MLFS, load: float) -> Sequence[JobTable]:
    """Test workloads of 155 x load jobs in 36 hours."""
    num_jobs = lab.settings.num_jobs or round(SMALL_JOBS * load)
    mapping = functions.mapping(lab.system, env, mean_gap_s=SPAN_S / num_jobs, load=None)
    with resources.as_file(data_file(FILE)) as path:
        trace = load_trace(path)
    imported = import_trace(
        trace,
        seed=ROLE_SEEDS["test"],
        num_traces=lab.settings.num_test or NUM_TABLES,
        num_jobs=num_jobs,
        config=mapping,
    )
    tables = lab.system.jobs.adapted(imported.tables)
    lab.digests[f"{FILE}, {load_name(load)}, {len(tables)} of {num_jobs} jobs"] = digest_tables(
        tables
    )
    return tables
