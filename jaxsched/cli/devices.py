"""Options that say which devices and processes a command uses, and what they mean together."""

from typing import TYPE_CHECKING, Annotated

import typer

from jaxsched.cli.options import LARGEST
from jaxsched.errors import JaxschedError
from jaxsched.runtime import split_cpu

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
    """Meet the other processes, if there are any, and give the devices; None for one device.

    On a CPU, cores become devices where devices are asked for. To be called before anything else
    looks for devices.

    Raises:
      JaxschedError: the options do not fit together, or more devices are asked for than there are.
    """
    number = read_devices(devices)
    if shard not in ("envs", "seeds"):
        raise JaxschedError(f"--shard is {shard!r}; accepted: envs, seeds")
    from jaxsched.core import processes, sharding

    launch = processes.launch_of(coordinator, num_processes, process_id)
    if devices is not None and launch is None:
        split_cpu(number)
    processes.start(launch)
    if devices is None and not processes.several():
        return None
    return sharding.make_mesh(number, shard)  # type: ignore[arg-type]


def read_devices(text: str | None) -> int | None:
    """A number of devices; None for all of them.

    Raises:
      JaxschedError: neither a number from 1 on nor ``all``.
    """
    if text is None or text == "all":
        return None
    if not (text.isdecimal() and 1 <= int(text) <= LARGEST):
        raise JaxschedError(f"--devices is {text!r}; accepted: a number from 1 on, or all")
    return int(text)
