"""Environments of dm_env: the mask is an entry of the observation."""

from typing import Any

import numpy as np

from jaxsched.adapters.containers import bounds, observation_spec, to_containers
from jaxsched.adapters.copies import Copies, row
from jaxsched.core.environment import Environment
from jaxsched.errors import needed
from jaxsched.systems.make import make
from jaxsched.types import ArraySpec, DiscreteSpec, PyTree

dm_env = needed("dm_env", "adapters")
dm_specs = needed("dm_env.specs", "adapters")
Base: Any = dm_env.Environment


class JaxschedDmEnv(Base):
    """One copy of an environment as a ``dm_env.Environment``.

    Observations are dictionaries with an ``action_mask`` (int8). A step after the last one begins
    a new episode. The discount of a last step is 0 where the episode terminated and 1 where it was
    cut.

    Args:
      env: the environment.
      params: its parameters.
      seed: of the episodes and of what is drawn in them.
      time_limit: cut episodes after so many steps; none by default.

    Raises:
      JaxschedError: a count is not accepted, or there is no such episode.
    """

    def __init__(
        self, env: Environment, params: Any, *, seed: int = 0, time_limit: int | None = None
    ) -> None:
        self._copies = Copies(env, params, 1, time_limit=time_limit, mask="observation")
        self._seed, self._over = seed, True
        self._specs = (
            _spec_of(observation_spec(env, params, "observation"), "observation"),
            _spec_of(env.action_spec(params), "action"),
        )

    def reset(self, episode: int | None = None) -> Any:
        """Begin an episode: ``episode``, or one that is drawn."""
        if self._copies.seeded:
            self._copies.renew(np.array([True]), episode)
        else:
            self._copies.begin([self._seed], episode)
        self._over = False
        return dm_env.restart(row(self._copies.observation()))

    def step(self, action: Any) -> Any:
        """Apply an action, or begin an episode where there is none under way."""
        if self._over:
            return self.reset()
        self._copies.step(to_containers(action, lambda part: np.asarray(part)[None]))
        now, seen = self._copies.now, row(self._copies.observation())
        reward, self._over = float(now.reward[0]), bool(self._copies.done[0])
        if bool(now.terminated[0]):
            return dm_env.termination(reward, seen)
        if bool(now.truncated[0]):
            return dm_env.truncation(reward, seen)
        return dm_env.transition(reward, seen)

    def observation_spec(self) -> Any:
        """Specs of the entries of an observation."""
        return self._specs[0]

    def action_spec(self) -> Any:
        """Spec of an action."""
        return self._specs[1]


def environment(
    system: str, *, episode_seed: int = 0, time_limit: int | None = None, **options: Any
) -> JaxschedDmEnv:
    """A system's environment; ``options`` are those of ``jaxsched.make``."""
    return JaxschedDmEnv(*make(system, **options), seed=episode_seed, time_limit=time_limit)


def _spec_of(spec: PyTree, name: str) -> Any:
    if isinstance(spec, dict):
        return {
            part: _spec_of(one, part)
            for part, one in to_containers(spec, lambda leaf: leaf).items()
        }
    return to_containers(spec, lambda leaf: _leaf(leaf, name))


def _leaf(spec: ArraySpec | DiscreteSpec, name: str) -> Any:
    if isinstance(spec, DiscreteSpec):
        return dm_specs.DiscreteArray(spec.num_actions, np.int32, name)
    low, high = bounds(spec)
    if np.isfinite([low, high]).all():
        return dm_specs.BoundedArray(spec.shape, np.dtype(spec.dtype), low, high, name)
    return dm_specs.Array(spec.shape, np.dtype(spec.dtype), name)
