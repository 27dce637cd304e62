"""Systems, clusters and changes of recipes as callers name them."""

import json
from collections.abc import Mapping
from typing import Any

from jaxsched.arguments import argument, entry_of
from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Asked
from jaxsched.experiment.options import TraceOptions
from jaxsched.jobs.servers import read_servers
from jaxsched.runs.overrides import environment_settings
from jaxsched.systems import registry
from jaxsched.systems.system import System


def system_of(system: Any) -> System:
    """The system of that name; a ``System`` is returned as it is.

    Raises:
      JaxschedError: neither.
    """
    if isinstance(system, System):
        return system
    if isinstance(system, str):
        return registry.get(system)
    raise JaxschedError(
        f"system is {system!r}; accepted: a System, or one of {', '.join(registry.names())}"
    )


def changes_of(
    system: System,
    servers: str | None,
    options: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
) -> list[str]:
    """Changes of a recipe or an environment as ``path=value`` each.

    Args:
      system: whose environment it is.
      servers: the cluster as ``40x8``, if it is changed.
      options: of the environment.
      settings: further changes by their paths, ``env.NAME`` of an environment.

    Raises:
      JaxschedError: it is no size, the system cannot have it, or an option sets it, too.
    """
    sizes = {}
    if servers is not None:
        found = read_servers(servers, mixed=True, shared=True)
        sizes = system.environment.of_servers(*found)
    paths = {path.removeprefix("env.") for path in settings or {} if path.startswith("env.")}
    twice = sizes.keys() & (options.keys() | paths)
    if twice:
        raise JaxschedError(
            f"{min(twice)} is given, and {argument('servers')} says it too; accepted: one"
        )
    return [*assignments(settings), *environment_settings({**sizes, **options})]


def asked_of(
    system: System,
    traces: Any,
    how: TraceOptions,
    *,
    preset: str | None,
    servers: str | None,
    environment: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    settings: Mapping[str, Any] | None = None,
) -> Asked:
    """Cluster, episodes and options of a comparison, from arguments of ``import jaxsched``.

    Args:
      system: whose environment it is.
      traces: where the episodes come from; None: the test traces.
      how: traces become episodes.
      preset: whose cluster and test traces are used.
      servers: the cluster as ``40x8``.
      environment: options of the environment.
      options: of the heuristics.
      settings: changes of the environment by their paths, ``env.NAME``.

    Raises:
      JaxschedError: an option of the environment or the cluster is refused.
    """
    changes = changes_of(system, servers, environment, settings)
    return Asked(preset, changes, traces, how, dict(options or {}))


def assignments(changes: Mapping[str, Any] | None) -> list[str]:
    """Changes of a recipe as the command takes them, ``path=value`` each.

    Raises:
      JaxschedError: a value is no number, text, flag, list or None.
    """
    return [
        f"{path}={as_word(value, entry_of('set', path))}" for path, value in (changes or {}).items()
    ]


def as_word(value: Any, name: str) -> str:
    """A value as text of the command line; text is returned as it is.

    Args:
      value: of Python or of NumPy.
      name: what messages call it.

    Raises:
      JaxschedError: it is no number, text, flag, list or None.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value.tolist() if hasattr(value, "tolist") else value)
    except TypeError as error:
        raise JaxschedError(
            f"{name} is {value!r}; accepted: a number, text, flag, list or None"
        ) from error
