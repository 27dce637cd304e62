"""Q: baselines that see the whole queue, or block on a job that does not fit."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Outcome, beside, three
from benchmarks.papers.samples import mean_of
from benchmarks.papers.sched2.common import (
    LEARNED,
    Shown,
    baselines,
    best_baseline,
    learned_by_mix,
    metric_table,
    outcome,
    play_learned,
    play_rules,
    references,
    test_tables,
    times_better,
    values_of,
)
from benchmarks.papers.sched2.comparison import ALL, ratio_table
from jaxsched.envs.sched2.heuristics import MODES
from jaxsched.envs.sched2.show.paper import (
    EFFECTIVENESS,
    FRAGMENTATION,
    GAINS,
    PERCENT,
    RELAXED,
    REUSE,
)

WINDOWS = {"the agent's window": None, "the whole queue": 0}
METRICS = {
    **ALL,
    FRAGMENTATION: Shown("fragmentation", 4),
    RELAXED[0]: Shown("relaxed sens.", 3),
    RELAXED[1]: Shown("relaxed insens.", 3),
    REUSE: Shown("reuse", 3),
}


def whole_queue(lab: Lab) -> Outcome:
    """Q: both views in both modes, and the other policies against the best of each."""
    tables, names = test_tables(lab), baselines(lab)
    others = play_rules(lab, references(lab), tables)
    others[LEARNED] = play_learned(lab, learned_by_mix(lab)[PERCENT], tables)
    views = {
        f"{view}, {mode}": play_rules(lab, names, tables, window=window, mode=mode)
        for view, window in WINDOWS.items()
        for mode in MODES
    }
    shown = [metric_table("the agent's window, not the baselines", others, METRICS)]
    checks = []
    for view, plays in views.items():
        title = f"{view}: times better than the best baseline"
        shown.append(metric_table(view, plays, METRICS))
        shown.append(ratio_table(title, lab, {**plays, **others}))
        for metric in GAINS:
            best = best_baseline(lab, plays, metric)
            found = times_better(others[LEARNED], plays[best], metric)
            checks.append(beside(f"{view}: {metric}, over {best}", "-", three(found)))

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        series = {
            view: [mean_of(plays[name].sample, EFFECTIVENESS) for name in names]
            for view, plays in views.items()
        }
        figures.bars(axes, names, series, y_label="effectiveness")
        level = float(others[LEARNED].sample[EFFECTIVENESS].mean())
        axes.axhline(level, color=figures.LEVEL_COLOUR, linestyle="--", label=LEARNED)
        figures.no_legend(axes)
        figures.legend_beside(figure, axes)

    values = {"others": values_of(others), **{view: values_of(p) for view, p in views.items()}}
    return outcome(lab, shown, checks, values, draw)
