"""F4 and F9: how fragmentation goes on as jobs are started (Figures 4 and 9)."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested, three
from benchmarks.papers.samples import moving_mean, ratio
from benchmarks.papers.sched2.common import (
    LEARNED,
    RIVAL,
    Play,
    Plays,
    Shown,
    baselines,
    everyone,
    metric_table,
    outcome,
    play_rules,
    ratio_check,
    test_tables,
    values_of,
)
from jaxsched.envs.sched2.show.paper import (
    EARLY,
    FRAGMENTATION,
    FRAGMENTATION_LOWER,
    LATE,
    MIDDLE,
    best_of,
)

PACKING = ("sif", "lrf", "fifo")
QUEUE = "queue_gpus"
ENOUGH = EARLY.stop - LATE.start + MIDDLE.stop
"""Starts in which the first, the middle and the last ones are apart."""

WIDTH = 25  # starts of a moving mean
METRICS = {FRAGMENTATION: Shown("mean", 4)}


def of_packing(lab: Lab) -> Outcome:
    """F4, Fig. 4: three rules that pack and do not wait."""
    plays = play_rules(lab, PACKING, test_tables(lab))
    checks = [rise_check(name, play) for name, play in plays.items()]

    def draw(figure: Any) -> None:
        _draw(figure.subplots(), plays, PACKING, FRAGMENTATION, "mean server fragmentation")

    tables = [metric_table("fragmentation at the starts", plays, METRICS), rises(plays)]
    return outcome(lab, tables, checks, _values(plays), draw, _smoothed(), learns=False)


def of_all(lab: Lab) -> Outcome:
    """F9, Fig. 9: all policies, and the GPUs that waiting jobs ask for."""
    plays, names = everyone(lab), baselines(lab)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        shown = [LEARNED, *names, RIVAL]
        _draw(left, plays, shown, FRAGMENTATION, "mean server fragmentation")
        _draw(right, plays, shown, QUEUE, "GPUs demanded by the queue")
        right.set_yscale("symlog", linthresh=10)
        figures.no_legend(right)

    tables = [metric_table("fragmentation at the starts", plays, METRICS), rises(plays)]
    return outcome(lab, tables, checks_of(plays, names), _values(plays), draw, _smoothed())


def checks_of(plays: Plays, names: Sequence[str]) -> list[Check]:
    """The conditions of Figure 9.

    Args:
      plays: of all policies.
      names: of the baselines.
    """
    means = {n: {FRAGMENTATION: float(plays[n].sample[FRAGMENTATION].mean())} for n in names}
    lowest = best_of(means, FRAGMENTATION)
    over = ratio(plays[LEARNED].sample, plays[lowest].sample, FRAGMENTATION)
    checks = [
        ratio_check(
            f"mean fragmentation over the lowest baseline's, {lowest}",
            FRAGMENTATION_LOWER,
            over,
        )
    ]
    item, paper = f"{LEARNED}: last starts over the middle ones", "periodically falls"
    found = rise(plays[LEARNED], MIDDLE)
    if found is None:
        return [*checks, not_tested(item, paper, _too_few())]
    return [*checks, beside(item, paper, found, shown=three)]


def rise_check(name: str, play: Play) -> Check:
    """The condition of Figure 4."""
    item, paper = f"{name}: last starts over the first ones", "gets worse"
    found = rise(play, EARLY)
    if found is None:
        return not_tested(item, paper, _too_few())
    return beside(item, paper, found, shown=three)


def rise(play: Play, since: slice) -> float | None:
    """Mean fragmentation of the last starts over that of earlier ones; None: too few starts."""
    curve = play.curves[FRAGMENTATION]
    if len(curve) < ENOUGH:
        return None
    return float(curve[LATE].mean() / curve[since].mean())


def rises(plays: Plays) -> Table:
    """Mean fragmentation of parts of the curves."""
    parts = {
        f"first {EARLY.stop}": EARLY,
        f"{MIDDLE.start} to {MIDDLE.stop}": MIDDLE,
        f"last {-LATE.start}": LATE,
    }
    rows: list[list[Any]] = []
    for name, play in plays.items():
        curve = play.curves[FRAGMENTATION]
        known = len(curve) >= ENOUGH
        cells = [float(curve[part].mean()) if known else None for part in parts.values()]
        rows.append([name, *cells, float(play.curves[QUEUE].mean())])
    title = "fragmentation of parts of the starts; GPUs demanded by the queue, mean of all starts"
    return Table(title, ["policy", *parts, "queue (GPUs)"], rows, 4)


def _draw(axes: Any, plays: Plays, names: Sequence[str], curve: str, y_label: str) -> None:
    series: Mapping[str, Any] = {
        name: list(enumerate(moving_mean(plays[name].curves[curve], WIDTH), 1)) for name in names
    }
    figures.curves(axes, series, x_label="jobs started", y_label=y_label)


def _values(plays: Plays) -> dict[str, Any]:
    curves = {
        name: {curve: values.tolist() for curve, values in play.curves.items()}
        for name, play in plays.items()
    }
    return {"samples": values_of(plays), "curves": curves}


def _smoothed() -> str:
    return f"curves are means over the tables, in the picture moving means over {WIDTH} starts"


def _too_few() -> str:
    return f"tables have fewer than {ENOUGH} jobs"
