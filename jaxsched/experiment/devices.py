"""The devices that an experiment uses, as scripts and commands ask for them."""

from jax.sharding import Mesh

from jaxsched.arguments import LARGEST, argument
from jaxsched.core import processes, sharding
from jaxsched.core.processes import Launch
from jaxsched.errors import JaxschedError
from jaxsched.runtime import split_cpu

SHARDS = ("envs", "seeds")


def mesh_of(
    devices: int | str | None = None, shard: str = "envs", launch: Launch | None = None
) -> Mesh | None:
    """Meet the other processes, if there are any, and give the devices.

    On a CPU, cores become devices where devices are asked for and nothing has looked for devices.

    Args:
      devices: a number, also as text, or ``all``; None: one, or all of several processes.
      shard: the axis that is divided between devices, one of ``SHARDS``.
      launch: how this process was launched as one of several
        (:func:`jaxsched.core.processes.launch_of`), for who has not met the others yet; before
        anything has looked for devices.

    Returns:
      The devices; None for one.

    Raises:
      JaxschedError: a value is refused, more devices are asked for than there are, or the others
        were not met.
    """
    number = read_devices(devices)
    if shard not in SHARDS:
        raise JaxschedError(f"{argument('shard')} is {shard!r}; accepted: {', '.join(SHARDS)}")
    if devices is not None and launch is None:
        split_cpu(number)
    processes.start(launch)
    if devices is None and not processes.several():
        return None
    return sharding.make_mesh(number, shard)  # type: ignore[arg-type]


def read_devices(devices: int | str | None) -> int | None:
    """A number of devices; None for all of them.

    Raises:
      JaxschedError: neither a number from 1 on nor ``all``.
    """
    if devices is None or devices == "all":
        return None
    number = int(devices) if str(devices).isdecimal() else 0
    if not 1 <= number <= LARGEST:
        raise JaxschedError(
            f"{argument('devices')} is {devices!r}; accepted: a number from 1 on, or all"
        )
    return number
