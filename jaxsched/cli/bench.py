"""``jaxsched bench``: measured speed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    devices_of,
    read_devices,
)
from jaxsched.cli.options import (
    JsonFile,
    ServersOption,
    Settings,
    environment_changes,
    old_assignments,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.runtime import is_first, shows, split_cpu

if TYPE_CHECKING:
    from jax.sharding import Mesh

Kind = Annotated[str, typer.Argument(help="throughput, training, or scaling.")]
SystemOption = Annotated[str, typer.Option(help="Name of the system.")]
BenchPreset = Annotated[
    str | None,
    typer.Option(
        help="Cluster and traces, or recipe, of this preset.", show_default="the system's own"
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Three batch sizes, within a minute.")]
Batch = Annotated[list[int] | None, typer.Option(min=1, max=LARGEST, help="Batch size (repeat).")]
Figure = Annotated[
    list[str] | None, typer.Option(help="environment, policy (repeat).", show_default="both")
]
Repeats = Annotated[
    int | None,
    typer.Option(
        min=1, max=LARGEST, help="Timed repeats of each row.", show_default="10, or 3 if quick"
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds that a row of throughput may take.", show_default="120"),
]
OldOption = Annotated[list[str] | None, typer.Option(hidden=True)]
Updates = Annotated[
    int | None,
    typer.Option(min=1, max=LARGEST, help="Updates of each training repeat.", show_default="20"),
]
WarmUp = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LARGEST,
        help="Updates before the first repeat.",
        show_default="20, or two repeats'",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(help="Of training: time until this validation score, a number or a policy's."),
]
NumSeeds = Annotated[
    int | None,
    typer.Option(
        min=1, max=LARGEST, help="With --score: trainings, one after another.", show_default="1"
    ),
]
Peers = Annotated[
    bool, typer.Option("--peers", help="Measure other projects' environments as well.")
]
PeerPython = Annotated[
    Path | None, typer.Option(help="Interpreter of the environment that has them.")
]

Lowering = Annotated[
    str | None,
    typer.Option(
        help="Write steps side by side by vmap, over lanes, or as one kernel.",
        show_default="as fits the device",
    ),
]


def bench(
    kind: Kind = "throughput",
    system: SystemOption = "sched2",
    preset: BenchPreset = None,
    quick: Quick = False,
    batch: Batch = None,
    figure: Figure = None,
    repeats: Repeats = None,
    budget: BudgetOption = None,
    option: OldOption = None,
    settings: Settings = None,
    servers: ServersOption = None,
    updates: Updates = None,
    warm_up: WarmUp = None,
    score: Score = None,
    num_seeds: NumSeeds = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    peers: Peers = False,
    peer_python: PeerPython = None,
    lowering: Lowering = None,
    json_file: JsonFile = None,
) -> None:
    """Environment steps per second, with device, versions and compile time."""
    from jaxsched.bench.kinds import Asked, measured
    from jaxsched.bench.tables import print_table
    from jaxsched.systems import registry

    asked = Asked(
        quick=quick or None,
        batch=batch,
        figure=figure,
        repeats=repeats,
        budget=budget,
        option=option,
        set=settings,
        servers=servers,
        updates=updates,
        warm_up=warm_up,
        score=score,
        num_seeds=num_seeds,
        devices=devices,
        coordinator=coordinator,
        num_processes=num_processes,
        process_id=process_id,
        peers=peers or None,
        peer_python=None if peer_python is None else str(peer_python),
        lowering=lowering,
    )
    asked.check(kind)
    if json_file is not None:
        check_writable(json_file)
    chosen = registry.get(system)
    given = [*(settings or ()), *old_assignments("--option", option)]
    overrides = tuple(environment_changes(chosen, given, servers))
    if kind == "throughput":
        mesh = _cores(devices)
    else:
        wanted = devices or ("all" if kind == "scaling" else None)
        mesh = devices_of(wanted, "envs", coordinator, num_processes, process_id)
    result = measured(
        kind, system, asked, preset=preset, overrides=overrides, mesh=mesh, progress=_say
    )
    out = console()
    print_table(result, out)
    if json_file is not None and is_first():
        deliver_json(out, json_file, result, "result")


def _cores(asked: str | None) -> "Mesh | None":
    """The devices of this process that are asked for; else every core of a CPU, or one device.

    Raises:
      JaxschedError: more than there are.
    """
    number = read_devices(asked)
    split_cpu(number)
    import jax

    from jaxsched.core import sharding

    if asked is None and jax.default_backend() != "cpu":
        return None
    return sharding.make_mesh(number)


def _say(line: str) -> None:
    if shows():
        print(line, file=sys.stderr, flush=True)
