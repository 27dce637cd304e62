"""The environment of a system: made from options, written down and found again."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Generic, TypeVar

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Servers

E = TypeVar("E", bound=Environment)  # the environment
_SERVERS = "num_servers", "gpus_per_server"


class HasEnvironment(Generic[E]):
    """What has a name and an environment whose dataclass fields are its options.

    Attributes:
      name: what commands call it.
      environment_type: a frozen dataclass that is an ``Environment``; its fields are the options.
      renamed_networks: kinds of networks as they were called before -> as they are today.
    """

    name: str
    environment_type: type[E]
    renamed_networks: Mapping[str, str] = {}

    def environment(self, **options: Any) -> E:
        """An environment with these static options (the paper's where left out).

        Raises:
          JaxschedError: no such option, or a bad value.
        """
        known = _option_names(self.environment_type)
        for name in options:
            if name not in known:
                raise JaxschedError(
                    f"{self.name}: unknown environment option {name!r}; known are "
                    f"{', '.join(known)}"
                )
        return self.environment_type(**options)

    def cluster_gpus(self, env: E) -> tuple[int, ...]:
        """GPUs of each server of an environment's cluster; of one pool, a single number.

        Here from the options ``num_servers`` and ``gpus_per_server``; empty without them.
        """
        options = self.environment_options(env)
        if not set(_SERVERS) <= options.keys():
            return ()
        num_servers, gpus_per_server = (options[name] for name in _SERVERS)
        return (gpus_per_server,) * num_servers

    def server_options(self, servers: Servers) -> dict[str, Any]:
        """The environment options of a cluster of so many servers.

        Raises:
          JaxschedError: the system's options cannot say so.
        """
        known = _option_names(self.environment_type)
        if not set(_SERVERS) <= set(known):
            raise JaxschedError(
                f"{self.name}: its environment has no numbers of servers and of their GPUs; "
                f"accepted: its options, which are {', '.join(known)}"
            )
        return dict(zip(_SERVERS, servers, strict=True))

    def saved_environment(self, options: Mapping[str, Any]) -> E:
        """An environment with options as they were saved, also under names of before.

        Raises:
          JaxschedError: no such option, or a bad value.
        """
        former = self.environment_type.former_options
        present = {former.get(name, name): options[name] for name in options}
        return self.environment(**present)

    def saved_network(self, kind: str) -> str:
        """A kind of network as it was saved, as it is spelt today."""
        return self.renamed_networks.get(kind, kind)

    def environment_options(self, env: Environment) -> dict[str, Any]:
        """The static options of an environment, JSON-able."""
        options = {name: getattr(env, name) for name in _option_names(self.environment_type)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def _option_names(environment_type: Any) -> list[str]:
    return [field.name for field in fields(environment_type)]
