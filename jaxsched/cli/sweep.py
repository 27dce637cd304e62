"""``jaxsched sweep``: many settings and seeds of one recipe, a table and a picture."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jaxsched.arguments import LARGEST, LARGEST_SEED
from jaxsched.cli.devices import Coordinator, Devices, NumProcesses, ProcessId, Shard
from jaxsched.cli.engines import (
    Address,
    Engine,
    EngineLog,
    MaxRetries,
    NumCpus,
    NumGpus,
    SideBySide,
    engine_and_devices,
)
from jaxsched.cli.options import (
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
from jaxsched.runtime import is_first

PICTURE = "sweep.png"
Over = Annotated[list[str], typer.Option(help="Values of a setting: path=a,b,c (repeat).")]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The first seed.")]
NumSeeds = Annotated[int, typer.Option(min=1, max=LARGEST, help="Seeds of each combination.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the sweep.", show_default="runs/SYSTEM-PRESET-sweep"),
]
Resume = Annotated[bool, typer.Option(help="Go on with the sweep that is there.")]


def sweep(
    system: System,
    over: Over,
    preset: Preset = "quick",
    seed: Seed = 0,
    num_seeds: NumSeeds = 1,
    out: Out = None,
    resume: Resume = False,
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
    side_by_side: SideBySide = None,
    devices: Devices = None,
    shard: Shard = "seeds",
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    engine: Engine = None,
    address: Address = None,
    num_cpus: NumCpus = None,
    num_gpus: NumGpus = None,
    max_retries: MaxRetries = None,
    engine_log: EngineLog = False,
) -> int:
    """Train every combination of values with every seed; a table and a picture at the end."""
    from jaxsched.runs import interrupts, trainer

    limit = interrupts.limits(max_time, stop_on)
    tasks = {"address": address, "num_cpus": num_cpus, "num_gpus": num_gpus}
    tasks |= {"max_retries": max_retries, "engine_log": engine_log}
    where = (devices, shard, coordinator, num_processes, process_id)
    trains, mesh = engine_and_devices(engine, tasks, *where)
    from jaxsched.experiment.groups import Session
    from jaxsched.experiment.sweep_plan import plan_sweep
    from jaxsched.experiment.sweeping import run_sweep
    from jaxsched.runs.sweep import read_axes
    from jaxsched.systems import registry

    chosen = registry.get(system)
    former = chosen.environment.former_options
    folder = out or Path("runs") / f"{system}-{preset}-sweep"
    planned = plan_sweep(
        chosen,
        folder,
        axes=read_axes(present_settings(over, former, chosen.networks.aliases)),
        preset=preset,
        overrides=environment_changes(chosen, settings, servers),
        seed=seed,
        num_seeds=num_seeds,
        side_by_side=side_by_side,
        trace=trace,
        options=TraceOptions(
            trace_seed, num_traces, num_jobs, format=format, columns=columns, timezone=timezone
        ),
        resume=resume,
        mesh=mesh,
    )
    display = console()
    say = partial(display.print, highlight=False)
    try:
        found = run_sweep(planned, Session(resume, limit, say), trains)
    except trainer.Interrupted as stop:
        raise interrupts.Stopped(
            stop.status, f"{stop}; continue with the same command and --resume (sweep: {folder})"
        ) from None
    except EndedAlone as error:
        raise EndedAlone(f"{error}; start all of them again with --resume") from error
    display.print(found.table())
    if is_first():
        found.save(picture := folder / PICTURE)
        say(f"best policy: {found.best_policy}; all values: {found.record}; picture: {picture}")
    return 0
