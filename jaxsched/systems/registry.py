"""Systems by name; the only place that knows where they live."""

from importlib import import_module

from jaxsched.errors import JaxschedError
from jaxsched.systems.base import System

_SYSTEMS = {
    "sched2": "jaxsched.envs.sched2.system",
    "dl2": "jaxsched.envs.dl2.system",
    "chic": "jaxsched.envs.chic.system",
    "das": "jaxsched.envs.das.system",
    "mlfs": "jaxsched.envs.mlfs.system",
}


def names() -> tuple[str, ...]:
    """Names of the systems."""
    return tuple(_SYSTEMS)


def get(name: str) -> System:
    """The system of that name.

    Raises:
      JaxschedError: no such system.
    """
    if name not in _SYSTEMS:
        raise JaxschedError(f"unknown system {name!r}; known are {', '.join(_SYSTEMS)}")
    system: System = import_module(_SYSTEMS[name]).SYSTEM
    return system
