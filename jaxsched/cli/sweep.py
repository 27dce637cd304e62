"""``jaxsched sweep``: many settings and seeds of one recipe, a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    Shard,
    devices_of,
)
from jaxsched.cli.options import (
    LARGEST,
    LARGEST_SEED,
    Columns,
    Format,
    MaxTime,
    NumJobs,
    NumTraces,
    Preset,
    ServersOption,
    Settings,
    StopOn,
    System,
    Timezone,
    TraceSeed,
    TrainingTrace,
    environment_changes,
    present_settings,
)
from jaxsched.cli.output import console
from jaxsched.errors import EndedAlone
from jaxsched.experiment.options import TraceOptions

if TYPE_CHECKING:
    from jaxsched.experiment.sweeping import SweepPlan
    from jaxsched.runs.sweep import Book, Group

PICTURE = "sweep.png"


def sweep(
    system: System,
    over: Annotated[list[str], typer.Option(help="Values of a setting: path=a,b,c (repeat).")],
    preset: Preset = "quick",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The first seed.")] = 0,
    num_seeds: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Seeds of each combination.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep.", show_default="runs/SYSTEM-PRESET-sweep"),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the sweep that is there.")] = False,
    max_time: MaxTime = None,
    stop_on: StopOn = None,
    settings: Settings = None,
    servers: ServersOption = None,
    trace: TrainingTrace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    devices: Devices = None,
    shard: Shard = "seeds",
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
) -> int:
    """Train every combination of values with every seed; a table and a picture at the end."""
    from jaxsched.runs import interrupts

    limit = interrupts.limits(max_time, stop_on)
    mesh = devices_of(devices, shard, coordinator, num_processes, process_id)
    from jaxsched.experiment.sweeping import plan_sweep, run_sweep
    from jaxsched.runs import trainer
    from jaxsched.systems import registry

    chosen = registry.get(system)
    folder = out or Path("runs") / f"{system}-{preset}-sweep"
    planned = plan_sweep(
        chosen,
        folder,
        over=present_settings(over, chosen.renamed_options, chosen.renamed_networks),
        preset=preset,
        overrides=environment_changes(chosen, settings, servers),
        seed=seed,
        num_seeds=num_seeds,
        trace=trace,
        options=TraceOptions(
            trace_seed, num_traces, num_jobs, format=format, columns=columns, timezone=timezone
        ),
        resume=resume,
        mesh=mesh,
    )
    display = console()
    for note in planned.notes["train"]:
        display.print(f"  {note}", highlight=False)
    try:
        book = run_sweep(
            planned,
            resume=resume,
            limit=limit,
            on_group=lambda number, group: _say_group(display, number, planned.groups, folder),
            say=lambda line: display.print(line, highlight=False),
        )
    except trainer.Interrupted as stop:
        raise interrupts.Stopped(
            stop.status, f"{stop}; continue with the same command and --resume (sweep: {folder})"
        ) from None
    except EndedAlone as error:
        raise EndedAlone(f"{error}; start all of them again with --resume") from error
    _conclude(planned, book, display)
    return 0


def _say_group(display: Any, number: int, groups: "list[Group]", folder: Path) -> None:
    group = groups[number]
    common = ", ".join(f"{path}={value}" for path, value in group.common.items())
    display.print(
        f"group {number + 1} of {len(groups)}{f' ({common})' if common else ''}: "
        f"{len(group.members)} side by side; everything goes to {folder / group.name}",
        highlight=False,
    )


def _conclude(planned: "SweepPlan", book: "Book", display: Any) -> None:
    """The table, best first, and the picture."""
    from rich.table import Table

    from jaxsched.pictures import save_figure
    from jaxsched.report.sweeps import parallel_coordinates
    from jaxsched.runs.sweep import summary
    from jaxsched.runtime import is_first
    from jaxsched.units import readable_time

    metric = planned.system.metric(planned.system.primary_metric)
    shown = readable_time if metric.unit == "s" else "{:.5g}".format
    higher, paths = metric.better == "higher", [axis.path for axis in planned.axes]
    entries = summary(book.rows, higher=higher)
    table = Table(title=f"{metric.label} on the validation traces, best first")
    for path in paths:
        table.add_column(path)
    for column in ("mean", "least", "most", "seeds"):
        table.add_column(column, justify="right")
    for entry in entries:
        scores = entry["scores"]
        figures = map(shown, (entry["mean"], min(scores), max(scores)))
        table.add_row(*(entry["values"][path] for path in paths), *figures, str(len(scores)))
    display.print(table)
    if not is_first():
        return
    picture = planned.folder / PICTURE
    display.print(
        f"best policy: {planned.folder / entries[0]['policy']}; all values: {book.path}; "
        f"picture: {picture}",
        highlight=False,
    )
    save_figure(parallel_coordinates(paths, entries, label=metric.label, higher=higher), picture)
