"""``jaxsched train``: train, compare with every baseline, report."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.completion import complete_trace
from jaxsched.cli.config_file import RUN_FILE, as_toml
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
    OUTPUT,
    TRACES,
    Columns,
    Cut,
    Format,
    Load,
    MaxTime,
    MeanGap,
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
    as_typed,
    environment_changes,
    given,
    present_name,
)
from jaxsched.cli.output import console
from jaxsched.errors import EndedAlone
from jaxsched.experiment.options import TraceOptions
from jaxsched.files import write_json, write_text

PLACE = ("out", "resume", "overwrite", "max_time", "stop_on")
"""Options that say where a run goes and when its session ends, not what it is."""


def train(
    context: typer.Context,
    system: System,
    preset: Preset = "quick",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the run.")] = 0,
    num_seeds: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Seeds trained side by side.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Run directory.", show_default="runs/SYSTEM-PRESET")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the newest checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is there.")] = False,
    max_time: MaxTime = None,
    stop_on: StopOn = None,
    settings: Settings = None,
    servers: ServersOption = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Start from a trained policy: SYSTEM/pretrained, a run, or a policy in it."
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Log to wandb or mlflow too (repeat for both).", rich_help_panel=OUTPUT),
    ] = None,
    trace: TrainingTrace = None,
    test_trace: Annotated[
        str | None,
        typer.Option(
            help="Test traces: name or file; of job tables all.",
            show_default="the preset's",
            rich_help_panel=TRACES,
            autocompletion=complete_trace,
        ),
    ] = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    devices: Devices = None,
    shard: Shard = "envs",
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
) -> int:
    """Train a policy with a live display, then compare it with every baseline."""
    from jaxsched.runs import interrupts

    limit = interrupts.limits(max_time, stop_on)
    mesh = devices_of(devices, shard, coordinator, num_processes, process_id)
    from jaxsched.core import processes, sharding
    from jaxsched.experiment.plans import identity, introduced, plan, tested
    from jaxsched.runs import trackers, trainer
    from jaxsched.runs.directory import RunDirectory
    from jaxsched.runs.policies import find_trained
    from jaxsched.systems import registry

    chosen = registry.get(system)
    overrides = environment_changes(chosen, settings, servers)
    path = out or Path("runs") / f"{system}-{preset}"
    asked = identity(chosen, preset, overrides, seed, num_seeds)
    processes.first_alone(
        lambda: RunDirectory.check(path, asked, resume=resume, overwrite=overwrite), lambda: None
    )
    started = None
    if start is not None:
        started = (start, find_trained(present_name("policy", start), chosen).trained()[0])
    planned = plan(
        chosen,
        preset=preset,
        overrides=overrides,
        seed=seed,
        num_seeds=num_seeds,
        trace=trace,
        test_trace=test_trace,
        options=TraceOptions(
            trace_seed,
            num_traces,
            num_jobs,
            cut,
            mean_gap,
            load,
            format,
            columns=columns,
            timezone=timezone,
        ),  # fmt: skip
        start=started,
        mesh=mesh,
    )
    display = console()
    config = planned.config
    with RunDirectory.create(path, config, resume=resume, overwrite=overwrite) as run:
        if run.writes:
            text = as_toml(str(context.info_name), given(context, without=PLACE))
            write_text(run.path / RUN_FILE, text)
            run.trackers = trackers.start(track or [], run.path, run.config)
        for line in introduced(planned, str(path)):
            display.print(line, highlight=False)
        try:
            trained = trainer.train(
                planned.system,
                planned.stages,
                tables=planned.sets.validation.tables,
                seeds=planned.seeds,
                run=run,
                resume=resume,
                start=planned.start,
                mesh=mesh,
                say=lambda line: display.print(line, highlight=False),
                limit=limit,
            )
        except trainer.Interrupted as stop:
            raise interrupts.Stopped(
                stop.status, f"{stop}; continue with the same command and --resume (run: {path})"
            ) from None
        except EndedAlone as error:
            raise EndedAlone(
                f"{error}; start all of them again with --resume (run: {path})"
            ) from error
        command = as_typed(context, without=PLACE)
        command += f" --out {shlex.quote(str(path))}"
        with processes.together(), sharding.on(mesh):
            result = tested(planned, trained, command)
        if run.writes:
            _conclude(display, run, result)
    return 0


def _conclude(display: Any, run: Any, result: dict[str, Any]) -> None:
    from jaxsched.cli.compare import print_comparison
    from jaxsched.report import check, write_html
    from jaxsched.results.curves import COMPARISON

    write_json(run.path / COMPARISON, result)
    write_html(check(result), run.report)
    print_comparison(result, display)
    display.print(f"open {run.report} in a browser for figures and details", highlight=False)
