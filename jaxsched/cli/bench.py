"""``jaxsched bench``: measured speed."""

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    devices_of,
    read_devices,
)
from jaxsched.cli.options import (
    LARGEST,
    JsonFile,
    ServersOption,
    Settings,
    environment_changes,
    old_assignments,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.errors import JaxschedError
from jaxsched.runtime import is_first, shows, split_cpu

SCORED = "training --score"
TAKES = {
    "throughput": (
        *("--quick", "--batch", "--figure", "--repeats", "--budget", "--set", "--servers"),
        *("--option", "--peers", "--peer-python", "--devices"),
    ),
    "training": ("--set", "--servers", "--repeats", "--updates", "--warm-up", "--devices"),
    SCORED: ("--set", "--servers", "--score", "--num-seeds", "--devices"),
    "scaling": (
        *("--set", "--servers", "--batch", "--repeats", "--updates"),
        *("--devices", "--coordinator", "--num-processes", "--process-id"),
    ),
}
"""Options of each benchmark, beside ``--system``, ``--preset`` and ``--json``."""
UPDATES = 20


def bench(
    kind: Annotated[str, typer.Argument(help="throughput, training, or scaling.")] = "throughput",
    system: Annotated[str, typer.Option(help="Name of the system.")] = "sched2",
    preset: Annotated[
        str | None,
        typer.Option(
            help="Cluster and traces, or recipe, of this preset.", show_default="the system's own"
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three batch sizes, within a minute.")
    ] = False,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, max=LARGEST, help="Batch size (repeat).")
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Option(help="environment, policy (repeat).", show_default="both")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, max=LARGEST, help="Timed repeats of each row.", show_default="10, or 3 if quick"
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that a row of throughput may take.", show_default="120"),
    ] = None,
    option: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    settings: Settings = None,
    servers: ServersOption = None,
    updates: Annotated[
        int | None,
        typer.Option(
            min=1, max=LARGEST, help="Updates of each training repeat.", show_default=str(UPDATES)
        ),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LARGEST,
            help="Updates before the first repeat.",
            show_default="20, or two repeats'",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="Of training: time until this validation score, a number or a policy's."),
    ] = None,
    num_seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=LARGEST, help="With --score: trainings, one after another.", show_default="1"
        ),
    ] = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Measure other projects' environments as well.")
    ] = False,
    peer_python: Annotated[
        Path | None, typer.Option(help="Interpreter of the environment that has them.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Environment steps per second, with device, versions and compile time."""
    _check(
        SCORED if kind == "training" and score is not None else kind,
        {
            "--quick": quick or None,
            "--batch": batch,
            "--figure": figure,
            "--repeats": repeats,
            "--budget": budget,
            "--option": option,
            "--set": settings,
            "--servers": servers,
            "--updates": updates,
            "--warm-up": warm_up,
            "--score": score,
            "--num-seeds": num_seeds,
            "--devices": devices,
            "--coordinator": coordinator,
            "--num-processes": num_processes,
            "--process-id": process_id,
            "--peers": peers or None,
            "--peer-python": peer_python,
        },
    )
    if json_file is not None:
        check_writable(json_file)
    from jaxsched.bench.budget import Budget
    from jaxsched.bench.scaling import scaling_speed
    from jaxsched.bench.tables import print_table
    from jaxsched.bench.throughput import FIGURES, QUICK, QUICK_S, REPEATS, ROW_S, throughput
    from jaxsched.bench.time_to_score import time_to_score
    from jaxsched.bench.training import training_speed
    from jaxsched.systems import registry

    chosen = registry.get(system)
    given = [*(settings or ()), *old_assignments("--option", option)]
    overrides = tuple(environment_changes(chosen, given, servers))
    if kind == "scaling":
        result = scaling_speed(
            system,
            preset=preset or "plain-ppo",
            overrides=overrides,
            mesh=devices_of(devices or "all", "envs", coordinator, num_processes, process_id),
            batch=(batch or [4096])[0],
            repeats=repeats or REPEATS,
            updates_per_repeat=updates or UPDATES,
            progress=_say,
        )
    elif score is not None:
        result = time_to_score(
            system,
            score,
            preset=preset or "quick",
            overrides=overrides,
            num_seeds=num_seeds or 1,
            mesh=devices_of(devices),
            progress=_say,
        )
    elif kind == "training":
        result = training_speed(
            system,
            preset=preset or "paper",
            overrides=overrides,
            mesh=devices_of(devices),
            repeats=repeats or REPEATS,
            updates_per_repeat=updates or UPDATES,
            warm_up_updates=UPDATES if warm_up is None else warm_up,
            progress=_say,
        )
    else:
        sizes: dict[str, Any] = dict(QUICK) if quick else {}
        sizes |= {"batches": batch} if batch else {}
        sizes |= {"repeats": repeats} if repeats else {}
        result = throughput(
            system,
            preset=preset,
            figures=figure or FIGURES,
            overrides=overrides,
            devices=_num_devices(devices),
            peers=peers or peer_python is not None,
            peer_python=None if peer_python is None else str(peer_python),
            budget=Budget(budget or ROW_S, QUICK_S if quick else math.inf),
            progress=_say,
            **sizes,
        )
    out = console()
    print_table(result, out)
    if json_file is not None and is_first():
        deliver_json(out, json_file, result, "result")


def _num_devices(asked: str | None) -> int:
    """Those of this process that are asked for; else every core of a CPU, or one other device.

    Raises:
      JaxschedError: more than there are.
    """
    number = read_devices(asked)
    split_cpu(number)
    import jax

    from jaxsched.core import sharding

    if asked is None and jax.default_backend() != "cpu":
        return 1
    mesh = sharding.make_mesh(number)
    return 1 if mesh is None else mesh.size


def _check(kind: str, given: dict[str, Any]) -> None:
    """Refuse an unknown benchmark, and options that this one would not look at.

    Raises:
      JaxschedError: one line that says which benchmark an option is for.
    """
    if kind not in TAKES:
        known = ", ".join(name for name in TAKES if name != SCORED)
        raise JaxschedError(f"unknown benchmark {kind!r}; known are {known}")
    for name, value in given.items():
        if value not in (None, []) and name not in TAKES[kind]:
            others = " and ".join(other for other, names in TAKES.items() if name in names)
            raise JaxschedError(f"{name} is for bench {others}, not for bench {kind}")
    if kind == "scaling" and len(given["--batch"] or []) > 1:
        raise JaxschedError("bench scaling measures one --batch")


def _say(line: str) -> None:
    if shows():
        print(line, file=sys.stderr, flush=True)
