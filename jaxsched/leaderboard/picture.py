"""The leaderboard as a picture: one panel per workload, policies against the lower bound."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxsched.leaderboard.board import Standings
from jaxsched.leaderboard.text import geometric_mean, overall
from jaxsched.papers import figures

_COLUMNS = 4
_HOUR = 3600


def draw(path: Path, boards: Sequence[Standings]) -> None:
    """Write a PNG: average JCT with its interval; a line marks the bound of all schedules."""
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
    rows = [by_name[name] for name in order]
    at = range(len(rows))
    middle = [row.avg_jct.estimate / _HOUR for row in rows]
    low = [m - row.avg_jct.low / _HOUR for m, row in zip(middle, rows, strict=True)]
    high = [row.avg_jct.high / _HOUR - m for m, row in zip(middle, rows, strict=True)]
    axes.errorbar(
        middle, at, xerr=(low, high), fmt="o", ms=4, capsize=2, lw=1, color=figures.COLOURS[0]
    )
    bound = board.bounds["preemptive"]["avg_jct_s"] / _HOUR
    axes.axvline(bound, color=figures.LEVEL_COLOUR, ls="--", lw=1, label=f"bound {bound:.2f} h")
    axes.set_xscale("log")
    axes.set_yticks(list(at), order, fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("average JCT (h)", fontsize=7)
    axes.set_title(f"{board.workload} ({board.num_jobs:,} jobs, load {board.load:.2f})", fontsize=8)
    axes.grid(axis="x", color="0.9")
    axes.legend(frameon=False, fontsize=6, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
