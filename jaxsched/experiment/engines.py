"""Engines that train the groups of a sweep, by name."""

from typing import Any

from jaxsched.arguments import argument
from jaxsched.core.processes import several
from jaxsched.errors import JaxschedError
from jaxsched.experiment.groups import Engine, in_this_process


def engine_of(
    name: str | None,
    *,
    address: str | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    max_retries: int | None = None,
    engine_log: bool = False,
    devices: int | str | None = None,
    shard: str = "seeds",
) -> Engine:
    """The engine of that name; None: this process.

    Args:
      name: "ray", or None.
      address: of a running cluster; ``RAY_ADDRESS``, or one of this machine alone, if absent.
      num_cpus: cores of a task.
      num_gpus: GPUs of a task.
      max_retries: how often a task begins again whose worker was lost.
      engine_log: whether the engine's own lines are printed.
      devices: that a task divides its environments or seeds between.
      shard: which of them.

    Raises:
      JaxschedError: no such engine, an option does not fit it, or its package is missing.
    """
    asked: dict[str, Any] = {
        "address": address,
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "max_retries": max_retries,
        "engine_log": engine_log or None,
    }
    given = {option: value for option, value in asked.items() if value is not None}
    if name is None:
        if given:
            raise JaxschedError(
                f"{argument(next(iter(given)))} is given; accepted: with the engine 'ray'"
            )
        return in_this_process
    if name != "ray":
        raise JaxschedError(f"{argument('engine')} is {name!r}; accepted: ray")
    if several():
        raise JaxschedError(
            f"{argument('engine')} is 'ray' in one of several processes; accepted: in one alone"
        )
    from jaxsched.experiment.ray_engine import RayOptions, ray_engine

    return ray_engine(RayOptions(**given, devices=devices, shard=shard))
