"""F10, T3, R: run times and waits, relaxed and reused localities (Figure 10, Table III)."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, at_least, at_most, reported, show
from benchmarks.papers.samples import mean_of
from benchmarks.papers.sched2.common import (
    LEARNED,
    Plays,
    baselines,
    best_baseline,
    everyone,
    metric_table,
    outcome,
    three,
    values_of,
)
from jaxsched.envs.sched2.paper import (
    BASELINE_REUSED,
    BASELINE_RUN_S,
    BASELINE_WAIT_S,
    CLASS_WAITS,
    CLASS_WAITS_S,
    JCT,
    LEAST_REUSE,
    MOST_BASELINE_REUSE,
    MOST_RELAXED_OVER,
    MOST_RUN,
    MOST_WAIT,
    RELAXED,
    RELAXED_SHARES,
    REUSE,
    REUSED,
    RUN,
    RUN_S,
    WAIT,
    WAIT_GOAL,
    WAIT_S,
)
from jaxsched.results.statistics import ratio_interval

TIMES = {RUN: ("run time (s)", 1.0), WAIT: ("wait (s)", 1.0)}
SHARES = {RELAXED[0]: ("sensitive", 1.0), RELAXED[1]: ("insensitive", 1.0)}
WAITS = {CLASS_WAITS[0]: ("sensitive", 1.0), CLASS_WAITS[1]: ("insensitive", 1.0)}
REUSES = {REUSE: ("share", 1.0)}


def run_and_wait(lab: Lab) -> Outcome:
    """F10, Fig. 10: what completion time is made of."""
    plays = everyone(lab)
    checks = time_checks(plays, best_baseline(lab, plays, JCT))
    table = metric_table("run time and wait of a job, means", plays, TIMES, 1)
    return outcome(lab, [table], checks, values_of(plays), _bars(plays, TIMES))


def time_checks(plays: Plays, best: str) -> list[Check]:
    """Run time and wait against the baseline of best completion time."""
    known = {
        RUN: (RUN_S, BASELINE_RUN_S, {"": MOST_RUN}),
        WAIT: (WAIT_S, BASELINE_WAIT_S, {"": MOST_WAIT, " (goal)": WAIT_GOAL}),
    }
    checks = []
    for metric, (own, other, bounds) in known.items():
        found = ratio_interval(plays[LEARNED].sample[metric], plays[best].sample[metric])
        for level, most in bounds.items():
            item = f"{metric} over {best}'s, the baseline of best JCT{level}"
            paper = f"{own / other:.3f} ({own} s over {other} s)"
            checks.append(at_most(item, paper, found, most, shown=three))
    return checks


def relaxed(lab: Lab) -> Outcome:
    """T3, Table III: multi-GPU jobs by class."""
    plays = everyone(lab)
    tables = [
        metric_table("share of the multi-GPU jobs without best locality", plays, SHARES, 3),
        metric_table("wait of the multi-GPU jobs (s)", plays, WAITS, 0),
    ]
    checks = relaxed_checks(plays)
    return outcome(lab, tables, checks, values_of(plays), _bars(plays, {**SHARES, **WAITS}))


def relaxed_checks(plays: Plays) -> list[Check]:
    """Sensitive jobs are split no more often; the waits are only reported."""
    sample = plays[LEARNED].sample
    sensitive, insensitive = (float(sample[metric].mean()) for metric in RELAXED)
    item = "share without best locality, sensitive less insensitive"
    paper = three(RELAXED_SHARES[0] - RELAXED_SHARES[1])
    over = sensitive - insensitive
    return [
        at_most(item, paper, over, MOST_RELAXED_OVER, shown=three),
        *(
            reported(f"share without best locality, {words}", f"{own:g}", _mean(sample, metric, 3))
            for (metric, (words, _)), own in zip(SHARES.items(), RELAXED_SHARES, strict=True)
        ),
        *(
            reported(f"wait (s), {words}", str(own), _mean(sample, metric, 0))
            for (metric, (words, _)), own in zip(WAITS.items(), CLASS_WAITS_S, strict=True)
        ),
    ]


def reused(lab: Lab) -> Outcome:
    """R: jobs that take over a good locality."""
    plays = everyone(lab)
    title = "share of the multi-GPU jobs at best locality on GPUs that such jobs had before"
    table = metric_table(title, plays, REUSES, 3)
    checks = reuse_checks(plays, baselines(lab))
    return outcome(lab, [table], checks, values_of(plays), _bars(plays, REUSES))


def reuse_checks(plays: Plays, names: Sequence[str]) -> list[Check]:
    """The learned policy reuses often, no baseline does."""
    shares = {name: mean_of(plays[name].sample, REUSE) for name in names}
    most = max(shares, key=lambda name: shares[name].estimate)
    own = mean_of(plays[LEARNED].sample, REUSE)
    return [
        at_least(f"reuse, {LEARNED}", REUSED, own, LEAST_REUSE, shown=three),
        at_most(
            f"reuse, every baseline; most, {most}",
            BASELINE_REUSED,
            shares[most],
            MOST_BASELINE_REUSE,
            shown=three,
        ),
    ]


def _mean(sample: Any, metric: str, digits: int) -> str:
    return show(mean_of(sample, metric), digits)


def _bars(plays: Plays, metrics: Mapping[str, tuple[str, float]]) -> Any:
    """Draws a metric in each picture, a bar for each policy."""

    def draw(figure: Any) -> None:
        places = figure.subplots(1, len(metrics), squeeze=False)[0]
        for axes, (metric, (heading, _)) in zip(places, metrics.items(), strict=True):
            points = {heading: [mean_of(play.sample, metric) for play in plays.values()]}
            title = metric.replace("_", " ")
            figures.bars(axes, list(plays), points, y_label="", title=title, slant=True)

    return draw
