"""E3: the cluster of 2474 GPUs (Figure 5)."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs import pictures
from benchmarks.papers.mlfs.comparison import INTERVALS, MINUTE, all_metrics, unfinished
from benchmarks.papers.mlfs.judging import by_load, checks_of, series_of
from benchmarks.papers.mlfs.players import cluster_env, heuristic, learned_players, settings_of
from benchmarks.papers.mlfs.plays import play_all, samples_of, test_tables, values_of
from benchmarks.papers.outcome import Outcome
from jaxsched.envs.mlfs.show.paper import (
    BANDWIDTH,
    DEADLINES,
    JCT,
    LARGE,
    MLF_H,
    MLF_HC,
    MLFS,
    TARGETS,
    WAIT,
)

TRACE, CLUSTER = "mlfs-large-x1", "large"
RULES = (MLF_H, "tiresias", MLF_HC)
NUM_TABLES = 1  # an episode of 20,000 jobs takes hours
METRICS = {
    DEADLINES: "share of the jobs that meet their deadline",
    TARGETS: "share of the jobs that reach their target by the deadline",
}


def large_cluster(lab: Lab) -> Outcome:
    """E3, Fig. 5: MLF-H, Tiresias, MLF-H with MLF-C, and policies of given runs."""
    env = cluster_env(lab, CLUSTER)
    players = [heuristic(lab, name, env) for name in RULES]
    players += learned_players(lab, env, needed=False)
    jobs = settings_of(lab).large_jobs
    tables = test_tables(lab, TRACE, count=NUM_TABLES, num_jobs=jobs)
    load = f"{jobs} jobs"
    plays = play_all(lab, players, {load: tables})
    found = plays[load]
    shown = [
        by_load(plays, JCT, "average completion time (min)", unit=MINUTE, digits=1),
        by_load(plays, WAIT, "average waiting time (min)", unit=MINUTE, digits=1),
        *(by_load(plays, metric, title) for metric, title in METRICS.items()),
        by_load(plays, BANDWIDTH, "sent between servers (MB)", digits=0),
        all_metrics(found, load),
    ]
    best = MLFS if MLFS in found else MLF_HC
    claims = [x._replace(policy=best) if x.policy == MLFS else x for x in LARGE]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        pictures.distribution(left, found)
        figures.legend_beside(figure, left)
        minutes = {"JCT": [points[0] for points in series_of(plays, JCT, MINUTE).values()]}
        figures.bars(right, list(found), minutes, y_label="average JCT (min)", slant=True)

    number = f"2474 GPUs; means of {len(tables)} workload" + "s" * (len(tables) > 1)
    sentences = [number, INTERVALS, *unfinished(plays)]
    if best == MLF_HC:
        sentences.append(f"no trained policy was given: {MLF_HC} stands for {MLFS}")
    checks = checks_of(samples_of(found), claims)
    return Outcome(shown, checks, values_of(plays), draw, sentences)
