"""``jaxsched train``: train, compare with every baseline, report."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from jaxsched.arguments import LARGEST, LARGEST_SEED
from jaxsched.cli.compare import print_comparison
from jaxsched.cli.completion import complete_trace
from jaxsched.cli.config_file import as_toml
from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    Shard,
    devices_of,
)
from jaxsched.cli.options import (
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
from jaxsched.experiment.options import TraceOptions

PLACE = ("out", "resume", "overwrite", "max_time", "stop_on")
"""Options that say where a run goes and when its session ends, not what it is."""


RunSeed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the run.")]
NumSeeds = Annotated[int, typer.Option(min=1, max=LARGEST, help="Seeds trained side by side.")]
RunFolder = Annotated[
    Path | None, typer.Option(help="Run directory.", show_default="runs/SYSTEM-PRESET")
]
Resume = Annotated[bool, typer.Option(help="Go on from the newest checkpoint.")]
Overwrite = Annotated[bool, typer.Option(help="Replace the run that is there.")]
Start = Annotated[
    str | None,
    typer.Option(help="Start from a trained policy: SYSTEM/pretrained, a run, or a policy in it."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Log to wandb or mlflow too (repeat for both).", rich_help_panel=OUTPUT),
]
TestTrace = Annotated[
    str | None,
    typer.Option(
        help="Test traces: name or file; of job tables all.",
        show_default="the preset's",
        rich_help_panel=TRACES,
        autocompletion=complete_trace,
    ),
]


def train(
    context: typer.Context,
    system: System,
    preset: Preset = "quick",
    seed: RunSeed = 0,
    num_seeds: NumSeeds = 1,
    out: RunFolder = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    max_time: MaxTime = None,
    stop_on: StopOn = None,
    settings: Settings = None,
    servers: ServersOption = None,
    start: Start = None,
    track: Track = None,
    trace: TrainingTrace = None,
    test_trace: TestTrace = None,
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
    from jaxsched.experiment.plans import plan_into
    from jaxsched.experiment.whole_runs import to_the_report
    from jaxsched.runs.directory import REPORT
    from jaxsched.runs.policies import find_trained
    from jaxsched.systems import registry

    chosen = registry.get(system)
    path = out or Path("runs") / f"{system}-{preset}"
    word = None if start is None else present_name("policy", start)
    planned = plan_into(
        path,
        chosen,
        resume=resume,
        overwrite=overwrite,
        preset=preset,
        overrides=environment_changes(chosen, settings, servers),
        seed=seed,
        num_seeds=num_seeds,
        trace=trace,
        test_trace=test_trace,
        options=TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                             columns=columns, timezone=timezone),
        start=None if word is None else (word, find_trained(word, chosen).trained()[0]),
        mesh=mesh,
    )  # fmt: skip
    display = console()
    result = to_the_report(
        planned,
        path,
        resume=resume,
        overwrite=overwrite,
        command=f"{as_typed(context, without=PLACE)} --out {shlex.quote(str(path))}",
        options=as_toml(str(context.info_name), given(context, without=PLACE)),
        track=track or (),
        limit=limit,
        say=lambda line: display.print(line, highlight=False),
    )
    if result is not None:
        print_comparison(result, display)
        report = path / REPORT
        display.print(f"open {report} in a browser for figures and details", highlight=False)
    return 0
