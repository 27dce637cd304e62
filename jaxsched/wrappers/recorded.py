"""A data set of decisions as an environment, so that it is imitated through the one training loop.

Axes: ``N`` recorded decisions, ``A`` actions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.teacher import Taught


class RecordedParams(NamedTuple):
    """A data set of decisions; observations keep the dtype that they come in."""

    observation: PyTree  # leaves [N, ...]
    mask: Array  # bool [N, A]
    label: Array  # int32 [N]


class RecordedState(NamedTuple):
    """State of a :class:`Recorded` environment."""

    row: Array  # int32 scalar
    done: Array  # bool scalar


@dataclass(frozen=True)
class Recorded(Environment):
    """A data set as an environment: each episode is one decision, drawn uniformly.

    The reward is 1 where the action agrees with the record, so that the mean return of an
    evaluation over all episodes (row ``i`` is episode ``i``) is the share of agreement.
    """

    name = "recorded"
    behaviour_version = 1

    def reset(
        self, key: PRNGKey, params: RecordedParams, episode: Array | None = None
    ) -> tuple[RecordedState, TimeStep]:
        """Show row ``episode``, or one drawn with ``key``."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, params.label.shape[0], jnp.int32)
        state = RecordedState(jnp.asarray(episode, jnp.int32), jnp.bool_(False))
        return state, self._report(state, jnp.float32(0), params)

    def step(
        self, key: PRNGKey, state: RecordedState, action: Array, params: RecordedParams
    ) -> tuple[RecordedState, TimeStep]:
        """Pay for agreement and end the episode."""
        del key
        agrees = ~state.done & (action == params.label[state.row])
        state = RecordedState(state.row, jnp.bool_(True))
        return state, self._report(state, agrees.astype(jnp.float32), params)

    def observe(self, state: RecordedState, params: RecordedParams) -> tuple[Taught, Array]:
        """The row."""
        observation = jax.tree.map(lambda x: x[state.row], params.observation)
        return Taught(observation, params.label[state.row]), params.mask[state.row]

    def num_episodes(self, params: RecordedParams) -> int:
        """One per row."""
        return int(params.label.shape[0])

    def max_steps(self, params: RecordedParams) -> int:
        """One decision."""
        return 1

    def observation_spec(self, params: RecordedParams) -> Taught:
        """Shapes and dtypes of one row."""
        row = jax.tree.map(lambda x: ArraySpec(tuple(x.shape[1:]), x.dtype), params.observation)
        return Taught(row, ArraySpec((), params.label.dtype))

    def action_spec(self, params: RecordedParams) -> DiscreteSpec:
        """As many actions as the mask has columns."""
        return DiscreteSpec(int(params.mask.shape[1]))

    def _report(self, state: RecordedState, reward: Array, params: Any) -> TimeStep:
        observation, mask = self.observe(state, params)
        return TimeStep(
            observation=observation,
            action_mask=mask,
            reward=reward,
            terminated=state.done,
            truncated=jnp.bool_(False),
            elapsed=jnp.float32(0),
            metrics=(),
        )
