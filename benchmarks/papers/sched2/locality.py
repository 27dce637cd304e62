"""F10, T3, R: run times and waits, relaxed and reused localities (Figure 10, Table III)."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, beside, show, three
from benchmarks.papers.samples import mean_of, ratio
from benchmarks.papers.sched2.common import (
    LEARNED,
    Plays,
    Shown,
    baselines,
    best_baseline,
    everyone,
    metric_table,
    outcome,
    point,
    ratio_check,
    values_of,
)
from jaxsched.envs.sched2.show.paper import (
    BASELINE_REUSED,
    BASELINE_RUN_S,
    BASELINE_WAIT_S,
    CLASS_WAITS,
    CLASS_WAITS_S,
    JCT,
    RELAXED,
    RELAXED_SHARES,
    REUSE,
    REUSED,
    RUN,
    RUN_S,
    WAIT,
    WAIT_S,
)

TIMES = {RUN: Shown("run time (s)", 1), WAIT: Shown("wait (s)", 1)}
SHARES = dict(zip(RELAXED, (Shown("sensitive", 3), Shown("insensitive", 3)), strict=True))
WAITS = dict(zip(CLASS_WAITS, (Shown("sensitive", 0), Shown("insensitive", 0)), strict=True))
REUSES = {REUSE: Shown("share", 3)}


def run_and_wait(lab: Lab) -> Outcome:
    """F10, Fig. 10: what completion time is made of."""
    plays = everyone(lab)
    checks = time_checks(plays, best_baseline(lab, plays, JCT))
    table = metric_table("run time and wait of a job, means", plays, TIMES)
    return outcome(lab, [table], checks, values_of(plays), _bars(plays, {"s": TIMES}))


def time_checks(plays: Plays, best: str) -> list[Check]:
    """Run time and wait against the baseline of best completion time."""
    known = {RUN: (RUN_S, BASELINE_RUN_S), WAIT: (WAIT_S, BASELINE_WAIT_S)}
    checks = []
    for metric, (own, other) in known.items():
        found = ratio(plays[LEARNED].sample, plays[best].sample, metric)
        item = f"{metric} over {best}'s, the baseline of best JCT"
        paper = f"{own / other:.3f} ({own} s over {other} s)"
        checks.append(ratio_check(item, paper, found))
    return checks


def relaxed(lab: Lab) -> Outcome:
    """T3, Table III: multi-GPU jobs by class."""
    plays = everyone(lab)
    tables = [
        metric_table("share of the multi-GPU jobs without best locality", plays, SHARES),
        metric_table("wait of the multi-GPU jobs (s)", plays, WAITS),
    ]
    checks = relaxed_checks(plays)
    return outcome(
        lab,
        tables,
        checks,
        values_of(plays),
        _bars(plays, {"share without best locality": SHARES, "wait (s)": WAITS}),
    )


def relaxed_checks(plays: Plays) -> list[Check]:
    """How often sensitive and insensitive jobs are split, and how long they wait."""
    sample = plays[LEARNED].sample
    sensitive, insensitive = (float(sample[metric].mean()) for metric in RELAXED)
    item = "share without best locality, sensitive less insensitive"
    paper = three(RELAXED_SHARES[0] - RELAXED_SHARES[1])
    over = sensitive - insensitive
    return [
        beside(item, paper, over, shown=three),
        *(
            _reported(plays, "share without best locality", metric, shown, own)
            for (metric, shown), own in zip(SHARES.items(), RELAXED_SHARES, strict=True)
        ),
        *(
            _reported(plays, "wait (s)", metric, shown, own)
            for (metric, shown), own in zip(WAITS.items(), CLASS_WAITS_S, strict=True)
        ),
    ]


def reused(lab: Lab) -> Outcome:
    """R: jobs that take over a good locality."""
    plays = everyone(lab)
    title = "share of the multi-GPU jobs at best locality on GPUs that such jobs had before"
    table = metric_table(title, plays, REUSES)
    checks = reuse_checks(plays, baselines(lab))
    return outcome(
        lab, [table], checks, values_of(plays), _bars(plays, {"share that reuses": REUSES})
    )


def reuse_checks(plays: Plays, names: Sequence[str]) -> list[Check]:
    """The learned policy reuses often, no baseline does."""
    shares = {name: mean_of(plays[name].sample, REUSE) for name in names}
    most = max(shares, key=lambda name: shares[name].estimate)
    own = mean_of(plays[LEARNED].sample, REUSE)
    return [
        beside(f"reuse, {LEARNED}", REUSED, own, shown=three),
        beside(f"reuse, every baseline; most, {most}", BASELINE_REUSED, shares[most], shown=three),
    ]


def _reported(plays: Plays, what: str, metric: str, shown: Shown, paper: float) -> Check:
    words = show(point(plays[LEARNED], metric, shown), shown.digits)
    return beside(f"{what}, {shown.heading}", f"{paper:g}", words)


def _bars(plays: Plays, panels: Mapping[str, Mapping[str, Shown]]) -> Any:
    """Draws some metrics side by side, a group of bars for each policy."""

    def draw(figure: Any) -> None:
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (y_label, metrics) in zip(places, panels.items(), strict=True):
            series = {
                shown.heading: [point(play, metric, shown) for play in plays.values()]
                for metric, shown in metrics.items()
            }
            figures.bars(axes, list(plays), series, y_label=y_label, slant=True)

    return draw
