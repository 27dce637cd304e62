"""Systems by name: the library's, those that a program registers, those of installed packages.

A program registers a system of its own with ``register``; a package offers one as an entry point
of the group ``jaxsched.systems`` that loads to a ``System``:

    [project.entry-points."jaxsched.systems"]
    machines = "my_package.system:SYSTEM"
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module, resources
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from jaxsched.errors import JaxschedError
from jaxsched.systems.workload import Workload

if TYPE_CHECKING:
    from jaxsched.systems.system import System

ENTRY_POINTS = "jaxsched.systems"

_OWN = ("sched2", "dl2", "chic", "das", "mlfs", "cluster")  # live in jaxsched.envs.NAME
_registered: dict[str, "System"] = {}


def names() -> tuple[str, ...]:
    """Names of the systems: the project's own, registered ones, those of installed packages."""
    return tuple(dict.fromkeys((*_OWN, *_registered, *_offered())))


def get(name: str) -> "System":
    """The system of that name.

    Raises:
      JaxschedError: no such system, or the package that offers it cannot be loaded.
    """
    if name in _OWN:
        system: System = import_module(f"jaxsched.envs.{name}.system").SYSTEM
        return system
    if name in _registered:
        return _registered[name]
    if name in _offered():
        return _load(name)
    raise JaxschedError(f"unknown system {name!r}; known are {', '.join(names())}")


def is_installed(name: str) -> bool:
    """Whether any process finds the system by its name, where the same packages are installed."""
    return name in _OWN or (name in _offered() and name not in _registered)


def register(system: "System") -> None:
    """Make a system known by its name, in this process.

    Raises:
      JaxschedError: not a ``System``, or another one has that name.
    """
    from jaxsched.systems.system import System

    if not isinstance(system, System):
        raise JaxschedError(f"register: found {_words(system)}; accepted: a System record")
    if system.name in _OWN or _registered.get(system.name, system) is not system:
        raise JaxschedError(f"register: there is a system {system.name!r} already")
    _registered[system.name] = system


def unregister(name: str) -> None:
    """Forget a registered system; nothing where there is none."""
    _registered.pop(name, None)


def workloads() -> Iterator[Workload]:
    """The workload of each system, in the order of ``names``."""
    for name in names():
        if name in _OWN:
            workload: Workload = import_module(f"jaxsched.envs.{name}.{_traces(name)}").WORKLOAD
            yield workload
        else:
            yield get(name).jobs.workload


@cache
def _traces(name: str) -> str:
    """Module of a system's named traces: ``jobs``, or a module of that folder."""
    home = resources.files("jaxsched.envs") / name
    places = ("jobs.traces", "jobs")
    return next(x for x in places if home.joinpath(f"{x.replace('.', '/')}.py").is_file())


@cache
def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@cache
def _load(name: str) -> "System":
    """The system that an installed package offers under a name."""
    from jaxsched.systems.system import System

    entry = _offered()[name]
    try:
        system = entry.load()
    except Exception as error:  # whatever the package's own modules raise
        raise JaxschedError(
            f"system {name!r} ({entry.value}): cannot be loaded: {error}"
        ) from error
    if not isinstance(system, System) or system.name != name:
        found = f"the system {system.name!r}" if isinstance(system, System) else _words(system)
        raise JaxschedError(
            f"system {name!r}: {entry.value} is {found}; accepted: a System record of that name"
        )
    return system


def _words(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
