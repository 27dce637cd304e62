"""Statistics and a figure of job tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.shares import part_held
from jaxsched.pictures import PAGE_IN, legend_above, new_figure, save_figure, styled
from jaxsched.traces.job_kinds import kind_of
from jaxsched.traces.trace_plots import COLOURS, draw_bars, draw_cdf, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PERCENTILES = (10, 25, 75, 90, 99)


def describe_tables(
    tables: Sequence[JobTable],
    *,
    num_servers: int | None = None,
    gpus_per_server: int = 8,
    num_gpus: int | None = None,
    slots: int = 1,
) -> dict[str, Any]:
    """Statistics of one or more tables of jobs with a number of GPUs each, ready for JSON.

    Shares, run times and demands are over all jobs together; gap variation, span and load are
    means over the tables that have them (a table needs two submission times), else None.

    Args:
      tables: the tables.
      num_servers: servers of the cluster that ``load`` refers to; None: ``num_gpus`` tells it.
      gpus_per_server: GPUs of each.
      num_gpus: N, GPUs of that cluster; without it and ``num_servers`` there is no load.
      slots: of each GPU; see ``offered_load``.

    Returns:
      ``traces``, ``jobs`` (counts); ``one_gpu_share``; ``demand`` (GPUs -> jobs);
      ``duration_s`` (mean, median, min, max, p10 ... p99); ``gap_s`` (mean, median, and ``cv``,
      standard deviation over mean within a table); ``span_s`` (first to last submission);
      ``load`` = sum of num_gpus * duration / (N * span), run times at best locality, or for
      jobs that share GPUs, the GPU time that they keep busy / (N * span);
      ``model_shares`` (model id -> share), where jobs have models; ``notes`` of the tables.
    """
    size = _size(num_servers, gpus_per_server, num_gpus)
    load = None if size is None else offered_load(tables, size, slots)
    models = [table["model"] for table in tables if "model" in table.columns]
    tables = _rigid(tables)
    gpus = np.concatenate([table["num_gpus"] for table in tables])
    duration = np.concatenate([table["duration"] for table in tables])
    gaps = [np.diff(table["submit_time"]) for table in tables]
    all_gaps = np.concatenate(gaps)
    spans = [int(table["submit_time"][-1] - table["submit_time"][0]) for table in tables]
    return {
        "traces": len(tables),
        "jobs": len(gpus),
        "one_gpu_share": float(np.mean(gpus == 1)),
        "demand": {str(g): int(count) for g, count in _counts(gpus)},
        "duration_s": {
            "mean": float(np.mean(duration)),
            "median": float(np.median(duration)),
            "min": int(np.min(duration)),
            "max": int(np.max(duration)),
            **{f"p{p}": float(np.percentile(duration, p)) for p in _PERCENTILES},
        },
        "gap_s": {
            "mean": float(np.mean(all_gaps)) if all_gaps.size else None,
            "median": float(np.median(all_gaps)) if all_gaps.size else None,
            "cv": _mean([float(np.std(gap) / np.mean(gap)) for gap in gaps if np.any(gap > 0)]),
        },
        "span_s": _mean([float(span) for span in spans if span > 0]),
        "load": load,
        **({"model_shares": _shares(np.concatenate(models))} if models else {}),
        "notes": sorted({note for table in tables for note in table.notes}),
    }


def offered_load(tables: Sequence[JobTable], num_gpus: int, slots: int = 1) -> float | None:
    """Load that tables offer to a cluster, the mean over those that have two submission times.

    That of a table is the GPU time that its jobs keep busy over ``num_gpus`` times its span; None
    where no table has a span. Where GPUs have slots, jobs that share a GPU keep those busy that
    they hold (``jaxsched.jobs.shares``).
    """
    loads = []
    for table in tables:
        span = float(table["submit_time"][-1] - table["submit_time"][0])
        if span > 0:
            work = kind_of(table).work(table) * part_held(table, slots)
            loads.append(float(np.sum(work)) / (num_gpus * span))
    return _mean(loads)


def has_load(table: JobTable) -> bool:
    """Whether the GPU time of a table's jobs is known before they run."""
    kind = kind_of(table)
    return kind.busy_gpu_seconds is not None or "num_gpus" in kind.as_rigid(table).columns


def load_in_words(tables: Sequence[JobTable], num_gpus: int, slots: int = 1) -> str:
    """The load that tables offer to a cluster; empty where their jobs offer none.

    Args:
      tables: the tables.
      num_gpus: of the cluster; 0 if it is not known.
      slots: of each GPU; see ``offered_load``.
    """
    if not num_gpus or not all(map(has_load, tables)):
        return ""
    load = offered_load(tables, num_gpus, slots)
    return "" if load is None else f"{load:.3f} of {num_gpus} GPUs"


@styled
def plot_tables(
    tables: Sequence[JobTable],
    path: PathLike,
    *,
    num_servers: int | None = None,
    gpus_per_server: int = 8,
    num_gpus: int | None = None,
    title: str | None = None,
) -> None:
    """Draw demand histogram, run-time and gap distributions and load over time.

    The load over time is the share of the cluster's GPUs that jobs would hold if each ran from its
    submission at the best locality; above 1 jobs must wait. Where no cluster is told, it is the
    number of GPUs.

    Raises:
      JaxschedError: no tables, or a file that cannot be written.
    """
    tables = _rigid(tables)
    figure = new_figure(PAGE_IN, 4.4)
    demand, durations, gaps, load = figure.subplots(2, 2).ravel()
    _draw_demand(demand, tables)
    run_times = np.concatenate([table["duration"] for table in tables])
    all_gaps = np.concatenate([np.diff(table["submit_time"]) for table in tables])
    draw_cdf(durations, run_times / 60, "min", "Run time", "share of jobs")
    draw_cdf(gaps, all_gaps, "s", "Gap between submissions", "share of gaps")
    _draw_load(load, tables, _size(num_servers, gpus_per_server, num_gpus))
    figure.suptitle(title or _title(tables), parse_math=False)
    save_figure(figure, path)


def load_over_time(
    table: JobTable, times_s: npt.NDArray[np.float64], num_gpus: int
) -> npt.NDArray[np.float64]:
    """Share of ``num_gpus`` GPUs held at each time if every job ran from its submission.

    A job counts from its submission (included) to its end (excluded).
    """
    started = _held(table["submit_time"], table["num_gpus"], times_s)
    ended = _held(table["submit_time"] + table["duration"], table["num_gpus"], times_s)
    return (started - ended) / num_gpus


def _held(moments: Integers, gpus: Integers, times_s: npt.NDArray[np.float64]) -> Integers:
    """GPUs of the jobs whose moment is at or before each time."""
    order = np.argsort(moments, kind="stable")
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(gpus[order])])
    return total[np.searchsorted(moments[order], times_s, side="right")]


def _rigid(tables: Sequence[JobTable]) -> list[JobTable]:
    """Tables with a number of GPUs for each job."""
    if not tables or any(len(table) == 0 for table in tables):
        raise JaxschedError("there are no jobs to describe; accepted: tables with jobs")
    return [kind_of(table).as_rigid(table) for table in tables]


def _size(num_servers: int | None, gpus_per_server: int, num_gpus: int | None) -> int | None:
    """GPUs of the cluster; None where it is not told."""
    return num_gpus if num_servers is None else num_servers * gpus_per_server


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _counts(values: Integers) -> list[tuple[int, int]]:
    unique, counts = np.unique(values, return_counts=True)
    return list(zip(unique.tolist(), counts.tolist(), strict=True))


def _shares(values: Integers) -> dict[str, float]:
    return {str(value): count / len(values) for value, count in _counts(values)}


def _title(tables: Sequence[JobTable]) -> str:
    jobs = sum(len(table) for table in tables)
    more = f" and {len(tables) - 1} more" if len(tables) > 1 else ""
    return f"{tables[0].name}{more} ({jobs} jobs)"


def _draw_demand(axes: "Axes", tables: Sequence[JobTable]) -> None:
    counts = _counts(np.concatenate([table["num_gpus"] for table in tables]))
    total = sum(count for _, count in counts)
    draw_bars(axes, {"jobs": {str(gpus): count / total for gpus, count in counts}})
    axes.set(xlabel="GPUs of a job", ylabel="share of jobs", title="Demand")


def _draw_load(axes: "Axes", tables: Sequence[JobTable], num_gpus: int | None) -> None:
    end = max(float(np.max(t["submit_time"] + t["duration"])) for t in tables)
    times = np.linspace(0.0, end, 400)
    loads = np.stack([load_over_time(table, times, num_gpus or 1) for table in tables])
    low, middle, high = np.percentile(loads, [10, 50, 90], axis=0)
    hours = times / 3600
    if len(tables) > 1:
        axes.fill_between(hours, low, high, color=COLOURS[0], alpha=0.2, lw=0, label="10-90 %")
    axes.plot(hours, middle, color=COLOURS[0], label="median" if len(tables) > 1 else "load")
    if num_gpus is not None:
        axes.axhline(1.0, color="0.4", ls="--", lw=1, label=f"{num_gpus} GPUs")
    what = "load" if num_gpus is not None else "GPUs held"
    axes.set(xlabel="time (h)", ylabel=f"{what} if no job waited", title="Load")
    legend_above(axes)
    tidy(axes)
