"""Environments in gymnax's form, for learners that were written for it; needs no gymnax.

``make`` gives an environment and its parameters, as ``gymnax.make`` does. What ``step`` returns is

- ``GymnaxEnv``, as gymnax 1.x: ``(observation, state, reward, terminated, truncated, info)``,
- ``GymnaxDoneEnv``, as gymnax before and as purejaxrl and rejax expect:
  ``(observation, state, reward, done, info)``.
"""

from functools import partial
from typing import Any

import jax
from flax import struct

from jaxsched.adapters.containers import (
    ACTION_MASK,
    check_choices,
    number,
    observation_spec,
    structured,
    to_containers,
    with_mask,
)
from jaxsched.adapters.gymnax_spaces import space_of
from jaxsched.core.environment import Current, Environment, look, start, step_and_look
from jaxsched.errors import JaxschedError
from jaxsched.systems.make import make as make_native
from jaxsched.types import DiscreteSpec, PRNGKey, PyTree


@struct.dataclass
class EnvParams:
    """Parameters of an environment and of its form.

    Attributes:
      inner: of the environment.
      max_steps_in_episode: int, where episodes are cut (``truncated``); may be traced.
    """

    inner: Any
    max_steps_in_episode: Any


class GymnaxEnv:
    """An environment with the methods of gymnax 1.x.

    A finished episode is followed by one that is drawn with the key of the step; its last
    observation is ``info["final_observation"]``. ``info["action_mask"]`` (bool ``[A]``) says what
    is legal in the state that is returned, ``action_mask(state, params)`` in any state.

    Attributes:
      env: the environment.
      default_params: ``EnvParams``; episodes are as long as they get.

    Args:
      env: the environment.
      params: its parameters.
      mask: ``info``, or ``observation``: observations are dictionaries with an ``action_mask``.

    Raises:
      JaxschedError: the choice is not accepted.
    """

    def __init__(self, env: Environment, params: Any, *, mask: str = "info") -> None:
        check_choices(mask)
        self.env, self._mask = env, mask
        self.default_params = EnvParams(params, env.max_steps(params))

    @partial(jax.jit, static_argnames="self")
    def reset(self, key: PRNGKey, params: EnvParams | None = None) -> tuple[Any, Current]:
        """Begin an episode that is drawn with ``key``."""
        params = params or self.default_params
        current = start(self.env, key, params.inner)
        return self._seen(*look(self.env, current, params.inner)), current

    @partial(jax.jit, static_argnames="self")
    def step(
        self, key: PRNGKey, state: Current, action: PyTree, params: EnvParams | None = None
    ) -> tuple[Any, ...]:
        """One step, and the start of a new episode where this one ended."""
        state, (observation, mask), timestep = self._step(key, state, action, params)
        return (
            self._seen(observation, mask),
            state,
            timestep.reward,
            timestep.terminated,
            timestep.truncated,
            {
                ACTION_MASK: _as_is(mask),
                "elapsed": timestep.elapsed,
                "terminated": timestep.terminated,
                "truncated": timestep.truncated,
                "final_observation": self._seen(timestep.observation, timestep.action_mask),
            },
        )

    def action_mask(self, state: Current, params: EnvParams | None = None) -> Any:
        """Legal actions of a state, bool ``[A]``."""
        params = params or self.default_params
        return _as_is(look(self.env, state, params.inner).mask)

    def observation_space(self, params: EnvParams) -> Any:
        """Space of the observations."""
        return space_of(observation_spec(self.env, params.inner, self._mask))

    def action_space(self, params: EnvParams | None = None) -> Any:
        """Space of the actions."""
        return space_of(self.env.action_spec((params or self.default_params).inner))

    @property
    def name(self) -> str:
        """Of the environment."""
        return self.env.name

    @property
    def num_actions(self) -> int:
        """How many actions there are.

        Raises:
          JaxschedError: an action is not one choice of several.
        """
        spec = self.env.action_spec(self.default_params.inner)
        if not isinstance(spec, DiscreteSpec):
            raise JaxschedError(f"{self.name}: an action is not one choice of several")
        return spec.num_actions

    def _step(self, key: PRNGKey, state: Current, action: PyTree, params: Any) -> Any:
        params = params or self.default_params
        inner = params.inner
        return step_and_look(
            self.env,
            key,
            state,
            structured(self.env.action_spec(inner), action),
            inner,
            time_limit=params.max_steps_in_episode,
        )

    def _seen(self, observation: PyTree, mask: PyTree) -> Any:
        shown = to_containers(observation, number)
        return (
            with_mask(shown, to_containers(mask, number)) if self._mask == "observation" else shown
        )


class GymnaxDoneEnv(GymnaxEnv):
    """The same with the five results of gymnax before 1.0: ``done`` is either kind of end."""

    @partial(jax.jit, static_argnames="self")
    def step(
        self, key: PRNGKey, state: Current, action: PyTree, params: EnvParams | None = None
    ) -> tuple[Any, ...]:
        """One step, and the start of a new episode where this one ended."""
        observation, state, reward, terminated, truncated, info = super().step(
            key, state, action, params
        )
        return observation, state, reward, terminated | truncated, info


def make(
    name: str, *, done: bool = False, mask: str = "info", **options: Any
) -> tuple[GymnaxEnv, EnvParams]:
    """An environment and its parameters.

    Args:
      name: of the system.
      done: the five results of before 1.0.
      mask: see ``GymnaxEnv``.
      **options: of ``jaxsched.make``.
    """
    form = GymnaxDoneEnv if done else GymnaxEnv
    env = form(*make_native(name, **options), mask=mask)
    return env, env.default_params


def _as_is(tree: PyTree) -> Any:
    return to_containers(tree, lambda leaf: leaf)
