"""The training loop: chunks, seeds, compilation, memory, and independence of the algorithm."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.dqn import DQNConfig, dqn
from jaxsched.core import training
from jaxsched.core.learner import Learner
from jaxsched.errors import JaxschedError
from tests import probes
from tests.probes import NUM_ACTIONS, Probe

ENV = Probe()
LOOP = training.LoopConfig(num_envs=4, rollout_length=5, num_updates=6)


class Net(nn.Module):
    """One hidden layer."""

    @nn.compact
    def __call__(self, x):
        """Q values."""
        return nn.Dense(NUM_ACTIONS)(nn.relu(nn.Dense(16)(x)))


def dqn_of(capacity):
    return dqn(
        Net(),
        DQNConfig(
            total_updates=6,
            gradient_steps=3,
            batch_size=16,
            capacity=capacity,
            learning_starts=20,
            target_period=4,
            n_step=3,
        ),
    )


LEARNER = dqn_of(128)


def begin(seed=0, params=None, learner=LEARNER):
    params = probes.ending() if params is None else params
    return training.init(ENV, learner, LOOP, jax.random.key(seed), params)


def go(carry, *lengths, params=None):
    params = probes.ending() if params is None else params
    parts = []
    for length in lengths:
        carry, metrics = training.chunk(ENV, LEARNER, LOOP, carry, params, num_updates=length)
        parts.append(jax.device_get(metrics))
    return carry, jax.tree.map(lambda *x: np.concatenate(x), *parts)


def raw(tree):
    """Numpy leaves; typed keys as their data."""
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


def assert_same_bits(one, other):
    for a, b in zip(raw(one), raw(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def whole():
    """Six updates in one go."""
    return go(begin(), 6)


@pytest.mark.parametrize("lengths", [(6,), (2, 2, 2), (1, 1, 2, 2)])
def test_chunks_give_the_same_bits_as_one_go(whole, lengths):
    assert_same_bits(whole, go(begin(), *lengths))
    assert int(whole[0].update) == 6


def test_another_seed_gives_another_run(whole):
    other = go(begin(seed=1), 6)
    assert not np.array_equal(whole[1]["loss"], other[1]["loss"])


def test_metrics_are_one_float_per_update(whole):
    _, metrics = whole
    for name, values in metrics.items():
        assert values.shape == (6,), name
        assert values.dtype == np.float32, name
    # Episodes of three steps, five steps per rollout: one or two end in each environment.
    np.testing.assert_array_equal(metrics["episodes"], [4, 8, 8, 4, 8, 8])
    np.testing.assert_array_equal(metrics["episode_return_sum"], 3 * metrics["episodes"])
    np.testing.assert_array_equal(metrics["episode_length_sum"], 3 * metrics["episodes"])
    np.testing.assert_array_equal(metrics["reward_mean"], 1)


def test_compiled_once_per_length(whole):
    carry = begin()
    before = training.chunk._cache_size()
    carry, _ = go(carry, 6)
    # Other parameters of the same shapes, as a curriculum passes them.
    carry, metrics = go(carry, 6, 6, params=probes.delayed_reward())
    assert training.chunk._cache_size() == before
    assert metrics["episode_return_sum"][-1] == metrics["episodes"][-1]


def test_learners_are_given_axes_of_time_and_environments():
    def act(*given, **options):
        return LEARNER.act(*given, **options)[0], jnp.zeros(3)  # not of the four environments

    carry = begin()
    with pytest.raises(AssertionError, match="different shape prefixes"):
        training.chunk(ENV, LEARNER._replace(act=act), LOOP, carry, probes.ending(), num_updates=1)


def test_ahead_of_time_compilation(whole):
    carry, params = begin(), probes.ending()
    lowered = training.chunk.lower(ENV, LEARNER, LOOP, carry, params, num_updates=6)
    compiled = lowered.compile()
    assert_same_bits(whole, compiled(carry, params))


def test_carry_is_donated_and_shares_nothing_with_its_sources():
    params = probes.ending()
    weights = Net().init(jax.random.key(7), jnp.zeros((1, 4)))
    kept = raw((params, weights))
    carry = training.init(ENV, LEARNER, LOOP, jax.random.key(0), params, weights)
    assert_same_bits(LEARNER.policy_params(carry.learner_state), weights)
    training.chunk(ENV, LEARNER, LOOP, carry, params, num_updates=6)
    assert carry.learner_state.replay.items.observation.is_deleted()
    assert_same_bits(kept, (params, weights))


def test_replay_memory_is_not_copied_by_an_update():
    capacity = 200_000
    learner = dqn_of(capacity)
    carry = begin(learner=learner)
    params = probes.ending()
    lowered = training.chunk.lower(ENV, learner, LOOP, carry, params, num_updates=2)
    stored = sum(x.nbytes for x in jax.tree.leaves(carry.learner_state.replay))
    analysis = lowered.compile().memory_analysis()
    assert analysis.temp_size_in_bytes < capacity  # less than one byte per item
    assert analysis.alias_size_in_bytes > stored


def test_seeds_under_vmap_are_close_to_separate_runs(whole):
    params = probes.ending()
    keys = jnp.stack([jax.random.key(0), jax.random.key(1)])
    carry = training.init(ENV, LEARNER, LOOP, keys, params)
    carry, metrics = training.chunk(ENV, LEARNER, LOOP, carry, params, num_updates=6)
    for seed, (one, values) in enumerate((whole, go(begin(seed=1), 6))):
        for a, b in zip(raw(carry), raw(one), strict=True):
            np.testing.assert_allclose(a[seed], b, rtol=1e-4, atol=1e-5)
        for name in values:
            np.testing.assert_allclose(metrics[name][seed], values[name], rtol=1e-3, atol=1e-5)


class Tally(NamedTuple):
    """State of a learner that only counts."""

    calls: jax.Array
    rewards: jax.Array


def test_the_loop_knows_nothing_of_the_algorithm():
    counting = Learner(
        init=lambda key, specs, params=None: Tally(jnp.int32(0), jnp.float32(0)),
        act=lambda state, observation, mask, key, greedy: (
            jnp.full(mask.shape[0], state.calls),
            {"value": observation[:, 0]},
        ),
        update=lambda state, rollout, key: (
            Tally(state.calls + 1, state.rewards + jnp.sum(rollout.reward)),
            {"action": jnp.float32(rollout.action[0, 0])},
        ),
        policy_params=lambda state: (),
    )
    params = probes.process(observation=probes.CONSTANT, reward=[[0, 1, 2]])
    carry = training.init(ENV, counting, LOOP, jax.random.key(0), params)
    carry, metrics = training.chunk(ENV, counting, LOOP, carry, params, num_updates=3)
    assert int(carry.learner_state.calls) == 3
    assert float(carry.learner_state.rewards) == 20 * (0 + 1 + 2)
    np.testing.assert_array_equal(metrics["action"], [0, 1, 2])


@pytest.mark.parametrize("name", ["num_envs", "rollout_length", "num_updates", "time_limit"])
def test_empty_sizes_are_refused(name):
    sizes = {"num_envs": 1, "rollout_length": 1, "num_updates": 1}
    with pytest.raises(JaxschedError, match=f"LoopConfig.{name} is 0"):
        training.LoopConfig(**sizes | {name: 0})


def test_a_head_start_is_played_by_the_beginning_policy_and_stays_with_the_loop():
    params = probes.process(reward=[1, 2, 4])
    loop = training.LoopConfig(num_envs=6, rollout_length=5, num_updates=6, head_start=6)
    seen = []
    policy = LEARNER._replace(
        act=lambda *given, **how: seen.append(how) or LEARNER.act(*given, **how)
    )
    carry = training.init(ENV, policy, loop, jax.random.key(0), params)
    assert seen == [{"greedy": False}]
    np.testing.assert_array_equal(carry.current.state, [0, 1, 2, 0, 1, 2])
    carry, metrics = training.chunk(ENV, LEARNER, loop, carry, params, num_updates=1)
    np.testing.assert_array_equal(carry.current.state, [2, 0, 1, 2, 0, 1])
    assert float(metrics["episodes"][0]) == 10  # none of which is shorter for the head start
    assert float(metrics["episode_length_sum"][0]) == 30


def test_seeds_have_head_starts_of_their_own():
    params = probes.process(first=(0, 1, 2))
    loop = training.LoopConfig(num_envs=32, rollout_length=5, num_updates=6, head_start=32)
    keys = jax.random.split(jax.random.key(0), 2)
    both = training.init(ENV, LEARNER, loop, keys, params).current.state
    for seed, key in enumerate(keys):
        alone = training.init(ENV, LEARNER, loop, key, params).current.state
        np.testing.assert_array_equal(both[seed], alone)
    assert (both[0] != both[1]).any()


def test_training_computes_in_32_bits_whatever_the_precision_of_jax():
    found = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            found.append(go(begin(seed=3), 6))
    for narrow, wide in zip(*map(raw, found), strict=True):
        assert narrow.dtype == wide.dtype
        np.testing.assert_allclose(wide, narrow, rtol=1e-4)  # draws are the same
