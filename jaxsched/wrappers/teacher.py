"""An environment that shows a teacher's choice beside the observation, for imitation.

The teacher is asked at every decision; :mod:`jaxsched.wrappers.recorded` replays a data set.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View
from jaxsched.ops.batching import select
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.wrapper import Wrapper


class Taught(NamedTuple):
    """An observation and what the teacher would do there (its action, of the action's dtype)."""

    observation: PyTree
    label: PyTree


class TaughtState(NamedTuple):
    """State of a :class:`TaughtEnvironment`."""

    inner: PyTree
    memory: PyTree  # the teacher's, after its choice of ``label``
    label: PyTree  # of the shapes and dtypes of an action
    done: Array  # bool scalar


@dataclass(frozen=True)
class TaughtEnvironment(Wrapper):
    """Another environment whose observation carries the teacher's action.

    The teacher may be privileged and may remember: its memory starts with the episode and moves
    on at each decision as if its own action had been taken, whether it was or not.

    Attributes:
      env: the environment.
      teacher: a policy without network weights. Its actions, discrete or not, take the dtypes of
        the action spec.
    """

    teacher: Policy

    name = "taught"
    behaviour_version = 1

    def reset(
        self, key: PRNGKey, params: PyTree, episode: Array | None = None
    ) -> tuple[TaughtState, TimeStep]:
        """Start an episode and ask the teacher, whose memory is fresh."""
        reset_key, teach_key = jax.random.split(key)
        inner, timestep = self.env.reset(reset_key, params, episode)
        memory = self.teacher.init(params)
        label, memory = self._ask(inner, timestep, memory, params, teach_key)
        return self._report(TaughtState(inner, memory, label, timestep.done), timestep)

    def step(
        self, key: PRNGKey, state: TaughtState, action: PyTree, params: PyTree
    ) -> tuple[TaughtState, TimeStep]:
        """Step the inner environment with ``action`` and ask the teacher where that led."""
        step_key, teach_key = jax.random.split(key)
        inner, timestep = self.env.step(step_key, state.inner, action, params)
        answer = self._ask(inner, timestep, state.memory, params, teach_key)
        label, memory = select(state.done, (state.label, state.memory), answer)
        done = state.done | timestep.done
        return self._report(TaughtState(inner, memory, label, done), timestep)

    def observe(self, state: TaughtState, params: PyTree) -> tuple[Taught, PyTree]:
        """The inner observation with the teacher's action, and the inner mask."""
        observation, mask = self.env.observe(state.inner, params)
        return Taught(observation, state.label), mask

    def observation_spec(self, params: PyTree) -> Taught:
        """The inner specs and those of the label, which is an action."""
        label = jax.tree.map(label_spec, self.env.action_spec(params))
        return Taught(self.env.observation_spec(params), label)

    def _ask(
        self, inner: PyTree, timestep: TimeStep, memory: PyTree, params: PyTree, key: PRNGKey
    ) -> tuple[PyTree, PyTree]:
        view = View(timestep.observation, timestep.action_mask, inner, params)
        label, memory = self.teacher.act((), memory, view, key)
        specs = jax.tree.map(label_spec, self.env.action_spec(params))
        return jax.tree.map(lambda spec, x: jnp.asarray(x, spec.dtype), specs, label), memory

    def _report(self, state: TaughtState, timestep: TimeStep) -> tuple[TaughtState, TimeStep]:
        return state, timestep._replace(observation=Taught(timestep.observation, state.label))


def label_spec(spec: ArraySpec | DiscreteSpec) -> ArraySpec:
    """Shape and dtype of a label for one part of the action."""
    return ArraySpec((), jnp.int32) if isinstance(spec, DiscreteSpec) else spec
