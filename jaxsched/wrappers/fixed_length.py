"""Episodes of one fixed length, for learners that need whole episodes side by side."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.wrapper import Wrapper


class FixedLengthState(NamedTuple):
    """State of a :class:`FixedLength` environment."""

    inner: PyTree
    steps: Array  # int32 scalar, steps since the reset, at most ``length``
    ended: Array  # bool scalar, the inner episode is over
    terminated: Array  # bool scalar, it reached its end rather than was cut


@dataclass(frozen=True)
class FixedLength(Wrapper):
    """Another environment under which every episode lasts exactly ``length`` steps.

    An inner episode that ends earlier is padded: the finished state absorbs with reward 0 and
    only the last action is legal, so padding carries no information. The end is reported on the
    last step alone: ``terminated`` if the inner episode had terminated by then, else
    ``truncated``. With a rollout of ``length`` steps each column of it is one whole episode.

    Attributes:
      env: the environment; its action mask is an array (or a pytree of arrays) ``[..., A]``.
      length: steps per episode.
      whole: an inner episode that goes on after them is over all the same, and so ``terminated``:
        what is looked at is a stretch of time.
    """

    length: int
    whole: bool = False

    name = "fixed_length"
    behaviour_version = 1

    def __post_init__(self) -> None:
        """Check the length."""
        if self.length < 1:
            raise JaxschedError(f"FixedLength.length is {self.length}; it must be at least 1")

    def reset(
        self, key: PRNGKey, params: PyTree, episode: Array | None = None
    ) -> tuple[FixedLengthState, TimeStep]:
        """Start an inner episode."""
        inner, timestep = self.env.reset(key, params, episode)
        state = FixedLengthState(inner, jnp.int32(0), timestep.done, timestep.terminated)
        return state, self._report(state, timestep)

    def step(
        self, key: PRNGKey, state: FixedLengthState, action: PyTree, params: PyTree
    ) -> tuple[FixedLengthState, TimeStep]:
        """Step the inner environment unless its episode or this one is over."""
        over = state.ended | (state.steps >= self.length)
        inner, timestep = self.env.step(key, state.inner, action, params)
        inner = select(over, state.inner, inner)
        observation, mask = self.env.observe(inner, params)
        timestep = timestep._replace(
            observation=observation,
            action_mask=mask,
            reward=jnp.where(over, 0.0, timestep.reward),
            elapsed=jnp.where(over, 0.0, timestep.elapsed),
        )
        state = FixedLengthState(
            inner=inner,
            steps=jnp.minimum(state.steps + 1, self.length),
            ended=state.ended | (timestep.done & ~over),
            terminated=state.terminated | (timestep.terminated & ~over),
        )
        return state, self._report(state, timestep)

    def observe(self, state: FixedLengthState, params: PyTree) -> tuple[PyTree, PyTree]:
        """The inner observation; of the mask only the last action in padding."""
        observation, mask = self.env.observe(state.inner, params)
        return observation, _padding_mask(mask, state.ended)

    def decides(self, state: FixedLengthState) -> Array:
        """As the inner environment; not in padding."""
        return self.env.decides(state.inner) & ~state.ended

    def max_steps(self, params: PyTree) -> int:
        """The fixed length."""
        return self.length

    def _report(self, state: FixedLengthState, timestep: TimeStep) -> TimeStep:
        last = state.steps >= self.length
        return timestep._replace(
            action_mask=_padding_mask(timestep.action_mask, state.ended),
            terminated=last & (state.terminated | self.whole),
            truncated=last & ~state.terminated & (not self.whole),
        )


def _padding_mask(mask: PyTree, ended: Array) -> PyTree:
    def only_last(mask: Array) -> Array:
        return jnp.arange(mask.shape[-1]) == mask.shape[-1] - 1

    return jax.tree.map(lambda m: jnp.where(ended, only_last(m), m), mask)
