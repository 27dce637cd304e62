"""Options that say who trains the groups of a sweep, and what they mean together."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.devices import devices_of, read_devices
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from jaxsched.experiment.groups import Engine as TrainsGroups

ENGINE = "Engine"

SideBySide = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LARGEST,
        help="Trainings of one program at most; with an engine, of one task.",
        show_default="all that can be",
        rich_help_panel=ENGINE,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Who trains the groups: ray, as tasks on one machine or a cluster.",
        show_default="this process",
        rich_help_panel=ENGINE,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Running Ray cluster: HOST:PORT, or auto.",
        show_default="RAY_ADDRESS, or Ray on this machine",
        rich_help_panel=ENGINE,
    ),
]
NumCpus = Annotated[
    float | None,
    typer.Option(
        min=0, help="Cores of each task.", show_default="1 a device", rich_help_panel=ENGINE
    ),
]
NumGpus = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="GPUs of each task, or a part of one such as 0.5.",
        show_default="1 a device where there are some",
        rich_help_panel=ENGINE,
    ),
]
MaxRetries = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LARGEST,
        help="How often a task begins again whose worker was lost.",
        show_default="3",
        rich_help_panel=ENGINE,
    ),
]
EngineLog = Annotated[
    bool, typer.Option("--engine-log", help="Print Ray's own lines.", rich_help_panel=ENGINE)
]


def engine_and_devices(
    engine: str | None,
    given: dict[str, Any],
    devices: str | None,
    shard: str,
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
) -> "tuple[TrainsGroups, Mesh | None]":
    """Who trains, and this process' devices (:func:`jaxsched.cli.devices.devices_of`).

    Args:
      engine: its name; None: this process.
      given: the engine's options.
      devices: of this process, or of each task.
      shard: what devices divide.
      coordinator: as for ``devices_of``.
      num_processes: as for ``devices_of``.
      process_id: as for ``devices_of``.

    Raises:
      JaxschedError: the options do not fit together, or the engine is not installed.
    """
    from jaxsched.core import processes

    mesh = None
    if engine is None:
        mesh = devices_of(devices, shard, coordinator, num_processes, process_id)
    elif processes.launch_of(coordinator, num_processes, process_id) is not None:
        raise JaxschedError(f"--engine {engine} in one of several processes; accepted: in one")
    from jaxsched.experiment.engines import engine_of

    count = "all" if devices == "all" else read_devices(devices)
    return engine_of(engine, **given, devices=count, shard=shard), mesh
