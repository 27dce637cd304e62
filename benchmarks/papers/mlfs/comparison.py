"""E1 and E2: every policy at every load (Figures 4a to 4g); one set of plays, two reports."""

from collections.abc import Sequence
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs import pictures
from benchmarks.papers.mlfs.judging import Plays, by_load, checks_of, left_over
from benchmarks.papers.mlfs.players import (
    RULES,
    Player,
    cluster_env,
    heuristic,
    learned_players,
    settings_of,
)
from benchmarks.papers.mlfs.plays import Play, play_all, samples_of, test_tables, values_of
from benchmarks.papers.outcome import Cell, Outcome, Table, beside, not_tested, three
from benchmarks.papers.samples import mean_of
from jaxsched.envs.mlfs.show.paper import (
    ACCURACY,
    BANDWIDTH,
    COMPLETION,
    DEADLINES,
    JCT,
    MAKESPAN,
    MAKESPAN_H,
    OVERLOADS,
    QUALITY,
    SHORT,
    SHORT_SHARE,
    TARGETS,
    URGENT,
    WAIT,
)

LOADS = {"small": (1.0, 2.0, 3.0), "real": (0.25, 0.5, 1.0, 2.0, 3.0)}
QUICK_LOADS = (1.0, 3.0)
MINUTE, HOUR, GB = 60.0, 3600.0, 1000.0
INTERVALS = (
    "test tables are drawn with a seed that is used for nothing else; intervals are 95 % "
    "bootstraps over training seeds and tables; ratios are of means over both"
)


def completion(lab: Lab) -> Outcome:
    """E1, Fig. 4a and 4b: completion time and makespan."""
    plays = everyone(lab)
    loads = list(plays)
    highest = plays[loads[-1]]
    samples = samples_of(highest)
    tables = [
        by_load(plays, JCT, "average completion time (min) by load", unit=MINUTE, digits=1),
        by_load(plays, "median_jct", "median completion time (min)", unit=MINUTE, digits=1),
        by_load(plays, SHORT, "share of the jobs under 100 minutes"),
        by_load(plays, MAKESPAN, "makespan (h)", unit=HOUR, digits=1),
        all_metrics(highest, loads[-1]),
    ]
    checks = checks_of(samples, COMPLETION)
    for name, paper in SHORT_SHARE.items():
        item = f"share of the jobs under 100 minutes, {name}"
        if name not in samples:
            checks.append(not_tested(item, f"{paper:.2f}", f"{name} did not play"))
            continue
        checks.append(beside(item, f"{paper:.2f}", three(mean_of(samples[name], SHORT))))
    for name, (low, high) in MAKESPAN_H.items():
        if name in samples:
            ends = [
                plays[load][name].sample[MAKESPAN].mean() / HOUR for load in (loads[0], loads[-1])
            ]
            item = f"makespan (h) from {loads[0]} to {loads[-1]}, {name}"
            checks.append(beside(item, f"{low}-{high}", f"{ends[0]:.0f}-{ends[1]:.0f}"))

    def draw(figure: Any) -> None:
        few = pictures.shown(plays)
        left, right = figure.subplots(1, 2)
        pictures.distribution(left, few[loads[-1]], loads[-1])
        pictures.lines_by_load(right, few, JCT, "average JCT (min)", MINUTE)
        figures.legend_beside(figure, left)

    return Outcome(tables, checks, values_of(plays), draw, notes(lab, plays))


def quality(lab: Lab) -> Outcome:
    """E2, Fig. 4c to 4g: deadlines, waiting, accuracy, bandwidth."""
    plays = everyone(lab)
    loads = list(plays)
    tables = [
        by_load(plays, DEADLINES, "share of the jobs that meet their deadline"),
        by_load(plays, URGENT, "the same of urgent jobs (level above 8)"),
        by_load(plays, WAIT, "average waiting time (min)", unit=MINUTE, digits=1),
        by_load(plays, ACCURACY, "mean accuracy at the deadline"),
        by_load(plays, TARGETS, "share of the jobs that reach their target by the deadline"),
        by_load(plays, BANDWIDTH, "sent between servers (GB)", unit=GB, digits=0),
        by_load(plays, OVERLOADS, "overloaded servers, summed over slots", digits=0),
        by_load(plays, "migrations", "moves of running tasks to other servers", digits=0),
    ]
    checks = checks_of(samples_of(plays[loads[-1]]), QUALITY)

    def draw(figure: Any) -> None:
        few = pictures.shown(plays)
        places = figure.subplots(2, 2)
        pictures.lines_by_load(places[0, 0], few, DEADLINES, "deadline ratio")
        pictures.lines_by_load(places[0, 1], few, WAIT, "waiting time (min)", MINUTE)
        pictures.lines_by_load(places[1, 0], few, TARGETS, "accuracy guarantee ratio")
        pictures.lines_by_load(places[1, 1], few, BANDWIDTH, "sent (GB)", GB)
        figures.legend_beside(figure, places[0, 0])

    return Outcome(tables, checks, values_of(plays), draw, notes(lab, plays))


def everyone(lab: Lab) -> dict[str, dict[str, Play]]:
    """Plays of all policies by load, the same for both rows: what is finished is read back."""
    loads = LOADS[settings_of(lab).cluster]
    tables = load_tables(lab, lab.choose(loads, QUICK_LOADS))
    return play_all(lab, everybody(lab), tables)


def everybody(lab: Lab) -> list[Player]:
    """All rules, then the learned policies."""
    env = cluster_env(lab)
    return [*(heuristic(lab, name, env) for name in RULES), *learned_players(lab, env)]


def load_tables(lab: Lab, loads: Sequence[float]) -> dict[str, Any]:
    """Test tables of the settings' cluster, by load."""
    cluster = settings_of(lab).cluster
    return {load_name(x): test_tables(lab, f"mlfs-{cluster}-x{x:g}") for x in loads}


def load_name(load: float) -> str:
    """What tables call a load."""
    return f"x = {load:g}"


def all_metrics(plays: dict[str, Play], load: str) -> Table:
    """Means of every metric at one load, in the units of section 8."""
    names = list(next(iter(plays.values())).sample)
    rows: list[list[Cell]] = [
        [name, *(float(p.sample[metric].mean()) for metric in names)] for name, p in plays.items()
    ]
    return Table(f"all metrics, means at {load} (s, MB)", ["policy", *names], rows, 3)


def notes(lab: Lab, plays: Plays) -> list[str]:
    """How it was measured, and who left jobs unfinished."""
    return [f"cluster: {settings_of(lab).cluster}", INTERVALS, *unfinished(plays)]


def unfinished(plays: Plays) -> list[str]:
    """Which policies left jobs unfinished, one sentence for each load."""
    found = {load: left_over(samples_of(row), list(row)) for load, row in plays.items()}
    return [f"{load}: {w}; means are over finished jobs" for load, w in found.items() if w]
