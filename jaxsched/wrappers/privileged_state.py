"""An environment that shows a critic, while learning, what the policy does not see.

A baseline may depend on anything but the action. One that knows the queue's tail and what comes
next takes the luck of arrivals out of advantages (asymmetric actor-critic: Pinto et al., 2018;
input-driven baselines: Mao et al., 2019). Policies see what they always see and play without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.wrapper import Wrapper


class Whole(NamedTuple):
    """What the policy sees, and what it does not (float32 ``[F]``)."""

    observation: PyTree
    rest: PyTree


class WholeEnvState(NamedTuple):
    """State of a :class:`PrivilegedState`."""

    inner: PyTree


@dataclass(frozen=True)
class PrivilegedState(Wrapper):
    """Another environment whose observation carries its ``privileged_state``.

    Raises:
      JaxschedError: the environment does not tell it.
    """

    name = "privileged_state"
    behaviour_version = 1

    def __post_init__(self) -> None:
        if not self.env.has_privileged_state:
            raise JaxschedError(f"{self.env.name}: has no privileged state for critics")

    def reset(
        self, key: PRNGKey, params: PyTree, episode: Array | None = None
    ) -> tuple[WholeEnvState, TimeStep]:
        """Start an episode."""
        return self._report(self.env.reset(key, params, episode), params)

    def step(
        self, key: PRNGKey, state: WholeEnvState, action: PyTree, params: PyTree
    ) -> tuple[WholeEnvState, TimeStep]:
        """Step the inner environment."""
        return self._report(self.env.step(key, state.inner, action, params), params)

    def observe(self, state: WholeEnvState, params: PyTree) -> tuple[Whole, PyTree]:
        """Both observations, and the inner mask."""
        observation, mask = self.env.observe(state.inner, params)
        return Whole(observation, self.env.privileged_state(state.inner, params)), mask

    def observation_spec(self, params: PyTree) -> Whole:
        """The inner spec, and the shape of the rest."""

        def of_first() -> Array:
            state, _ = self.env.reset(jax.random.key(0), params)
            return self.env.privileged_state(state, params)

        shape = jax.eval_shape(of_first).shape
        return Whole(self.env.observation_spec(params), ArraySpec(shape))

    def _report(
        self, answer: tuple[PyTree, TimeStep], params: PyTree
    ) -> tuple[WholeEnvState, TimeStep]:
        inner, timestep = answer
        whole = Whole(timestep.observation, self.env.privileged_state(inner, params))
        return WholeEnvState(inner), timestep._replace(observation=whole)


class Reads(NamedTuple):
    """A network that is given a part of each observation; its parameters are the network's.

    Attributes:
      network: flax module.
      part: ``(observation) -> what the network reads``.
    """

    network: Any
    part: Callable[[Any], Any]

    def init(self, key: PRNGKey, observation: Any) -> PyTree:
        """The network's parameters."""
        return self.network.init(key, self.part(observation))

    def apply(self, params: PyTree, observation: Any, **options: Any) -> Any:
        """The network's outputs."""
        return self.network.apply(params, self.part(observation), **options)


def playing_inside(policy: Policy) -> Policy:
    """A policy of the inner environment, as one of the :class:`PrivilegedState` around it."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        inside = View(seen(view.observation), view.mask, view.state.inner, view.params)
        return policy.act(weights, memory, inside, key)

    return policy._replace(act=act)


def seen(whole: Whole) -> PyTree:
    """What the policy sees."""
    return whole.observation


def everything(whole: Whole) -> Array:
    """All numbers in one row, ``[..., O + F]``."""
    return jnp.concatenate([whole.observation.astype(jnp.float32), whole.rest], axis=-1)
