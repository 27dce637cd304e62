"""What was seen and done at the last decisions, shown beside the observation.

:class:`WithHistory` keeps it in the environment's state, for training.

Axes: ``K`` = length, decisions remembered, oldest first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.wrapper import Wrapper


class History(NamedTuple):
    """The last K decisions, oldest first; entries before the first decision are zero.

    Attributes:
      observation: leaves ``[K, ...]``, what was observed.
      action: leaves ``[K, ...]``, the remembered part of what was executed.
      valid: bool ``[K]``; the true ones come last.
    """

    observation: PyTree
    action: PyTree
    valid: Array


class Remembered(NamedTuple):
    """An observation and the decisions before it."""

    observation: PyTree
    history: History


def whole_action(action: PyTree) -> PyTree:
    """All of the action."""
    return action


def empty_history(
    env: Environment, params: Any, length: int, part: Callable[[PyTree], PyTree] = whole_action
) -> History:
    """A history before the first decision."""

    def zeros(spec: Any) -> Array:
        return jnp.int32(0) if isinstance(spec, DiscreteSpec) else spec.zeros()

    specs = env.specs(params)
    entry = jax.tree.map(zeros, specs.observation), part(jax.tree.map(zeros, specs.action))
    observation, action = jax.tree.map(
        lambda x: jnp.zeros((length, *jnp.shape(x)), jnp.result_type(x)), entry
    )
    return History(observation, action, jnp.zeros(length, bool))


def push(history: History, observation: PyTree, action: PyTree, condition: Array) -> History:
    """Add a decision and forget the oldest, where ``condition`` (bool scalar) holds."""
    latest = History(observation, action, jnp.bool_(True))
    return jax.tree.map(
        lambda old, x: jnp.where(
            condition, jnp.concatenate([old[1:], jnp.asarray(x, old.dtype)[None]]), old
        ),
        history,
        latest,
    )


class HistoryState(NamedTuple):
    """State of :class:`WithHistory`."""

    inner: PyTree
    history: History
    done: Array  # bool scalar


@dataclass(frozen=True)
class WithHistory(Wrapper):
    """Another environment whose observation is :class:`Remembered`; all else is as there.

    Steps in which it does not decide (``Environment.decides``) are not remembered.

    Attributes:
      env: the environment.
      length: K.
      part: what of an action is remembered (a module's function, so that equal wrappers hash
        alike).
    """

    length: int
    part: Callable[[PyTree], PyTree] = whole_action

    name = "with-history"
    behaviour_version = 1

    def __post_init__(self) -> None:
        """Check the length."""
        check_length(self.length)

    def reset(
        self, key: PRNGKey, params: PyTree, episode: Array | None = None
    ) -> tuple[HistoryState, TimeStep]:
        """Start an episode with an empty history."""
        inner, timestep = self.env.reset(key, params, episode)
        history = empty_history(self.env, params, self.length, self.part)
        return self._report(HistoryState(inner, history, timestep.done), timestep)

    def step(
        self, key: PRNGKey, state: HistoryState, action: PyTree, params: PyTree
    ) -> tuple[HistoryState, TimeStep]:
        """Step the inner environment and remember what was seen before and executed."""
        seen, _ = self.env.observe(state.inner, params)
        inner, timestep = self.env.step(key, state.inner, action, params)
        pushed = ~state.done & self.env.decides(state.inner)
        history = push(state.history, seen, self.part(action), pushed)
        return self._report(HistoryState(inner, history, state.done | timestep.done), timestep)

    def observe(self, state: HistoryState, params: PyTree) -> tuple[Remembered, PyTree]:
        """The inner observation with the history, and the inner mask."""
        observation, mask = self.env.observe(state.inner, params)
        return Remembered(observation, state.history), mask

    def observation_spec(self, params: PyTree) -> Remembered:
        """The inner specs, and K of them for the history."""
        history = jax.eval_shape(lambda: empty_history(self.env, params, self.length, self.part))
        specs = jax.tree.map(lambda x: ArraySpec(x.shape, x.dtype), history)
        return Remembered(self.env.observation_spec(params), specs)

    def _report(self, state: HistoryState, timestep: TimeStep) -> tuple[HistoryState, TimeStep]:
        return state, timestep._replace(observation=Remembered(timestep.observation, state.history))


def check_length(length: int) -> None:
    """Refuse histories of no entry.

    Raises:
      JaxschedError: the length is below 1.
    """
    if length < 1:
        raise JaxschedError(f"the length of a history is {length}; it must be at least 1")
