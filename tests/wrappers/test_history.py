"""The last decisions are shown in order, by the wrapper and by a policy's memory alike."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.environment import start, step_and_reset
from jaxsched.errors import JaxschedError
from jaxsched.wrappers.history import Remembered, WithHistory, empty_history, push
from tests import probes
from tests.probes import Grouped

LENGTH = 2
ENV = WithHistory(Grouped(), LENGTH)
PARAMS = probes.grouped_pay()


@dataclass(frozen=True)
class Second(Grouped):
    """Decides at the second step of each group only."""

    def decides(self, state):
        return state[0] % self.size == 1


def doubled(action):
    return 2 * action


SPARSE = WithHistory(Second(), LENGTH, part=doubled)


def play(env, actions):
    state, timestep = env.reset(jax.random.key(0), PARAMS)
    seen = [timestep.observation]
    step = jax.jit(env.step)
    for action in actions:
        state, timestep = step(jax.random.key(1), state, jnp.int32(action), PARAMS)
        seen.append(timestep.observation)
        observed, mask = env.observe(state, PARAMS)
        jax.tree.map(np.testing.assert_array_equal, observed, timestep.observation)
        np.testing.assert_array_equal(mask, timestep.action_mask)
    return state, seen


def test_entries_are_the_decisions_before_oldest_first():
    _, seen = play(ENV, [1, 0, 2])
    assert not seen[0].history.valid.any()
    assert seen[1].history.valid.tolist() == [False, True]
    history = seen[3].history
    assert history.valid.tolist() == [True, True]
    assert history.action.tolist() == [0, 2]
    np.testing.assert_array_equal(history.observation, np.eye(3)[[1, 2]])
    np.testing.assert_array_equal(seen[3].observation, np.eye(3)[0])


def test_steps_without_a_decision_are_not_remembered():
    _, seen = play(SPARSE, [1, 2, 1, 2, 1])
    assert [int(s.history.valid.sum()) for s in seen] == [0, 0, 1, 1, 1, 2]
    assert seen[-1].history.action.tolist() == [4, 2]
    np.testing.assert_array_equal(seen[-1].history.observation, np.eye(3)[[1, 1]])


def test_a_finished_state_absorbs():
    state, seen = play(ENV, [1] * 6)
    after, timestep = ENV.step(jax.random.key(2), state, jnp.int32(2), PARAMS)
    assert timestep.terminated
    assert timestep.reward == 0
    jax.tree.map(np.testing.assert_array_equal, after, state)
    jax.tree.map(np.testing.assert_array_equal, timestep.observation, seen[-1])


def test_a_reset_clears_the_history():
    current = start(ENV, jax.random.key(0), PARAMS)
    step = jax.jit(lambda c: step_and_reset(ENV, jax.random.key(1), c, jnp.int32(1), PARAMS))
    for _ in range(6):
        current, timestep = step(current)
    assert timestep.observation.history.valid.all()
    assert not ENV.observe(current.state, PARAMS)[0].history.valid.any()


def test_specs_describe_the_observation():
    for env in (ENV, SPARSE):
        spec = env.observation_spec(PARAMS)
        _, timestep = env.reset(jax.random.key(0), PARAMS)
        same = jax.tree.map(
            lambda s, x: s.shape == x.shape and s.dtype == x.dtype, spec, timestep.observation
        )
        assert jax.tree.leaves(same) == [True] * 4
    assert ENV.max_steps(PARAMS) == Grouped().max_steps(PARAMS)
    assert ENV.num_episodes(PARAMS) == 1
    assert ENV.action_spec(PARAMS) == Grouped().action_spec(PARAMS)


def test_push_only_where_it_should():
    empty = empty_history(Grouped(), PARAMS, LENGTH)
    kept = push(empty, jnp.ones(3), jnp.int32(1), jnp.bool_(False))
    jax.tree.map(np.testing.assert_array_equal, kept, empty)
    assert isinstance(ENV.reset(jax.random.key(0), PARAMS)[1].observation, Remembered)


def test_lengths_below_one_are_refused():
    with pytest.raises(JaxschedError, match="length of a history is 0"):
        WithHistory(Grouped(), 0)
