"""``jaxsched traces``: statistics of a trace, synthetic traces."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.episodes import resolve
from jaxsched.cli.main import app
from jaxsched.cli.options import Cut, JsonFile, Load, MeanGap, NumJobs, NumTraces, TraceOptions
from jaxsched.cli.output import check_writable, console, write_json
from jaxsched.errors import JaxschedError

traces = typer.Typer(help="Traces: describe, generate.", no_args_is_help=True)
app.add_typer(traces, name="traces")

System = Annotated[str, typer.Option(help="System whose cluster and mapping are used.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed.")]


@traces.command()
def describe(
    trace: Annotated[str, typer.Argument(help="Named trace or file.")],
    system: System = "sched2",
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure (PNG) here.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Demand, duration, gaps and offered load of a trace."""
    from jaxsched import registry
    from jaxsched.traces import describe_tables, plot_tables

    for path in (plot, json_file):
        if path is not None:
            check_writable(path)
    chosen = registry.get(system)
    options = TraceOptions(seed, num_traces, num_jobs, cut, mean_gap, load)
    episodes = resolve(trace, chosen, options)
    mapping = chosen.mapping(mean_gap_s=None, load=None)
    servers, gpus = mapping.num_servers, mapping.gpus_per_server
    figures = describe_tables(episodes.tables, num_servers=servers, gpus_per_server=gpus)
    out = console()
    if episodes.summary:
        out.print(episodes.summary, highlight=False)
    out.print(f"{episodes.source} on {servers} x {gpus} GPUs")
    for name, value in figures.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        out.print(f"  {name:18} {text}", highlight=False)
    if json_file is not None:
        out.print(f"figures written to {write_json(json_file, figures)}", highlight=False)
    if plot is not None:
        plot_tables(episodes.tables, plot, num_servers=servers, gpus_per_server=gpus)
        out.print(f"plot written to {plot}", highlight=False)


@traces.command()
def generate(
    name: Annotated[str, typer.Argument(help="Generator, such as sched2-68.")],
    out: Annotated[Path, typer.Option(help="File to write (.csv or .csv.gz).")],
    seed: Seed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
) -> None:
    """Write synthetic traces; the same seed gives the same file."""
    from jaxsched.traces import get, registry, write_tables

    check_writable(out)
    if not out.name.endswith((".csv", ".csv.gz")):
        raise JaxschedError(f"{out}: expected a name that ends in .csv or .csv.gz")
    generators = [entry.name for entry in registry.entries() if entry.seeded]
    if name not in generators:
        raise JaxschedError(f"unknown generator {name!r}; known are {', '.join(generators)}")
    tables = get(name, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    write_tables(out, tables)
    console().print(
        f"{len(tables)} traces of {len(tables[0])} jobs written to {out}", highlight=False
    )


def _not_there_yet(name: str, what: str) -> None:
    @traces.command(name, context_settings={"ignore_unknown_options": True})
    def command(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        del arguments
        raise JaxschedError(f"traces {name}: {what} is not there yet")

    command.__doc__ = f"{what} (not there yet)."


_not_there_yet("import", "conversion of a published format into a file")
_not_there_yet("fetch", "download of public traces")
