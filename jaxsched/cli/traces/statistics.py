"""``jaxsched traces describe``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.options import (
    Columns,
    Cut,
    EnvironmentSettings,
    Format,
    JsonFile,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    ServersOption,
    Timezone,
    environment_changes,
    tell_old,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.cli.traces.shared import Seed
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions
from jaxsched.files import make_folder
from jaxsched.units import readable_time, three_figures

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
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    gpus_per_server: Annotated[int | None, typer.Option(min=1, max=LARGEST, hidden=True)] = None,
    daily: Annotated[
        bool, typer.Option("--daily", help="Hours of the day even if they count from any origin.")
    ] = False,
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    columns: Columns = None,
    timezone: Timezone = None,
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
    options = TraceOptions(
        seed, num_traces, num_jobs, cut, mean_gap, load, format, columns=columns, timezone=timezone
    )
    out = console()
    size = _size(servers, gpus_per_server)
    as_it_is = None if system else _published(trace, options)
    if as_it_is is not None:
        if settings:
            raise JaxschedError("--set is of a system's environment; accepted: with --system")
        figures, draw = _describe_trace(out, as_it_is, size, daily)
    else:
        figures, draw = _describe_tables(out, trace, system, options, settings, size)
    if json_file is not None:
        deliver_json(out, json_file, figures, "figures")
    if plot is not None:
        make_folder(plot)
        draw(plot)
        out.print(f"plot written to {plot}", highlight=False)


def _size(servers: str | None, gpus_per_server: int | None) -> str | None:
    """What ``--servers`` says; as a number alone it is an older spelling."""
    from jaxsched.jobs.servers import read_servers

    if gpus_per_server is not None or (servers is not None and servers.strip().isdecimal()):
        if servers is None:
            raise JaxschedError("--gpus-per-server: accepted: --servers NxM, such as 40x8")
        size = str(read_servers(f"{servers.strip()}x{gpus_per_server or GPUS_PER_SERVER}"))
        more = f" --gpus-per-server {gpus_per_server}" if gpus_per_server else ""
        tell_old(f"--servers {servers}{more}", f"--servers {size}")
        return size
    return servers


GPUS_PER_SERVER = 8  # where only a number of servers is told


def _published(name_or_path: str, options: TraceOptions) -> "Trace | None":
    """The trace, if it is a published, canonical or generated one; None if it is job tables."""
    from jaxsched.traces import Trace, clusters, formats, registry
    from jaxsched.traces.loading import GENERATED_JOBS

    if name_or_path in registry.names():
        return None
    if name_or_path in clusters.names():
        found = clusters.generate_trace(
            name_or_path, options.seed, options.num_jobs or GENERATED_JOBS
        )
    elif Path(name_or_path).exists():
        loaded = formats.load(name_or_path, **options.reading())
        if not isinstance(loaded, Trace):
            return None
        found = loaded
    else:
        return None
    plain = TraceOptions()
    drawn = plain._replace(seed=options.seed, num_jobs=options.num_jobs)
    if options.without_reading() != (drawn if name_or_path in clusters.names() else plain):
        raise JaxschedError(
            f"{name_or_path}: is described as it is; accepted: --num-traces, --cut, --mean-gap and "
            "--load, and for files --seed and --num-jobs, together with --system"
        )
    return found


def _describe_trace(
    out: Any,
    trace: "Trace",
    size: str | None,
    daily: bool,
) -> Described:
    from jaxsched.jobs.servers import read_servers
    from jaxsched.traces.describe_trace import describe_trace
    from jaxsched.traces.trace_plots import plot_trace

    servers, each = None, GPUS_PER_SERVER
    if size is not None:
        found = read_servers(size, mixed=True)
        servers, each = (found.num_gpus, 1) if found.kinds else found[:2]
    figures = describe_trace(trace, servers, each, daily=daily)
    _print_figures(out, figures)
    return figures, lambda path: plot_trace(
        trace, path, num_servers=servers, gpus_per_server=each, daily=daily
    )


def _describe_tables(
    out: Any,
    name_or_path: str,
    system: str | None,
    options: TraceOptions,
    settings: list[str] | None,
    size: str | None,
) -> Described:
    from jaxsched.experiment.sources import resolve
    from jaxsched.runs.overrides import change_environment
    from jaxsched.systems import functions, registry
    from jaxsched.traces import describe_tables, plot_tables

    chosen = registry.get(system or registry.names()[0])  # tables as they are for the first
    env = functions.environment(chosen)
    env = change_environment(env, environment_changes(chosen, settings, size))
    mapping = functions.mapping(chosen, env, mean_gap_s=None, load=None)
    episodes = resolve(name_or_path, chosen, options, env).made_with(options, chosen, env)
    gpus = mapping.max_gpus
    figures = describe_tables(episodes.tables, num_gpus=gpus, slots=mapping.slots)
    if episodes.summary:
        out.print(episodes.summary, highlight=False)
    out.print(f"{episodes.source} on {mapping.cluster}")
    _print_figures(out, figures)
    tables = episodes.tables
    return figures, lambda path: plot_tables(tables, path, num_gpus=gpus)


def _print_figures(out: Any, figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        label, words = _readable(name, value)
        out.print(f"  {label:20} {words}", highlight=False)


_NO_TIMES = ("cv",)  # among figures of times


def _readable(name: str, value: Any) -> tuple[str, str]:
    """Name and value of a figure in print: times in the unit that suits them, GPU time in hours."""
    if name.startswith("gpu_seconds") and isinstance(value, int | float):
        hours = three_figures(value / 3600)
        return name.replace("gpu_seconds", "gpu_time_used"), f"{hours} GPU hours"
    if not name.endswith("_s"):
        return name, _text(value)
    if isinstance(value, dict):
        parts = (
            f"{part} {_text(x) if part in _NO_TIMES else _time(x)}" for part, x in value.items()
        )
        return name.removesuffix("_s"), ", ".join(parts)
    return name.removesuffix("_s"), _time(value)


def _time(value: Any) -> str:
    return readable_time(value) if isinstance(value, int | float) else _text(value)


def _text(value: Any) -> str:
    """A value of a description on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        between = " " if all(isinstance(part, float) for part in value) else "; "
        return between.join(map(_text, value)) or "none"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return "not known" if value is None else str(value)
