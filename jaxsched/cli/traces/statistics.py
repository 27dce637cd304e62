"""``jaxsched traces describe``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from jaxsched.cli.options import (
    GENERATED_JOBS,
    LARGEST,
    Cut,
    Format,
    JsonFile,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    TraceOptions,
)
from jaxsched.cli.output import check_writable, console, deliver_json, make_folder
from jaxsched.cli.traces.shared import Seed
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jaxsched.traces.trace import Trace

Described: TypeAlias = tuple[dict[str, Any], Callable[[Path], None]]
"""Figures of a trace, and what draws it."""


def describe(
    trace: Annotated[str, typer.Argument(help="Named trace, or file of any known format.")],
    format: Format = None,
    system: Annotated[
        str | None, typer.Option(help="Describe the job tables of this system instead.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, help="Servers that the load refers to.")
    ] = None,
    gpus_per_server: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST, help="GPUs of each; 8, or those of the system."),
    ] = None,
    daily: Annotated[
        bool, typer.Option("--daily", help="Hours of the day even if they count from any origin.")
    ] = False,
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure here (.png, .svg, .pdf).")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Demand, run times, arrivals and offered load of a trace."""
    for path in (plot, json_file):
        if path is not None:
            check_writable(path)
    if plot is not None:
        from jaxsched.pictures import check_picture

        check_picture(plot)
    options = TraceOptions(seed, num_traces, num_jobs, cut, mean_gap, load, format)
    out = console()
    as_it_is = None if system else _published(trace, options)
    if as_it_is is not None:
        figures, draw = _describe_trace(out, as_it_is, servers, gpus_per_server or 8, daily)
    else:
        cluster = (servers, gpus_per_server)
        figures, draw = _describe_tables(out, trace, system, options, cluster)
    if json_file is not None:
        deliver_json(out, json_file, figures, "figures")
    if plot is not None:
        make_folder(plot)
        draw(plot)
        out.print(f"plot written to {plot}", highlight=False)


def _published(name_or_path: str, options: TraceOptions) -> "Trace | None":
    """The trace, if it is a published, canonical or generated one; None if it is job tables."""
    from jaxsched.traces import Trace, clusters, load, registry

    if name_or_path in registry.names():
        return None
    if name_or_path in clusters.names():
        found = clusters.generate_trace(
            name_or_path, options.seed, options.num_jobs or GENERATED_JOBS
        )
    elif Path(name_or_path).exists():
        loaded = load(name_or_path, format=options.format)
        if not isinstance(loaded, Trace):
            return None
        found = loaded
    else:
        return None
    plain = TraceOptions(format=options.format)
    drawn = plain._replace(seed=options.seed, num_jobs=options.num_jobs)
    if options != (drawn if name_or_path in clusters.names() else plain):
        raise JaxschedError(
            f"{name_or_path}: is described as it is; accepted: --num-traces, --cut, --mean-gap and "
            "--load, and for files --seed and --num-jobs, together with --system"
        )
    return found


def _describe_trace(
    out: Any,
    trace: "Trace",
    servers: int | None,
    gpus_per_server: int,
    daily: bool,
) -> Described:
    from jaxsched.traces.describe_trace import describe_trace
    from jaxsched.traces.trace_plots import plot_trace

    figures = describe_trace(trace, servers, gpus_per_server, daily=daily)
    _print_figures(out, figures)
    return figures, lambda path: plot_trace(
        trace, path, num_servers=servers, gpus_per_server=gpus_per_server, daily=daily
    )


def _describe_tables(
    out: Any,
    name_or_path: str,
    system: str | None,
    options: TraceOptions,
    cluster: tuple[int | None, int | None],
) -> Described:
    from jaxsched.cli.episodes import resolve
    from jaxsched.systems import registry
    from jaxsched.traces import describe_tables, plot_tables

    chosen = registry.get(system or registry.names()[0])  # tables as they are for the first
    mapping = chosen.mapping(mean_gap_s=None, load=None)
    servers, gpus = cluster[0] or mapping.num_servers, cluster[1] or mapping.gpus_per_server
    episodes = resolve(name_or_path, chosen, options).made_with(options, chosen)
    figures = describe_tables(episodes.tables, num_servers=servers, gpus_per_server=gpus)
    if episodes.summary:
        out.print(episodes.summary, highlight=False)
    out.print(f"{episodes.source} on {servers} x {gpus} GPUs")
    _print_figures(out, figures)
    tables = episodes.tables
    return figures, lambda path: plot_tables(
        tables, path, num_servers=servers, gpus_per_server=gpus
    )


def _print_figures(out: Any, figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        out.print(f"  {name:20} {_text(value)}", highlight=False)


def _text(value: Any) -> str:
    """A value of a description on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        between = " " if all(isinstance(part, float) for part in value) else "; "
        return between.join(map(_text, value)) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "not known" if value is None else str(value)
