"""Systems and clusters as callers name them."""

from collections.abc import Mapping
from typing import Any

from jaxsched.errors import JaxschedError
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
