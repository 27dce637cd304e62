"""Q: baselines that see the whole queue, or block on a job that does not fit."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Outcome, Table, reported
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
    test_tables,
    three,
    times_better,
    values_of,
)
from benchmarks.papers.sched2.comparison import ALL
from jaxsched.envs.sched2.heuristics import MODES
from jaxsched.envs.sched2.paper import EFFECTIVENESS, FRAGMENTATION, GAINS, PERCENT, RELAXED, REUSE

WINDOWS = {"the agent's window": None, "the whole queue": 0}
METRICS = {
    **ALL,
    FRAGMENTATION: Shown("fragmentation", 4),
    RELAXED[0]: Shown("relaxed sens.", 3),
    RELAXED[1]: Shown("relaxed insens.", 3),
    REUSE: Shown("reuse", 3),
}


def whole_queue(lab: Lab) -> Outcome:
    """Q: both views in both modes, and the learned policy against the best of each."""
    tables, names = test_tables(lab), baselines(lab)
    own = play_learned(lab, learned_by_mix(lab)[PERCENT], tables)
    views = {
        f"{view}, {mode}": play_rules(lab, names, tables, window=window, mode=mode)
        for view, window in WINDOWS.items()
        for mode in MODES
    }
    shown, rows, checks = [], [], []
    for view, plays in views.items():
        cells: list[Any] = []
        for metric in GAINS:
            best = best_baseline(lab, plays, metric)
            found = times_better(own, plays[best], metric)
            cells += [best, mean_of(plays[best].sample, metric), found]
            item = f"{view}: {metric}, {LEARNED}, times better than {best}"
            checks.append(reported(item, "-", three(found)))
        rows.append([view, *cells])
        shown.append(metric_table(view, plays, METRICS))
    columns = [f"{metric}, {what}" for metric in GAINS for what in ("best", "mean", "times better")]
    best_of_all = Table(f"best baselines, and {LEARNED} against them", ["view", *columns], rows, 3)
    learned = metric_table(LEARNED, {LEARNED: own}, METRICS)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        series = {
            view: [mean_of(plays[name].sample, EFFECTIVENESS) for name in names]
            for view, plays in views.items()
        }
        figures.bars(axes, names, series, y_label="effectiveness")
        level = float(own.sample[EFFECTIVENESS].mean())
        axes.axhline(level, color=figures.LEVEL_COLOUR, linestyle="--", label=LEARNED)
        axes.legend(fontsize=8, frameon=False)

    values = {LEARNED: values_of({LEARNED: own}), **{v: values_of(p) for v, p in views.items()}}
    return outcome(lab, [best_of_all, learned, *shown], checks, values, draw)
