"""The few kinds of pictures that the rows draw, and how they are saved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxsched.pictures import COLOURS, PAGE_IN, new_figure, save_figure, styled
from jaxsched.pictures import legend_beside as beside_axes
from jaxsched.results.statistics import Interval

MARKS = "osD^vPX*"
LEVEL_COLOUR, LEVEL_STYLES = "#59626d", ("--", ":", "-.")
SIZE_IN = (PAGE_IN, 3.3)
Points = Sequence[float | Interval | None]


@styled
def save(path: Path, draw: Any, endings: Sequence[str] = ()) -> None:
    """Draw on an empty figure of a page's width and write it, whole or not at all.

    Args:
      path: the file; its ending chooses the format.
      draw: called with a matplotlib figure.
      endings: further formats to write beside it.
    """
    figure = new_figure(*SIZE_IN)
    draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in (path, *(path.with_suffix(ending) for ending in endings)):
        save_figure(figure, file)


def lines(
    axes: Any,
    x: Sequence[float],
    series: Mapping[str, Points],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
) -> None:
    """Series over common points, with 95 % intervals where they have any.

    A series' place decides its colour; one whose points are all None is left out.
    """
    for number, (name, points) in enumerate(series.items()):
        known = [(at, p) for at, p in zip(x, points, strict=True) if p is not None]
        if not known:
            continue
        at = [point[0] for point in known]
        middle = [estimate(point[1]) for point in known]
        axes.errorbar(
            at,
            middle,
            yerr=_errors([point[1] for point in known]),
            label=name,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKS[number % len(MARKS)],
            markersize=4,
            linewidth=1.4,
            capsize=2.5,
            linestyle="--" if number >= len(COLOURS) else "-",
        )
    _finish(axes, x_label, y_label, title)


def curves(
    axes: Any,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    levels: Mapping[str, float] | None = None,
) -> None:
    """Curves with points of their own each, and horizontal lines for comparison."""
    for number, (name, points) in enumerate(series.items()):
        x = [point[0] for point in points]
        y = [point[1] for point in points]
        mark = "." if len(points) < 60 else None
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(x, y, label=name, color=colour, marker=mark, linewidth=1.4)
    for (name, level), style in zip((levels or {}).items(), LEVEL_STYLES, strict=False):
        axes.axhline(level, label=name, color=LEVEL_COLOUR, linestyle=style, linewidth=1.2)
    _finish(axes, x_label, y_label, title)


def bars(
    axes: Any,
    groups: Sequence[str],
    series: Mapping[str, Points],
    *,
    y_label: str,
    title: str = "",
    slant: bool = False,
) -> None:
    """Grouped bars with 95 % intervals; ``slant`` for long group names."""
    width = 0.8 / max(len(series), 1)
    for number, (name, points) in enumerate(series.items()):
        known = [(i, p) for i, p in enumerate(points) if p is not None]
        at = [i + (number - (len(series) - 1) / 2) * width for i, _ in known]
        axes.bar(
            at,
            [estimate(point) for _, point in known],
            width * 0.92,
            yerr=_errors([point for _, point in known]),
            label=name,
            color=COLOURS[number % len(COLOURS)],
            error_kw={"elinewidth": 1, "capsize": 2},
        )
    turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(groups)), groups, **(turned if slant else {}))
    _finish(axes, "", y_label, title, legend=len(series) > 1)


def legend_beside(figure: Any, axes: Any) -> None:
    """One legend for all axes, on the right."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper")


def no_legend(axes: Any) -> None:
    """Take away the legend of one of several axes, if it has one."""
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()


def estimate(point: float | Interval) -> float:
    """The point itself, or the middle of an interval."""
    return point.estimate if isinstance(point, Interval) else float(point)


def _errors(points: Sequence[float | Interval]) -> list[list[float]] | None:
    if not any(isinstance(point, Interval) for point in points):
        return None
    low = [max(p.estimate - p.low, 0.0) if isinstance(p, Interval) else 0.0 for p in points]
    high = [max(p.high - p.estimate, 0.0) if isinstance(p, Interval) else 0.0 for p in points]
    return [low, high]


def _finish(axes: Any, x_label: str, y_label: str, title: str, *, legend: bool = True) -> None:
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if title:
        axes.set_title(title)
    axes.grid(axis="y")
    handles, _ = axes.get_legend_handles_labels()
    if legend and handles:
        beside_axes(axes)
