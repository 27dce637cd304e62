"""``jaxsched traces import``, ``convert`` and ``generate``: trace files in one layout or another.

Outputs are refused before any work if they cannot be written.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.options import (
    Columns,
    Cut,
    EnvironmentSettings,
    Format,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    ServersOption,
    Timezone,
    environment_changes,
)
from jaxsched.cli.output import check_writable, console
from jaxsched.cli.traces.shared import Seed, check_ending, print_trace
from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment.options import TraceOptions
from jaxsched.files import make_folder

if TYPE_CHECKING:
    from jaxsched.jobs import JobTable
    from jaxsched.traces.trace import Trace

TABLE_ENDINGS = (".csv", ".csv.gz")


def import_file(
    file: Annotated[str, typer.Argument(help="File or folder of a published trace.")],
    out: Annotated[Path, typer.Option(help="File to write (.parquet, .csv or .csv.gz).")],
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
) -> None:
    """Make a canonical trace of a published one; says what was dropped, capped or imputed."""
    _rewrite(file, out, TraceOptions(format=format, columns=columns, timezone=timezone))


def convert(
    trace: Annotated[str, typer.Argument(help="Trace file or, with --system, a named trace.")],
    out: Annotated[Path, typer.Option(help="File to write; its ending chooses the layout.")],
    format: Format = None,
    system: Annotated[
        str | None, typer.Option(help="Write job tables of this system (.csv or .csv.gz).")
    ] = None,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    columns: Columns = None,
    timezone: Timezone = None,
) -> None:
    """Write a trace in another layout, or as the job tables of a system."""
    from jaxsched.systems import functions

    options = TraceOptions(
        seed, num_traces, num_jobs, cut, mean_gap, load, format, columns=columns, timezone=timezone
    )
    if system is None:
        if options.without_reading() != TraceOptions() or settings or servers:
            raise JaxschedError(
                "the seed, --num-traces, --num-jobs, --cut, --mean-gap, --load, --servers and "
                "--set make job tables; accepted: together with --system"
            )
        _rewrite(trace, out, options)
        return
    from jaxsched.experiment.sources import resolve
    from jaxsched.runs.overrides import change_environment
    from jaxsched.systems import registry
    from jaxsched.traces import write_tables

    check_ending(out, TABLE_ENDINGS)
    check_writable(out)
    chosen = registry.get(system)
    env = functions.environment(chosen)
    env = change_environment(env, environment_changes(chosen, settings, servers))
    episodes = resolve(trace, chosen, options, env).made_with(options, chosen, env)
    make_folder(out)
    write_tables(out, episodes.tables)
    screen = console()
    screen.print(episodes.summary or episodes.source, highlight=False)
    jobs = sum(len(table) for table in episodes.tables)
    screen.print(
        f"{counted(len(episodes.tables), 'trace')} of {counted(jobs, 'job')} in all for {system} "
        f"written to {out}",
        highlight=False,
    )


def generate(
    name: Annotated[str, typer.Argument(help="Generator, such as sched2-68 or philly-like.")],
    out: Annotated[Path, typer.Option(help="File to write; its ending chooses the layout.")],
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    load: Annotated[
        float | None,
        typer.Option(
            help="Offered load of a workload like that of a cluster.",
            show_default="the cluster's own",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1, max=LARGEST, help="GPUs that --load refers to.", show_default="the cluster's own"
        ),
    ] = None,
    servers: ServersOption = None,
) -> None:
    """Write synthetic traces; the same seed gives the same file."""
    from jaxsched.jobs.servers import read_servers
    from jaxsched.traces import clusters, registry
    from jaxsched.traces.loading import GENERATED_JOBS

    if servers is not None:
        if gpus is not None:
            raise JaxschedError("--gpus: --servers says it too; accepted: one of both")
        gpus = read_servers(servers, mixed=True).num_gpus
    generators = [entry.name for entry in registry.entries() if entry.seeded]
    if name in clusters.names():
        if num_traces is not None:
            raise JaxschedError(f"{name}: is one trace; accepted: --num-jobs, not --num-traces")
        _generate_trace(name, out, seed, num_jobs or GENERATED_JOBS, load, gpus)
    elif name not in generators:
        known = registry.nearest_of(name, [*generators, *clusters.names()])
        raise JaxschedError(f"unknown generator {name!r}; accepted: {known}")
    elif load is not None or gpus is not None:
        raise JaxschedError(
            f"{name}: has a load of its own; accepted: --load and --gpus with "
            f"{', '.join(clusters.names())}"
        )
    else:
        _generate_tables(name, out, seed, num_traces, num_jobs)


def _rewrite(file: str, out: Path, options: TraceOptions) -> None:
    from jaxsched.traces import load_trace, trace_files

    check_ending(out, trace_files.ENDINGS)
    check_writable(out)
    _write(out, load_trace(file, **options.reading()))


def _generate_trace(
    name: str, out: Path, seed: int, num_jobs: int, load: float | None, gpus: int | None
) -> None:
    from jaxsched.traces import clusters, trace_files, write_trace

    check_ending(out, trace_files.ENDINGS)
    check_writable(out)
    screen = console()

    def make(count: int) -> "Trace":
        return clusters.generate_trace(name, seed, count, num_gpus=gpus, load=load)

    trace = _drawn_and_written(screen, out, make, write_trace, num_jobs)
    if load is not None:
        cluster = gpus or clusters.workload(name).num_gpus
        screen.print(f"load {load:g} of {cluster} GPUs, in expectation", highlight=False)
    print_trace(screen, trace)
    screen.print(f"trace written to {out}", highlight=False)


def _drawn_and_written(
    screen: Any, out: Path, make: Callable[[int], Any], write: Callable[..., Any], num_jobs: int
) -> Any:
    """What is drawn, after it was written; long waits are said, with what is left of them."""
    from jaxsched.runs.heartbeat import Heartbeat
    from jaxsched.traces.pace import pace

    make_folder(out)
    with Heartbeat(screen, "drawing jobs") as beat:
        found = pace(out, make, write, num_jobs)
        beat.update("drawing", 0, num_jobs, "jobs")
        if found is not None:
            beat.expect(found.draw_s * num_jobs)
        made = make(num_jobs)
        beat.update("writing", 0, num_jobs, "jobs")
        if found is not None:
            beat.expect(found.write_s * num_jobs)
        write(out, made)
    return made


def _write(out: Path, trace: "Trace") -> None:
    from jaxsched.traces import write_trace

    make_folder(out)
    write_trace(out, trace)
    screen = console()
    print_trace(screen, trace)
    screen.print(f"trace written to {out}", highlight=False)


def _generate_tables(
    name: str, out: Path, seed: int, num_traces: int | None, num_jobs: int | None
) -> None:
    from jaxsched.traces import get, registry, write_tables

    check_ending(out, TABLE_ENDINGS)
    check_writable(out)
    screen = console()
    whole = registry.num_jobs_of(name, num_traces, num_jobs)

    def make(count: int) -> "list[JobTable]":
        if count == whole:
            return get(name, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
        return get(name, seed=seed, num_traces=1, num_jobs=count)

    tables = _drawn_and_written(screen, out, make, write_tables, whole)
    screen.print(
        f"{counted(len(tables), 'trace')} of {counted(len(tables[0]), 'job')} written to {out}",
        highlight=False,
    )
