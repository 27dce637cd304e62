"""Systems and clusters as callers name them."""

from collections.abc import Mapping
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Asked
from jaxsched.experiment.options import TraceOptions
from jaxsched.jobs.servers import read_servers
from jaxsched.runs.overrides import environment_settings
from jaxsched.systems import registry
from jaxsched.systems.base import System


def system_of(system: Any) -> System:
    """A system by its name; a ``System`` stays what it is.

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


def environment_changes(
    system: System, servers: str | None, options: Mapping[str, Any]
) -> list[str]:
    """Changes of an environment as ``env.NAME=VALUE`` each.

    Args:
      system: whose environment it is.
      servers: the cluster as ``40x8``, if it is changed.
      options: of the environment.

    Raises:
      JaxschedError: no size, the system cannot have it, or an option says it, too.
    """
    sizes = {} if servers is None else system.server_options(read_servers(servers))
    twice = sizes.keys() & options.keys()
    if twice:
        raise JaxschedError(f"{min(twice)} is given, and servers says it too; accepted: one")
    return environment_settings({**sizes, **options})


def asked_of(
    system: System,
    traces: Any,
    how: TraceOptions,
    *,
    preset: str | None,
    servers: str | None,
    environment: Mapping[str, Any],
    options: Mapping[str, Any] | None,
) -> Asked:
    """What is played beside the policies, as the calls of ``import jaxsched`` are given it.

    Args:
      system: whose environment it is.
      traces: where the episodes come from; None: the test traces.
      how: traces become episodes.
      preset: whose cluster and test traces are used.
      servers: the cluster as ``40x8``.
      environment: options of the environment.
      options: of the heuristics.

    Raises:
      JaxschedError: an option of the environment or the cluster is refused.
    """
    changes = environment_changes(system, servers, environment)
    return Asked(preset, changes, traces, how, dict(options or {}))
