"""The leaderboard for papers: one column wide, distances to the bound, and the sweep of loads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxsched.files import PathLike
from jaxsched.leaderboard.board import Standings
from jaxsched.leaderboard.cells import load_of
from jaxsched.leaderboard.text import geometric_mean, overall
from jaxsched.pictures import COLOURS, COLUMN_IN, new_figure, save_figure, styled

MOST_LINES = 6
"""Policies in the sweep: the best ones of each kind."""
_ROW_IN, _SWEEP_IN, _REST_IN = 0.125, 2.1, 0.6
_TICKS = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_KINDS = {
    "suspends, knows run times": (COLOURS[2], True, True),
    "knows run times": (COLOURS[0], False, True),
    "suspends": (COLOURS[3], True, False),
    "neither": (COLOURS[1], False, False),
}
_MARKS = "osD^vP"


@styled
def draw(path: PathLike, sweeps: Sequence[Sequence[Standings]], main: Sequence[Standings]) -> None:
    """Write a figure of one column's width: bars over the bound, and below the load sweep.

    Args:
      path: its ending (``jaxsched.pictures.ENDINGS``) chooses the format.
      sweeps: of each workload the boards by load.
      main: of each workload the board at its own load.
    """
    recorded = {row.policy for board in main for row in board.standings if row.recorded}
    ratios = {name: values for name, values in overall(main).items() if name not in recorded}
    order = sorted(ratios, key=lambda name: geometric_mean(ratios[name]))
    loads = _common_loads(sweeps)
    rows = _ROW_IN * len(order) + _REST_IN
    figure = new_figure(COLUMN_IN, rows + (_SWEEP_IN if len(loads) > 1 else 0))
    if len(loads) > 1:
        top, bottom = figure.subplots(2, 1, height_ratios=[rows, _SWEEP_IN])
        _sweep(bottom, sweeps, loads, _shown(order, main[0]))
    else:
        top = figure.subplots()
    _bars(top, ratios, order, main)
    save_figure(figure, path)


def _bars(axes: Any, ratios: Any, order: Sequence[str], main: Sequence[Standings]) -> None:
    """Bars from the bound, 1, to the geometric mean; a line from the least to the most."""
    rows = {row.policy: row for row in main[0].standings}
    places = {name: place for place, name in enumerate(order)}
    for label, (colour, suspends, knows) in _KINDS.items():
        names = [n for n in order if (rows[n].suspends, rows[n].clairvoyant) == (suspends, knows)]
        if not names:
            continue
        middle = np.array([geometric_mean(ratios[name]) for name in names])
        ends = np.array([[min(ratios[name]), max(ratios[name])] for name in names])
        axes.barh(
            [places[name] for name in names],
            middle - 1,
            left=1,
            height=0.72,
            color=colour,
            label=label,
            xerr=np.maximum([middle - ends[:, 0], ends[:, 1] - middle], 0),
            error_kw={"elinewidth": 0.6, "ecolor": "#1b1f24"},
        )
    axes.set_xscale("log")
    highest = max(max(values) for values in ratios.values()) * 1.15
    axes.set_xlim(1, highest)
    ticks = _ticks(highest)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(order)), order, fontsize=6)
    axes.set_ylim(len(order) - 0.4, -0.6)
    over = f"{len(main)} workloads" if len(main) > 1 else main[0].workload
    axes.set_xlabel(f"mean JCT / lower bound, {over}")
    axes.grid(axis="x")
    axes.legend(loc="upper right", fontsize=6)


def _ticks(highest: float) -> list[float]:
    """No more than six marks of a logarithmic axis that begins at 1."""
    within = [tick for tick in _TICKS if tick <= highest]
    return within[:: -(-len(within) // 6)]


def _sweep(
    axes: Any, sweeps: Sequence[Sequence[Standings]], loads: Sequence[float], names: Sequence[str]
) -> None:
    """Geometric means over the workloads at each load."""
    at = [[board for boards in sweeps for board in boards if load_of(board) == load]
          for load in loads]  # fmt: skip
    ratios = [overall(boards) for boards in at]
    for number, name in enumerate(names):
        if all(name in each for each in ratios):
            values = [geometric_mean(each[name]) for each in ratios]
            colour, mark = COLOURS[number % len(COLOURS)], _MARKS[number % len(_MARKS)]
            axes.plot(loads, values, label=name, color=colour, marker=mark, markersize=3)
    axes.set_yscale("log")
    high = axes.get_ylim()[1]
    axes.set_ylim(1, max(high, 1.2))
    ticks = _ticks(max(high, 1.2))
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(loads)
    axes.set_xlabel("load")
    axes.set_ylabel("mean JCT / bound")
    axes.grid(axis="y")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=6, ncols=3)


def _common_loads(sweeps: Sequence[Sequence[Standings]]) -> list[float]:
    """Loads that all workloads were played at."""
    found = [{load_of(board) for board in boards} for boards in sweeps]
    return sorted(set.intersection(*found))


def _shown(order: Sequence[str], board: Standings) -> list[str]:
    """The best policies of each kind in turn, no more than there is room for."""
    rows = {row.policy: row for row in board.standings}
    kinds = [
        [n for n in order if (rows[n].suspends, rows[n].clairvoyant) == kind]
        for kind in ((True, True), (False, True), (True, False), (False, False))
    ]
    turns = [names[turn] for turn in range(len(order)) for names in kinds if turn < len(names)]
    return sorted(turns[:MOST_LINES], key=order.index)
