"""Figures of traces: the panels that all of them share, and the figure of a canonical trace."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.pictures import PAGE_IN, legend_above, new_figure, save_figure, styled
from jaxsched.traces.describe_trace import (
    DAY_S,
    FIRST_WEEKDAY,
    HOUR_S,
    BusyGpus,
    busy_gpus,
    check_numbers,
    demand_shares,
    gpu_jobs,
    gpu_time_shares,
    has_calendar,
    hour_weights,
    weekday_weights,
)
from jaxsched.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2a6f97", "#e07a1f")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHORT = {"cpu_only": "CPU"}
_MANY_BARS = 16
_POINTS = 1000
_TALLEST = 5  # peaks that a figure is high at most
_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86400.0))


@styled
def plot_trace(
    trace: Trace,
    path: PathLike,
    *,
    num_servers: int | None = None,
    gpus_per_server: int = 8,
    daily: bool = False,
) -> None:
    """Draw demand, run times, gaps, submissions, the calendar and GPUs in use.

    The GPUs in use are those of jobs that all run from their submission. Hours of the day and
    weekdays are drawn where the trace's clock gives them a meaning, or if ``daily`` says so.

    Args:
      trace: the trace.
      path: the file; its ending (``pictures.ENDINGS``) chooses the format.
      num_servers: servers of the cluster, whose size the GPUs in use are compared with.
      gpus_per_server: GPUs of each.
      daily: as in ``describe_trace``.

    Raises:
      JaxschedError: no GPU jobs to draw, or a file that cannot be written.
    """
    check_numbers(trace)
    jobs = gpu_jobs(trace)
    if not len(jobs):
        raise JaxschedError(f"{trace.name}: has no jobs with GPUs to draw; accepted: one or more")
    calendar = has_calendar(trace, daily)
    rows: list[Any] = [["demand", "durations", "gaps"]]
    rows += [["hours", "weekdays", "submissions"]] if calendar else []
    rows += [["busy"] * 3] if calendar else [["submissions", "busy", "busy"]]
    figure = new_figure(PAGE_IN, 2.1 * len(rows))
    panels = figure.subplot_mosaic(rows)
    demand = {
        _SHORT.get(name, name): share for name, share in demand_shares(trace).items() if share
    }
    gpu_time = gpu_time_shares(trace)
    if gpu_time:
        shares = {"jobs": demand, "GPU time": {name: gpu_time.get(name, 0.0) for name in demand}}
    else:
        shares = {"jobs": demand}
    draw_bars(panels["demand"], shares)
    panels["demand"].set(xlabel="GPUs of a job", ylabel="share", title="Demand")
    durations = jobs["duration"][~np.isnan(jobs["duration"])]
    submit = np.sort(jobs["submit_time"])
    draw_cdf(panels["durations"], durations, "s", "Run time", "share of jobs")
    draw_cdf(panels["gaps"], np.diff(submit), "s", "Gap between submissions", "share of gaps")
    _draw_submissions(panels["submissions"], submit)
    if calendar:
        _draw_calendar(panels["hours"], panels["weekdays"], jobs)
    capacity = num_servers * gpus_per_server if num_servers else None
    _draw_busy(panels["busy"], busy_gpus(jobs), submit, capacity)
    title = f"{trace.name} ({trace.source}, {len(trace)} jobs)"
    figure.suptitle(title, parse_math=False)
    save_figure(figure, path)


def draw_bars(axes: "Axes", series: Mapping[str, Mapping[str, float]]) -> None:
    """Bars side by side: label of the series -> name under its bar -> height.

    All series have the same names; the legend is left out for a single one.
    """
    width = 0.8 / len(series)
    names = list(next(iter(series.values())))
    for index, (label, heights) in enumerate(series.items()):
        places = np.arange(len(names)) + (index - (len(series) - 1) / 2) * width
        axes.bar(places, list(heights.values()), width, color=COLOURS[index], label=label)
    if len(names) <= _MANY_BARS:
        long = max(map(len, names), default=0) > 5
        tilted: dict[str, Any] = (
            {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
        )
        axes.set_xticks(range(len(names)), names, **tilted)
    if len(series) > 1:
        legend_above(axes)
    tidy(axes)


def draw_cdf(
    axes: "Axes", values: npt.NDArray[Any], unit: str, title: str = "", label: str = ""
) -> None:
    """Cumulative distribution on a logarithmic axis, linear near 0 if there are such values."""
    ordered = np.sort(values)
    shares = np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    keep = np.unique(np.linspace(0, max(len(ordered) - 1, 0), _POINTS).astype(np.int64))
    if len(ordered):
        axes.step(ordered[keep], shares[keep], where="post", color=COLOURS[0])
    axes.set_xscale("symlog" if len(ordered) and ordered[0] <= 0 else "log")
    axes.set(xlabel=unit, ylim=(0, 1.02), title=title, ylabel=label)
    tidy(axes)


def tidy(axes: "Axes") -> None:
    """The look of a panel."""
    axes.grid(axis="y")


def _draw_calendar(hours: "Axes", weekdays: "Axes", jobs: Trace) -> None:
    """Weights of hours and weekdays; days are numbers where they count from any origin."""
    named = jobs.clock != "relative"
    origin = "" if named else " from the trace's origin"
    days = weekday_weights(jobs)
    if days is not None and not named:
        days = np.roll(days, -FIRST_WEEKDAY)
    _draw_profile(hours, hour_weights(jobs), range(24))
    _draw_profile(weekdays, days, _WEEKDAYS if named else range(1, 8))
    hours.set(xlabel=f"hour{origin}", ylabel="weight", title="Hour of the day")
    weekdays.set(ylabel="weight", title="Weekday" if named else f"Day of the week{origin}")


def _draw_profile(
    axes: "Axes", weights: npt.NDArray[np.float64] | None, names: Sequence[Any]
) -> None:
    if weights is None:
        axes.text(0.5, 0.5, "the trace is too short", ha="center", transform=axes.transAxes)
    else:
        axes.bar(range(len(weights)), weights, color=COLOURS[0], width=0.8)
        axes.axhline(1.0, color="0.4", ls="--", lw=1)
        step = 1 if len(names) <= _MANY_BARS else 6
        axes.set_xticks(range(0, len(names), step), [str(name) for name in names[::step]])
    tidy(axes)


def _draw_submissions(axes: "Axes", submit: npt.NDArray[np.float64]) -> None:
    """Submissions per day, or per hour of a trace of a few days."""
    span = float(submit[-1] - submit[0])
    calendar, word = (DAY_S, "day") if span > 5 * DAY_S else (HOUR_S, "hour")
    window = max(calendar, span / _POINTS)
    counts = np.bincount(((submit - submit[0]) / window).astype(np.int64))
    unit, size = _unit_of(span)
    axes.step(np.arange(len(counts)) * window / size, counts, where="post", color=COLOURS[0])
    axes.set(
        xlabel=f"time ({unit})",
        ylabel=f"jobs per {word}" if window == calendar else f"jobs per {window / DAY_S:.3g} days",
        title="Submissions",
        ylim=(0, None),
    )
    tidy(axes)


def _draw_busy(
    axes: "Axes", busy: BusyGpus, submit: npt.NDArray[np.float64], capacity: int | None
) -> None:
    """GPUs in use from the first submission to the last end: their range in each small interval."""
    end = float(busy.times_s[-1]) if len(busy.times_s) else float(submit[-1])
    edges = np.linspace(float(submit[0]), max(end, float(submit[0]) + 1), _POINTS + 1)
    unit, size = _unit_of(end - float(submit[0]))
    hours = (edges[:-1] - edges[0]) / size
    if len(busy.times_s):
        first = np.searchsorted(busy.times_s, edges[:-1], side="right") - 1
        last = np.searchsorted(busy.times_s, edges[1:], side="left")
        before = np.where(first >= 0, busy.gpus[first], 0.0)
        within = [busy.gpus[a + 1 : b] for a, b in zip(first, last, strict=True)]
        low = [min(v, float(np.min(w, initial=v))) for v, w in zip(before, within, strict=True)]
        high = [max(v, float(np.max(w, initial=v))) for v, w in zip(before, within, strict=True)]
        axes.fill_between(hours, low, high, step="post", color=COLOURS[0], lw=0.4)
    if capacity is not None:
        _draw_capacity(axes, capacity, float(np.max(busy.gpus, initial=0.0)))
    last_submission = (float(submit[-1]) - edges[0]) / size
    axes.axvline(last_submission, color="0.6", ls=":", lw=1)
    axes.set(
        xlabel=f"time ({unit}; dotted: last submission)",
        ylabel="GPUs in use",
        title="GPUs in use if no job waited",
        ylim=(0, None),
    )
    tidy(axes)


def _draw_capacity(axes: "Axes", capacity: int, peak: float) -> None:
    """A line at the cluster's GPUs, or their number where the line would dwarf what is in use."""
    if capacity <= _TALLEST * peak:
        axes.axhline(capacity, color="0.4", ls="--", lw=1, label=f"{capacity} GPUs")
    else:
        axes.plot([], [], color="0.4", ls="--", lw=1, label=f"{capacity} GPUs, above the figure")
    legend_above(axes)


def _unit_of(span_s: float) -> tuple[str, float]:
    """The largest unit of time of which a span holds at least five, and its seconds."""
    fitting = [unit for unit in _UNITS if span_s >= 5 * unit[1]]
    return (_UNITS[0], *fitting)[-1]
