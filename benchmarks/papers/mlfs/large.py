"""E3: the cluster of 2474 GPUs (Figure 5)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs import pictures
from benchmarks.papers.mlfs.comparison import (
    GB,
    INTERVALS,
    MINUTE,
    all_metrics,
    load_name,
    unfinished,
)
from benchmarks.papers.mlfs.judging import by_load, checks_of
from benchmarks.papers.mlfs.players import (
    by_slot,
    cluster_env,
    heuristic,
    learned_players,
    settings_of,
)
from benchmarks.papers.mlfs.plays import play_all, samples_of, test_tables, values_of
from benchmarks.papers.outcome import Outcome
from jaxsched.envs.mlfs.show.paper import (
    BANDWIDTH,
    DEADLINES,
    JCT,
    LARGE,
    MLF_H,
    MLF_HC,
    MLF_RL,
    MLFS,
    TARGETS,
    WAIT,
    Claim,
)

CLUSTER = "large"
RULES = (MLF_H, "graphene", "tiresias", MLF_HC)
NUM_TABLES = 1  # an episode of 20,000 jobs takes minutes
METRICS = {
    DEADLINES: "share of the jobs that meet their deadline",
    TARGETS: "share of the jobs that reach their target by the deadline",
}


def large_cluster(lab: Lab) -> Outcome:
    """E3, Fig. 5: MLF-H with and without MLF-C, its rivals, and policies of given runs, by load."""
    settings = settings_of(lab)
    env = replace(cluster_env(lab, CLUSTER), max_active=settings.large_window)
    players = [by_slot(heuristic(lab, name, env)) for name in RULES]
    players += learned_players(lab, env, needed=False)
    usual = settings.large_jobs
    tables = {
        load_name(x): test_tables(
            lab, f"mlfs-{CLUSTER}-x{x:g}", count=NUM_TABLES, num_jobs=round(usual * x)
        )
        for x in settings.large_loads
    }
    plays = play_all(lab, players, tables)
    highest = list(plays)[-1]
    shown = [
        by_load(plays, JCT, "average completion time (min)", unit=MINUTE, digits=1),
        by_load(plays, WAIT, "average waiting time (min)", unit=MINUTE, digits=1),
        *(by_load(plays, metric, title) for metric, title in METRICS.items()),
        by_load(plays, BANDWIDTH, "sent between servers (GB)", unit=GB, digits=0),
        all_metrics(plays[highest], highest),
    ]
    learnt = MLFS in plays[highest]
    claims: Sequence[Claim] = LARGE
    if not learnt:
        among = [claim for claim in LARGE if MLF_RL not in (claim.policy, claim.other)]
        claims = [x._replace(policy=MLF_HC) if x.policy == MLFS else x for x in among]
    checks = [
        replace(check, item=f"{load}: {check.item}")
        for load, found in plays.items()
        for check in checks_of(samples_of(found), claims)
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        pictures.distribution(left, plays[highest], highest)
        pictures.lines_by_load(right, plays, JCT, "average JCT (min)", MINUTE)
        figures.legend_beside(figure, left)

    number = next(len(part) for part in tables.values())
    words = f"2474 GPUs, {usual} x jobs; means of {number} workload" + "s" * (number > 1)
    sentences = [words, INTERVALS, *unfinished(plays)]
    sentences.append(f"at most {env.max_active} jobs are in the cluster, others wait outside")
    if not learnt:
        sentences.append(f"no trained policy was given: {MLF_HC} stands for {MLFS}")
    return Outcome(shown, checks, values_of(plays), draw, sentences)
