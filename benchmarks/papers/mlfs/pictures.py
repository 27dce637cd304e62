"""What the figures of MLFS' rows have in common."""

from collections.abc import Mapping
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.mlfs.judging import Plays, series_of
from benchmarks.papers.mlfs.plays import SHARES, Play
from jaxsched.envs.mlfs.show.paper import MLF_H, MLF_HC, MLF_RL, MLFS, RL

SHOWN = (
    MLFS, MLF_RL, MLF_H, "graphene", "tiresias", "hypersched", RL, "gandiva", "fair", "slaq",
)  # fmt: skip
"""Policies of Figure 4 in the order of its claim, best first; a figure has room for no others."""
MINUTES = (3, 10, 30, 100, 300, 1000, 3000, 10000)


def distribution(axes: Any, plays: Mapping[str, Play], title: str = "") -> None:
    """Shares of the jobs that are complete after so many minutes, one curve for each policy."""
    curves = {
        name: list(zip(found.jct_min, SHARES, strict=True))
        for name, found in plays.items()
        if len(found.jct_min)
    }
    x_label, y_label = "completion time (min)", "share of the jobs"
    figures.curves(axes, curves, x_label=x_label, y_label=y_label, title=title)
    for line in axes.lines[len(figures.COLOURS) :]:  # colours begin again
        line.set_linestyle("--")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(MINUTES, [str(minutes) for minutes in MINUTES])
    points = [minutes for curve in curves.values() for minutes, _ in curve]
    axes.set_xlim(max(min(points, default=1.0), 1.0), max(points, default=10.0) * 1.05)
    figures.no_legend(axes)


def lines_by_load(axes: Any, plays: Plays, metric: str, label: str, unit: float = 1.0) -> None:
    """One metric over the loads, a line for each policy."""
    loads = [float(name.partition("= ")[2]) for name in plays]
    figures.lines(axes, loads, series_of(plays, metric, unit), x_label="load", y_label=label)
    axes.set_xticks(loads, [f"{load:g}" for load in loads])
    figures.no_legend(axes)


def bars_by_load(axes: Any, plays: Plays, metric: str, label: str, unit: float = 1.0) -> None:
    """One metric, a group of bars for each load."""
    figures.bars(axes, list(plays), series_of(plays, metric, unit), y_label=label)
    figures.no_legend(axes)


def shown(plays: Plays) -> dict[str, dict[str, Play]]:
    """The policies that a figure shows, in the order of the paper's claim."""
    first = next(iter(plays.values()))
    names = [name for name in (*SHOWN, MLF_HC) if name in first and not _stands_in(name, first)]
    return {load: {name: row[name] for name in names} for load, row in plays.items()}


def _stands_in(name: str, plays: Mapping[str, Play]) -> bool:
    """MLF-H with MLF-C is shown where there is no MLFS."""
    return name == MLF_HC and MLFS in plays
