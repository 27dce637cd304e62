"""Environments whose action has several parts, as PettingZoo's: an agent for each part."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxsched.adapters.containers import observation_spec
from jaxsched.adapters.copies import Copies, row
from jaxsched.adapters.spaces import action_space_of, space_of
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError, needed
from jaxsched.systems.make import make

ParallelEnv: Any = needed("pettingzoo", "adapters").ParallelEnv
np_random = needed("gymnasium.utils.seeding", "adapters").np_random


class JaxschedParallelEnv(ParallelEnv):
    """An environment as a ``pettingzoo.ParallelEnv`` of agents that act at the same time.

    All agents see the whole observation, are paid the same and end together. The mask, which
    tells what the action is about, is in every info or, with ``mask="observation"``, among the
    observations. ``reset(seed=, options={"episode": i})`` begins episode ``i``, or one drawn with
    the seed.

    Attributes:
      env: the environment.
      params: its parameters.

    Args:
      env: the environment; its action is a dictionary.
      params: its parameters.
      agents: agent -> its part of the action; the parts' own names by default.
      mask: ``info`` or ``observation``.

    Raises:
      JaxschedError: the action has no parts, the agents are not those of the parts, or there is
        no such episode.
    """

    def __init__(
        self,
        env: Environment,
        params: Any,
        *,
        agents: Mapping[str, str] | None = None,
        mask: str = "info",
    ) -> None:
        spec = env.action_spec(params)
        if not isinstance(spec, Mapping):
            raise JaxschedError(f"{env.name}: an action has no parts; accepted: one with several")
        self._part = dict(agents or {name: name for name in spec})
        if sorted(self._part.values()) != sorted(spec):
            raise JaxschedError(
                f"agents have the parts {', '.join(self._part.values())}; accepted: one for each "
                f"of {', '.join(spec)}"
            )
        self._copies = Copies(env, params, 1, mask=mask)
        self.env, self.params = env, params
        self.metadata = {"render_modes": [], "name": f"{env.name}_v0", "is_parallelizable": True}
        self.render_mode = None
        self.possible_agents = list(self._part)
        self.agents: list[str] = []
        seen = observation_spec(env, params, mask)
        self.observation_spaces = {agent: space_of(seen) for agent in self._part}
        self.action_spaces = {
            agent: action_space_of(spec[part]) for agent, part in self._part.items()
        }

    def observation_space(self, agent: str) -> Any:
        """Space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Space of an agent's part of the action."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode: ``options["episode"]``, or one that is drawn."""
        episode = (options or {}).get("episode")
        if seed is None and self._copies.seeded:
            self._copies.renew(np.array([True]), episode)
        else:
            self._copies.begin([np_random(seed)[1]], episode)
        self.agents = list(self.possible_agents)
        return self._of_each(self._copies.observation), self._of_each(self._copies.info)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Apply the action that the agents' parts make together."""
        parts = {self._part[agent]: np.asarray(a)[None] for agent, a in actions.items()}
        self._copies.step(parts)
        now, acting = self._copies.now, self.agents
        ended = bool(now.terminated[0]), bool(now.truncated[0])
        answer = (
            self._of_each(self._copies.observation),
            dict.fromkeys(acting, float(now.reward[0])),
            dict.fromkeys(acting, ended[0]),
            dict.fromkeys(acting, ended[1]),
            self._of_each(self._copies.info),
        )
        if any(ended):
            self.agents = []
        return answer

    def _of_each(self, tell: Any) -> dict[str, Any]:
        """What each agent is told, in arrays of its own."""
        return {agent: row(tell()) for agent in self.agents}


def parallel_env(
    system: str, *, agents: Mapping[str, str] | None = None, mask: str = "info", **options: Any
) -> JaxschedParallelEnv:
    """A system's environment; ``options`` are those of ``jaxsched.make``."""
    return JaxschedParallelEnv(*make(system, **options), agents=agents, mask=mask)
