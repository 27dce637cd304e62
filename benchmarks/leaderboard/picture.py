"""The leaderboard as a picture: one panel per workload, policies over the lower bound."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.leaderboard.board import Standings
from benchmarks.leaderboard.text import geometric_mean, overall
from benchmarks.papers import figures

_COLUMNS = 4
_TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_HOUR = 3600


def draw(path: Path, boards: Sequence[Standings]) -> None:
    """Write a PNG: average JCT over the lower bound for any schedule; hollow: clairvoyant.

    The bars are intervals of the ratio to the reference policy, whose own place is a line; a
    workload that was drawn once has none.
    """
    ratios = overall(boards)
    order = sorted(ratios, key=lambda name: geometric_mean(ratios[name]), reverse=True)

    def panels(figure: Any) -> None:
        columns = min(_COLUMNS, len(boards))
        rows = math.ceil(len(boards) / columns)
        figure.set_size_inches(3.1 * columns + 0.8, (0.17 * len(order) + 1.1) * rows)
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, board in zip(grid.ravel(), boards, strict=False):
            _panel(axes, board, order)
        for axes in grid.ravel()[len(boards) :]:
            axes.set_visible(False)

    figures.save(path, panels)


def _panel(axes: Any, board: Standings, order: Sequence[str]) -> None:
    by_name = {row.policy: row for row in board.standings}
    level = by_name[board.reference].jct_ratio
    for at, name in enumerate(order):
        if name not in by_name:
            continue
        row = by_name[name]
        middle, over = row.jct_ratio, row.over_reference
        spread = None
        if math.isfinite(over.low):
            low = max(over.low, 0.0)
            spread = [
                [middle * (1 - low / over.estimate)],
                [middle * (over.high / over.estimate - 1)],
            ]
        fill = "white" if row.clairvoyant else None
        style = {"fmt": "o", "ms": 4, "capsize": 2, "lw": 1, "color": figures.COLOURS[0]}
        axes.errorbar([middle], [at], xerr=spread, markerfacecolor=fill, **style)
    axes.axvline(level, color=figures.LEVEL_COLOUR, ls="--", lw=0.8)
    axes.axvline(1.0, color=figures.LEVEL_COLOUR, lw=1)
    axes.set_xscale("log")
    highest = max(row.jct_ratio for row in board.standings) * 1.3
    axes.set_xlim(0.95, max(highest, 2))
    ticks = [tick for tick in _TICKS if tick <= max(highest, 2)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=7)
    axes.minorticks_off()
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_xlabel("average JCT / lower bound", fontsize=7)
    bound = board.bounds["preemptive"]["avg_jct_s"] / _HOUR
    axes.set_title(
        f"{board.workload}: {board.num_jobs:,} jobs, load {board.load:.2f}, bound {bound:.2f} h",
        fontsize=7,
    )
    axes.grid(axis="x", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
