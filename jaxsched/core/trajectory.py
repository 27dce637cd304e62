"""The trajectory of one episode, with a record of each step.

Evaluations gather records of fixed size only (``core.evaluation``); pictures of some
systems need the steps in between as well. Axes: ``T`` steps.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.ops.programs import bounded_programs
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, TimeStep

CHUNK = 256  # steps of one call
MOST_PROGRAMS = 8  # kept of each kind
INT32_END = 2**31


class Step(NamedTuple):
    """One step, the input of a ``moment`` function.

    Attributes:
      before: the state before the step.
      action: the action taken.
      timestep: the environment's output.
      after: the state after the step.
      observation: the policy's input.
      mask: legal actions.
      records: the recorder's records, this step included.
    """

    before: PyTree
    action: PyTree
    timestep: TimeStep
    after: PyTree
    observation: PyTree
    mask: PyTree
    records: PyTree


Moment = Callable[[Any, Step, Any], PyTree]
"""``moment(env, step, params)``: the recorded part of a step, arrays of fixed shapes."""


class Some(NamedTuple):
    """A part of a moment that only some steps have: a trajectory has no ``values`` of the others.

    Attributes:
      there: bool, whether the step has it; ``[T]`` in a trajectory.
      values: leaves ``[n, ...]`` in a trajectory, of the n steps that have it.
    """

    there: Any
    values: PyTree


def no_moment(env: Any, step: Step, params: Any) -> PyTree:
    """A ``moment`` that records nothing."""
    del env, step, params
    return ()


Clock = Callable[[Any, Any], Array]
"""``clock(env, state)``: seconds, scalar."""
Score = Callable[[PyTree, PyTree], PyTree]
"""``score(weights, observation)``: a network's scores of the actions."""


class Decisions(NamedTuple):
    """Decisions and their inputs, leaves ``[T, ...]``; ``time`` is in seconds."""

    due: Any
    time: Any
    observation: PyTree
    mask: PyTree
    action: PyTree
    scores: PyTree


class Trajectory(NamedTuple):
    """An episode, step by step.

    Attributes:
      records: the recorder's records, NumPy arrays.
      moments: results of ``moment``, NumPy arrays ``[T, ...]``; None for an episode of an
        evaluation, or without steps.
      seen: recorded decisions ``[T]``, those with two legal actions or more; None without
        ``score``.
      every: ``seen`` has one of this many decisions.
      ended: whether the episode came to its end.
    """

    records: PyTree
    moments: PyTree = None
    seen: Decisions | None = None
    every: int = 1
    ended: bool = True


class _Carry(NamedTuple):
    """State of the rollout."""

    state: PyTree
    timestep_seen: tuple[PyTree, PyTree]
    memory: PyTree
    records: PyTree
    step: Array
    elapsed: Array
    done: Array


def record_trajectory(
    env: Environment,
    policy: Policy,
    recorder: Recorder,
    params: Any,
    moment: Moment = no_moment,
    *,
    episode: int = 0,
    weights: PyTree = (),
    key: PRNGKey | None = None,
    clock: Clock | None = None,
    score: Score | None = None,
    most_seen: int = 0,
    most_steps: int | None = None,
    past_end: bool = False,
    state: PyTree | None = None,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Trajectory:
    """Run one episode as ``core.evaluation.run_episodes`` does, and record the moments.

    Args:
      env: the environment.
      policy: the decision rule.
      recorder: gathers the records; the same object for equal environments.
      params: environment parameters.
      moment: the recorded part of a step; the same object for equal environments.
      episode: index of the episode.
      weights: the policy's network parameters, if it has any.
      key: for policies and environments that draw; that of seed 0 by default.
      clock: the time of a state; None: the seconds that passed since the reset.
      score: the network's scores of the actions; None: decisions are not recorded.
      most_seen: most decisions to record; of more, every second, fourth, ... is recorded.
      most_steps: stop after this many steps; by default at the environment's own bound.
      past_end: go on after the end, so that there are always ``most_steps`` steps.
      state: initial state, so that no reset is compiled; the first observation is zeros, so the
        first action must have no effect. None: the reset's.
      on_steps: called with the number of steps so far (progress).

    Raises:
      JaxschedError: the episode did not end within the environment's bound.
    """
    key = jax.random.key(0) if key is None else key
    key = jax.random.fold_in(jax.random.fold_in(key, episode), 0)
    bound = min(env.max_steps(params) if most_steps is None else most_steps, INT32_END - 1)
    watched = score if most_seen else None
    if state is None:
        carry = _begin(env, policy, recorder, params, jnp.int32(episode), key)
    else:
        carry = _begin_at(env, policy, recorder, params, state, key)
    moments: list[PyTree] = []
    thinned = _Thinned(most_seen)
    played, done = 0, bool(carry.done)
    while not done and played < bound:
        carry, playing, kept, seen = _chunk(
            env, policy, recorder, moment, clock, watched, params, weights, key,
            np.int32(bound), np.bool_(past_end), carry,
        )  # fmt: skip
        count = int(np.sum(playing))
        moments.append(_kept(kept, count))
        if seen is not None:
            thinned.add(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:n], seen))
        played, done = played + count, bool(carry.done)
        on_steps(played)
    if not done and most_steps is None:
        raise JaxschedError(f"{policy.name}: the episode did not end within its step bound")
    if not moments and most_steps is None:
        raise JaxschedError(f"{policy.name}: the episode has no steps")
    records = jax.tree.map(np.asarray, carry.records)
    joined = _joined(moments) if moments else None
    return Trajectory(records, joined, thinned.joined(), thinned.every, done)


def _kept(moments: PyTree, count: int) -> PyTree:
    """Moments of the first ``count`` steps, without absent values of ``Some``."""

    def part(node: Any) -> Any:
        if not isinstance(node, Some):
            return np.asarray(node)[:count]
        there = np.asarray(node.there)[:count]
        rows = np.flatnonzero(there)
        return Some(there, jax.tree.map(lambda leaf: np.asarray(leaf)[rows], node.values))

    return jax.tree.map(part, moments, is_leaf=lambda node: isinstance(node, Some))


class _Thinned:
    """Decisions, thinned evenly to at most ``most``."""

    def __init__(self, most: int) -> None:
        self.most, self.every, self._count = most, 1, 0
        self._numbers: list[Any] = []
        self._parts: list[Decisions] = []

    def add(self, seen: Decisions) -> None:
        """Add the decisions of some steps."""
        due = np.flatnonzero(np.asarray(seen.due))
        numbers = self._count + np.arange(len(due))
        self._count += len(due)
        kept = numbers % self.every == 0
        self._take(numbers[kept], jax.tree.map(lambda leaf: leaf[due[kept]], seen))
        while sum(map(len, self._numbers)) > self.most:
            self.every *= 2
            numbers, joined = np.concatenate(self._numbers), _joined(self._parts)
            kept = numbers % self.every == 0
            self._numbers, self._parts = [], []
            self._take(numbers[kept], jax.tree.map(lambda leaf, at=kept: leaf[at], joined))

    def _take(self, numbers: Any, seen: Decisions) -> None:
        self._numbers.append(numbers)
        self._parts.append(seen)

    def joined(self) -> Decisions | None:
        """All recorded decisions; None if there are none."""
        return _joined(self._parts) if self._parts else None


def _joined(parts: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@bounded_programs(num_static=3, most=MOST_PROGRAMS)
def _begin(
    env: Environment,
    policy: Policy,
    recorder: Recorder,
    params: Any,
    episode: Array,
    key: PRNGKey,
) -> _Carry:
    state, timestep = env.reset(key, params, episode)
    seen = timestep.observation, timestep.action_mask
    made = policy.init(params), recorder.init(params)
    return _Carry(state, seen, *made, jnp.int32(0), jnp.float32(0), timestep.done)


def _begin_at(
    env: Environment, policy: Policy, recorder: Recorder, params: Any, state: PyTree, key: PRNGKey
) -> _Carry:
    _, like = jax.eval_shape(lambda given: env.reset(key, given, jnp.int32(0)), params)
    zeros = partial(jax.tree.map, lambda leaf: jnp.zeros(leaf.shape, leaf.dtype))
    seen = zeros(like.observation), zeros(like.action_mask)
    made = policy.init(params), recorder.init(params)
    return _Carry(state, seen, *made, jnp.int32(0), jnp.float32(0), jnp.bool_(False))


@bounded_programs(num_static=6, most=MOST_PROGRAMS)
def _chunk(
    env: Environment,
    policy: Policy,
    recorder: Recorder,
    moment: Moment,
    clock: Clock | None,
    score: Score | None,
    params: Any,
    weights: PyTree,
    key: PRNGKey,
    bound: Array,
    past_end: Array,
    carry: _Carry,
) -> tuple[_Carry, Array, PyTree, Decisions | None]:
    """``CHUNK`` steps: whether each was taken, their moments and their decisions.

    Steps from number ``bound`` on are not taken, nor (without ``past_end``) those after the end:
    they change no record.
    """

    def step(carry: _Carry, _: None) -> tuple[_Carry, tuple[Array, PyTree, Decisions | None]]:
        act_key, step_key = jax.random.split(jax.random.fold_in(key, carry.step + 1))
        observation, mask = carry.timestep_seen
        view = View(observation, mask, carry.state, params)
        action, memory = policy.act(weights, carry.memory, view, act_key)
        state, timestep = env.step(step_key, carry.state, action, params)
        playing = ~carry.done & (carry.step < bound)
        records = recorder.update(carry.records, timestep, playing)
        happened = Step(carry.state, action, timestep, state, observation, mask, records)
        kept = moment(env, happened, params)
        seen = None
        if score is not None:
            due = env.decides(carry.state)
            if isinstance(env.action_spec(params), DiscreteSpec):
                due &= jnp.sum(mask) > 1
            time = carry.elapsed if clock is None else clock(env, carry.state)
            seen = Decisions(due, time, observation, mask, action, score(weights, observation))
        following = _Carry(
            state,
            (timestep.observation, timestep.action_mask),
            memory,
            records,
            carry.step + 1,
            carry.elapsed + timestep.elapsed.astype(jnp.float32),
            carry.done | (timestep.done & playing & ~past_end),
        )
        return following, (playing, kept, seen)

    carry, (playing, kept, seen) = jax.lax.scan(step, carry, None, CHUNK)
    return carry, playing, kept, seen
