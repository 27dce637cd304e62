"""``jaxsched sweep``: many settings and seeds of one recipe, a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    NumJobs,
    NumTraces,
    Preset,
    ServersOption,
    Settings,
    System,
    Timezone,
    TraceOptions,
    TraceSeed,
    TrainingTrace,
    environment_changes,
    present_settings,
)
from jaxsched.cli.output import STOPPED, console
from jaxsched.cli.train import Sets, sets_of
from jaxsched.errors import EndedAlone, JaxschedError

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from jaxsched.runs.sweep import Axis, Book, Group

PICTURE = "sweep.png"


class Sweep(NamedTuple):
    """What all groups of a sweep share."""

    system: Any
    recipe: Any
    overrides: list[str]
    sets: Sets
    config: dict[str, Any]
    folder: Path
    mesh: "Mesh | None"


def sweep(
    system: System,
    over: Annotated[list[str], typer.Option(help="Values of a setting: path=a,b,c (repeat).")],
    preset: Preset = "quick",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The first seed.")] = 0,
    num_seeds: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Seeds of each combination.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; runs/SYSTEM-PRESET-sweep.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the sweep that is there.")] = False,
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
    if seed + num_seeds - 1 > LARGEST_SEED:
        raise JaxschedError(f"the last of {num_seeds} seeds is beyond {LARGEST_SEED}")
    mesh = devices_of(devices, shard, coordinator, num_processes, process_id)
    from jaxsched.core import processes
    from jaxsched.jobs import digest_tables
    from jaxsched.runs import sweep as sweeps
    from jaxsched.runs import trainer
    from jaxsched.runs.overrides import override
    from jaxsched.systems import registry

    chosen = registry.get(system)
    renamed = chosen.renamed_options, chosen.renamed_networks
    overrides = environment_changes(chosen, settings, servers)
    axes = sweeps.read_axes(present_settings(over, *renamed))
    recipe = chosen.preset(preset)
    changed = override(recipe, overrides)
    groups = sweeps.groups_of(changed, axes, range(seed, seed + num_seeds))
    options = TraceOptions(
        trace_seed, num_traces, num_jobs, format=format, columns=columns, timezone=timezone
    )
    sets = sets_of(chosen, changed, trace, None, options)
    config = {
        "system": system,
        "preset": preset,
        "overrides": overrides,
        "over": [f"{axis.path}={','.join(axis.values)}" for axis in axes],
        "seed": seed,
        "num_seeds": num_seeds,
        "trace": sets.train.source,
        "trace_digests": {n: digest_tables(part.tables) for n, part in sets._asdict().items()},
        "behaviour_version": chosen.behaviour_version,
    }
    folder = out or Path("runs") / f"{system}-{preset}-sweep"
    shared = Sweep(chosen, recipe, overrides, sets, config, folder, mesh)
    display = console()
    notes = {name: part.notes for name, part in sets._asdict().items()}
    for note in notes["train"]:
        display.print(f"  {note}", highlight=False)
    book = sweeps.Book(folder, config, resume=resume, notes=notes)
    processes.check_same(len(book.groups), "the number of groups that have ended")
    try:
        for number, group in enumerate(groups):
            if group.name in book.groups:
                continue
            _say_group(display, number, groups, folder)
            book.groups[group.name] = _train(shared, group, resume, display)
            _write(book)
    except trainer.Interrupted:
        display.print(f"stopped; continue with the same command and --resume (sweep: {folder})")
        return STOPPED
    except EndedAlone as error:
        raise EndedAlone(f"{error}; start all of them again with --resume") from error
    _conclude(shared, axes, book, display)
    return 0


def _say_group(display: Any, number: int, groups: "list[Group]", folder: Path) -> None:
    group = groups[number]
    common = ", ".join(f"{path}={value}" for path, value in group.common.items())
    display.print(
        f"group {number + 1} of {len(groups)}{f' ({common})' if common else ''}: "
        f"{len(group.members)} side by side; everything goes to {folder / group.name}",
        highlight=False,
    )


def _train(shared: Sweep, group: "Group", resume: bool, display: Any) -> list[dict[str, Any]]:
    """Train a group; what became of its members."""
    from jaxsched.core import sharding
    from jaxsched.runs import sweep as sweeps
    from jaxsched.runs import trainer
    from jaxsched.runs.directory import RunDirectory

    tables = shared.sets.train.tables
    ready = sweeps.prepare(shared.system, shared.recipe, shared.overrides, group, tables)
    for stage in ready.stages:
        sharding.check_divisible(
            shared.mesh,
            num_envs=stage.loop.num_envs,
            num_seeds=len(group.members),
            seeds="trainings side by side (values times seeds)",
        )
    path = shared.folder / group.name
    config = {**shared.config, "group": group.common}
    config["overrides"] = [*shared.overrides, *sweeps.as_settings(group.common)]
    going_on = resume and (path / "config.json").exists()
    seeds = [member.seed for member in group.members]
    with RunDirectory.create(path, config, resume=going_on) as run:
        trained = trainer.train(
            shared.system,
            ready.stages,
            tables=shared.sets.validation.tables,
            seeds=seeds,
            run=run,
            resume=going_on,
            mesh=shared.mesh,
            hyper=ready.hyper,
            say=lambda line: display.print(line, highlight=False),
        )
    kind = "seed" if ready.hyper is None else "member"
    names = seeds if ready.hyper is None else range(len(seeds))
    return [
        {
            "values": {**group.common, **member.values},
            "seed": member.seed,
            "score": best.score,
            "update": best.update,
            "last": curve[-1].score,
            "policy": f"{group.name}/policies/{kind}{name}",
        }
        for member, best, curve, name in zip(
            group.members, trained.best, trained.curves, names, strict=True
        )
    ]


def _write(book: "Book") -> None:
    from jaxsched.cli.output import write_json
    from jaxsched.runtime import is_first

    if is_first():
        write_json(book.path, book.document())


def _conclude(shared: Sweep, axes: "list[Axis]", book: "Book", display: Any) -> None:
    """The table, best first, and the picture."""
    from rich.table import Table

    from jaxsched.report.sweeps import parallel_coordinates
    from jaxsched.runs.sweep import summary
    from jaxsched.runtime import is_first
    from jaxsched.traces.trace_plots import save_figure

    metric = shared.system.metric(shared.system.primary_metric)
    higher, paths = metric.better == "higher", [axis.path for axis in axes]
    entries = summary(book.rows, higher=higher)
    table = Table(title=f"{metric.label} on the validation traces, best first")
    for path in paths:
        table.add_column(path)
    for column in ("mean", "least", "most", "seeds"):
        table.add_column(column, justify="right")
    for entry in entries:
        scores = entry["scores"]
        figures = (f"{value:.5g}" for value in (entry["mean"], min(scores), max(scores)))
        table.add_row(*(entry["values"][path] for path in paths), *figures, str(len(scores)))
    display.print(table)
    if not is_first():
        return
    picture = shared.folder / PICTURE
    figure = parallel_coordinates(paths, entries, label=metric.label, higher=higher)
    save_figure(figure, picture)
    display.print(
        f"best policy: {shared.folder / entries[0]['policy']}; all values: {book.path}; "
        f"picture: {picture}",
        highlight=False,
    )
