"""Options that say which devices and processes a command uses, and what they mean together."""

from typing import TYPE_CHECKING, Annotated

import typer

from jaxsched.arguments import LARGEST

if TYPE_CHECKING:
    from jax.sharding import Mesh

DEVICES = "Devices and processes"

Devices = Annotated[
    str | None,
    typer.Option(
        "--devices",
        help="Devices to use, a number or 'all' (on a CPU up to one for each core).",
        show_default="one, or all of several processes",
        rich_help_panel=DEVICES,
    ),
]
Shard = Annotated[
    str,
    typer.Option(
        help="What devices divide between them: envs or seeds (of --num-seeds).",
        rich_help_panel=DEVICES,
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of the first of several processes.", rich_help_panel=DEVICES),
]
NumProcesses = Annotated[
    int | None,
    typer.Option(min=1, max=LARGEST, help="Processes that run together.", rich_help_panel=DEVICES),
]
ProcessId = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LARGEST,
        help="Which of them this one is, from 0.",
        rich_help_panel=DEVICES,
    ),
]


def devices_of(
    devices: str | None,
    shard: str = "envs",
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> "Mesh | None":
    """What the options mean (:func:`jaxsched.experiment.devices.mesh_of`); None for one device.

    To be called before anything else looks for devices.

    Raises:
      JaxschedError: the options do not fit together, or more devices are asked for than there are.
    """
    from jaxsched.core import processes
    from jaxsched.experiment.devices import mesh_of

    return mesh_of(devices, shard, processes.launch_of(coordinator, num_processes, process_id))


def read_devices(text: str | None) -> int | None:
    """What ``--devices`` says (:func:`jaxsched.experiment.devices.read_devices`)."""
    from jaxsched.experiment import devices

    return devices.read_devices(text)
