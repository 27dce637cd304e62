"""F7 and F8: effectiveness, makespan and completion time by mix and by load (Figures 7 and 8)."""

from collections.abc import Mapping
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import (
    Check,
    Outcome,
    Table,
    beside,
    not_tested,
    percent,
    show,
    three,
)
from benchmarks.papers.samples import change, difference, mean_of
from benchmarks.papers.sched2.common import (
    LEARNED,
    RIVAL,
    Play,
    Plays,
    Shown,
    baselines,
    best_baseline,
    learned_by_mix,
    metric_table,
    outcome,
    play_all,
    point,
    test_tables,
    times_better,
    values_of,
)
from jaxsched.envs.sched2.show.paper import (
    EFFECTIVENESS,
    GAIN_BY_MIX,
    GAINS,
    JCT,
    MAKESPAN,
    MIX_GAINS,
    PERCENT,
    RUN,
    SCALES,
    WAIT,
)
from jaxsched.jobs import rescale_arrivals

QUICK_MIXES, QUICK_SCALES = (60, PERCENT), (0.8, 1.5)
ALL = {
    EFFECTIVENESS: Shown("effectiveness", 4),
    JCT: Shown("JCT (s)", 0),
    MAKESPAN: Shown("makespan (s)", 0),
    WAIT: Shown("wait (s)", 0),
    RUN: Shown("run (s)", 0),
    "utilization": Shown("utilization", 3),
}
DRAWN = {
    EFFECTIVENESS: ALL[EFFECTIVENESS],
    MAKESPAN: Shown("makespan (h)", 1, 3600.0),
    JCT: Shown("JCT (h)", 1, 3600.0),
}


def by_mix(lab: Lab) -> Outcome:
    """F7, Fig. 7: 60, 68 and 75 % one-GPU jobs."""
    learned = learned_by_mix(lab, lab.choose(tuple(MIX_GAINS), QUICK_MIXES))
    plays = {share: play_all(lab, own, test_tables(lab, share)) for share, own in learned.items()}
    names = baselines(lab)
    tables, checks = [], []
    for share, row in plays.items():
        mix = f"{share} % one-GPU jobs"
        tables.append(metric_table(mix, row, ALL))
        tables.append(ratio_table(f"{mix}: times better than the best baseline", lab, row))
        tables.append(rival_table(f"{mix}: against {RIVAL}, the same tables", row))
        checks += mix_checks(lab, share, row)
    checks.append(order_check(lab, plays))

    def draw(figure: Any) -> None:
        places = figure.subplots(1, len(DRAWN))
        policies = list(next(iter(plays.values())))
        for axes, (metric, shown) in zip(places, DRAWN.items(), strict=True):
            series = {
                f"{share} %": [point(row[name], metric, shown) for name in policies]
                for share, row in plays.items()
            }
            figures.bars(axes, policies, series, y_label=shown.heading, slant=True)
            figures.no_legend(axes)
        figures.legend_beside(figure, places[0])

    values = {f"{share} %": values_of(row) for share, row in plays.items()}
    return outcome(lab, tables, checks, values, draw, f"baselines: {', '.join(names)}")


def ratio_table(title: str, lab: Lab, plays: Plays) -> Table:
    """How many times better than the best baseline of each metric everybody else is."""
    others = [name for name in plays if name not in baselines(lab)]
    rows: list[list[Any]] = []
    for metric in GAINS:
        best = best_baseline(lab, plays, metric)
        cells = [times_better(plays[name], plays[best], metric) for name in others]
        rows.append([f"{metric}, over {best}", *cells])
    return Table(title, ["metric", *others], rows, 3)


def rival_table(title: str, plays: Plays) -> Table:
    """Differences of everybody from the rule that trained policies have to beat."""
    base = plays[RIVAL].sample
    rows: list[list[Any]] = [
        [
            name,
            show(difference(play.sample, base, EFFECTIVENESS), 4),
            percent(change(play.sample, base, JCT)),
            percent(change(play.sample, base, MAKESPAN)),
        ]
        for name, play in plays.items()
        if name != RIVAL
    ]
    columns = ["policy", "effectiveness, difference", "JCT, change", "makespan, change"]
    return Table(title, columns, rows)


def mix_checks(lab: Lab, share: int, plays: Plays) -> list[Check]:
    """The conditions of Figure 7 on one mix, and the learned policy beside the rule."""
    gains = GAINS if share == PERCENT else {EFFECTIVENESS: MIX_GAINS[share]}
    checks = []
    for metric, paper in gains.items():
        best = best_baseline(lab, plays, metric)
        found = times_better(plays[LEARNED], plays[best], metric)
        item = f"{share} %: {metric}, times better than {best}"
        checks.append(beside(item, f"{paper:g}", found, shown=three))
    gap = difference(plays[LEARNED].sample, plays[RIVAL].sample, EFFECTIVENESS)
    item = f"{share} %: effectiveness, {LEARNED} less {RIVAL}"
    return [*checks, beside(item, "-", show(gap, 4))]


def order_check(lab: Lab, plays: Mapping[int, Plays]) -> Check:
    """Whether the gain falls as one-GPU jobs get more frequent."""
    item = "effectiveness, times better, falls with the share of one-GPU jobs"
    gains = [
        times_better(
            row[LEARNED], row[best_baseline(lab, row, EFFECTIVENESS)], EFFECTIVENESS
        ).estimate
        for _, row in sorted(plays.items())
    ]
    words = ", ".join(
        f"{three(gain)} ({s} %)" for s, gain in zip(sorted(plays), gains, strict=True)
    )
    if set(plays) != set(MIX_GAINS):
        return not_tested(item, GAIN_BY_MIX, "not all mixes were played", words)
    return Check(item, GAIN_BY_MIX, words)


def by_scale(lab: Lab) -> Outcome:
    """F8, Fig. 8: the usual mix with its gaps scaled."""
    learned = learned_by_mix(lab)[PERCENT]
    tables = test_tables(lab)
    plays = {
        scale: play_all(lab, learned, [rescale_arrivals(table, scale) for table in tables])
        for scale in lab.choose(SCALES, QUICK_SCALES)
    }
    policies = list(next(iter(plays.values())))
    table = Table(
        "effectiveness by the factor on the gaps",
        ["policy", *(f"x {scale:g}" for scale in plays)],
        [[n, *(mean_of(row[n].sample, EFFECTIVENESS) for row in plays.values())] for n in policies],
        3,
    )
    gaps = {
        s: difference(r[LEARNED].sample, r[RIVAL].sample, EFFECTIVENESS) for s, r in plays.items()
    }
    against = Table(
        f"effectiveness, {LEARNED} less {RIVAL}, the same tables",
        ["factor", "difference"],
        [[f"x {scale:g}", gap] for scale, gap in gaps.items()],
        4,
    )
    checks = [check for scale, row in plays.items() for check in scale_checks(lab, scale, row)]

    def draw(figure: Any) -> None:
        series = {
            name: [mean_of(row[name].sample, EFFECTIVENESS) for row in plays.values()]
            for name in (LEARNED, *(name for name in policies if name != LEARNED))
        }
        axes = figure.subplots()
        labels = {"x_label": "factor on the gaps", "y_label": "effectiveness"}
        figures.lines(axes, list(plays), series, **labels)
        figures.no_legend(axes)
        figures.legend_beside(figure, axes)

    values = {f"{scale:g}": values_of(row) for scale, row in plays.items()}
    return outcome(lab, [table, against], checks, values, draw)


def scale_checks(lab: Lab, scale: float, plays: Plays) -> list[Check]:
    """The condition of Figure 8 at one scale."""
    best = best_baseline(lab, plays, EFFECTIVENESS)
    pair: tuple[Play, Play] = plays[LEARNED], plays[best]
    gap = difference(pair[0].sample, pair[1].sample, EFFECTIVENESS)
    item = f"x {scale:g}: effectiveness less the best baseline's, {best}"
    return [beside(item, "best at every scale", gap, shown=three)]
