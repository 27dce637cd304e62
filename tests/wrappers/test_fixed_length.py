"""Every episode lasts as long as it is told, and padding says nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core import training
from jaxsched.core.environment import start
from jaxsched.core.learner import Learner
from jaxsched.core.rollout import Running, unroll
from jaxsched.errors import JaxschedError
from jaxsched.wrappers.fixed_length import FixedLength
from tests import probes
from tests.probes import Probe

LENGTH = 5
ENV = FixedLength(Probe(), LENGTH)


def play(params, steps=LENGTH, env=ENV, episode=0):
    """Time steps of one episode without resets, stacked."""

    def step(state, key):
        state, timestep = env.step(key, state, jnp.int32(0), params)
        return state, timestep

    state, first = env.reset(jax.random.key(0), params, jnp.int32(episode))
    state, rest = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), steps))
    return first, rest, state


def test_a_finished_episode_absorbs_until_the_end():
    params = probes.process(reward=[1, 2, 4], elapsed_s=[10, 20, 30])
    first, rest, _ = play(params)
    assert not first.done
    np.testing.assert_array_equal(first.action_mask, [1, 1, 1])
    np.testing.assert_array_equal(rest.reward, [1, 2, 4, 0, 0])
    np.testing.assert_array_equal(rest.elapsed, [10, 20, 30, 0, 0])
    np.testing.assert_array_equal(rest.terminated, [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(rest.truncated, [0, 0, 0, 0, 0])
    np.testing.assert_array_equal(
        rest.action_mask, [[1, 1, 1], [1, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    )
    np.testing.assert_array_equal(jnp.argmax(rest.observation, axis=-1), [1, 2, 3, 3, 3])


@pytest.mark.parametrize("length", [2, 3])
def test_an_unfinished_episode_is_cut(length):
    params = probes.process(reward=[1, 2, 4])
    _, rest, state = play(params, steps=4, env=FixedLength(Probe(), length))
    finishes = length == 3
    np.testing.assert_array_equal(rest.terminated[:length], [0] * (length - 1) + [finishes])
    np.testing.assert_array_equal(rest.truncated[:length], [0] * (length - 1) + [not finishes])
    # Beyond its length the episode absorbs like any other.
    np.testing.assert_array_equal(rest.reward[length:], 0)
    np.testing.assert_array_equal(rest.terminated[length:], finishes)
    assert int(state.steps) == length
    assert int(state.inner) == length


def test_an_inner_cut_stays_a_cut():
    _, rest, _ = play(probes.process(reward=1.0, truncates=True))
    np.testing.assert_array_equal(rest.terminated, 0)
    np.testing.assert_array_equal(rest.truncated, [0, 0, 0, 0, 1])


def test_observe_agrees_with_step():
    params = probes.ending()
    _, rest, state = play(params, steps=4)
    observation, mask = ENV.observe(state, params)
    np.testing.assert_array_equal(observation, rest.observation[-1])
    np.testing.assert_array_equal(mask, rest.action_mask[-1])


COUNTING = Learner(
    init=lambda key, specs, params=None: jnp.int32(0),
    act=lambda state, observation, mask, key, greedy: (jnp.zeros(mask.shape[0], jnp.int32), ()),
    update=lambda state, rollout, key: (
        state + 1,
        {
            "shortest": jnp.min(jnp.sum(rollout.reward, 0)),
            "longest": jnp.max(jnp.sum(rollout.reward, 0)),
            "ends_early": jnp.sum(rollout.terminated[:-1], dtype=jnp.float32),
            "ends": jnp.sum(rollout.terminated[-1], dtype=jnp.float32),
            "choices": jnp.sum(jnp.sum(rollout.mask, -1) > 1, dtype=jnp.float32),
        },
    ),
    policy_params=lambda state: (),
)


def test_rollouts_of_the_loop_are_whole_episodes():
    params = probes.process(reward=1.0, first=(0, 1, 2))  # episodes of 3, 2 and 1 steps
    loop = training.LoopConfig(num_envs=16, rollout_length=LENGTH, num_updates=3)
    carry = training.init(ENV, COUNTING, loop, jax.random.key(0), params)
    carry, metrics = training.chunk(ENV, COUNTING, loop, carry, params, num_updates=3)
    np.testing.assert_array_equal(metrics["ends_early"], 0)
    np.testing.assert_array_equal(metrics["ends"], 16)
    np.testing.assert_array_equal(metrics["episode_length_sum"], 16 * LENGTH)
    np.testing.assert_array_equal(metrics["shortest"], 1)
    np.testing.assert_array_equal(metrics["longest"], 3)
    # As many decisions as rewards: padding offers no choice.
    np.testing.assert_array_equal(metrics["choices"], metrics["episode_return_sum"])


def test_columns_start_new_episodes():
    params = probes.process(reward=1.0, first=(0, 1, 2))
    keys = jax.random.split(jax.random.key(3), 8)
    current = jax.vmap(lambda k: start(ENV, k, params))(keys)
    running = Running(jnp.zeros(8), jnp.zeros(8, jnp.int32))
    policy = lambda observation, mask, key: (jnp.zeros(8, jnp.int32), ())  # noqa: E731
    starts = set()
    for turn in range(3):
        current, running, rollout, _ = unroll(
            ENV, policy, jax.random.key(turn), current, running, params, length=LENGTH
        )
        first = np.argmax(rollout.observation[0], axis=-1)
        np.testing.assert_array_equal(rollout.reward.sum(0), 3 - first)
        starts |= set(first.tolist())
    assert starts == {0, 1, 2}


def test_an_empty_length_is_refused():
    with pytest.raises(JaxschedError, match="FixedLength.length is 0"):
        FixedLength(Probe(), 0)
