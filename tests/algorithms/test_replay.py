"""Replay draws in proportion, never what it should not, and joins steps as a plain loop does."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms import replay as memory
from jaxsched.types import Rollout

sample = jax.jit(memory.sample, static_argnums=2)
add = jax.jit(memory.add)
set_priorities = jax.jit(memory.set_priorities)


def filled(weights, capacity=None):
    """A memory that holds ``0 .. N - 1`` with the given priorities."""
    weights = jnp.asarray(weights, jnp.float32)
    replay = memory.init(jnp.float32(0), capacity or len(weights))
    replay = add(replay, jnp.arange(len(weights), dtype=jnp.float32))
    return set_priorities(replay, jnp.arange(len(weights)), weights)


def check_sums(replay):
    for below, above in zip(replay.tree, replay.tree[1:], strict=False):
        sums = np.zeros(above.size, np.float32)
        sums[: len(below)] = np.asarray(below).sum(1)
        np.testing.assert_allclose(above.reshape(-1), sums, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_follow_priority_to_alpha(alpha):
    priority = np.linspace(0.1, 4.0, 150)  # more than one leaf row
    replay = filled(priority**alpha)
    items, index, probability = sample(jax.random.key(1), replay, 200_000)
    expected = priority**alpha / np.sum(priority**alpha)
    observed = np.bincount(index, minlength=150) / 200_000
    deviation = np.sqrt(expected / 200_000)
    assert np.max(np.abs(observed - expected) / deviation) < 5
    np.testing.assert_allclose(probability, expected[np.asarray(index)], rtol=1e-5)
    np.testing.assert_array_equal(items, index)


def test_stratified_draws_are_one_from_each_share_of_the_root():
    replay = filled(np.ones(1024))  # a root row of 32
    _, index, _ = memory.sample(jax.random.key(3), replay, 64, stratified=True)
    np.testing.assert_array_equal(np.bincount(np.asarray(index) // 32), 2)
    _, index, _ = sample(jax.random.key(3), replay, 64)
    assert np.bincount(np.asarray(index) // 32, minlength=32).min() < 2


def test_least_probability_is_of_what_is_held():
    replay = filled([2.0, 0.5, 5.5], capacity=40)
    assert float(memory.least_probability(replay)) == pytest.approx(0.5 / 8)


def test_zero_priority_is_never_drawn():
    rng = np.random.default_rng(0)
    weights = np.where(rng.random(5000) < 0.05, rng.lognormal(0, 4, 5000), 0.0)
    replay = filled(weights, capacity=70_000)  # four levels, mostly empty
    _, index, probability = sample(jax.random.key(2), replay, 100_000)
    assert np.all(weights[np.asarray(index)] > 0)
    assert np.all(np.asarray(probability) > 0)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-23, 1.0])
def test_extreme_draws_stay_on_positive_weights(uniform):
    weights = np.zeros((1, memory.BRANCH), np.float32)
    weights[0, [7, 30]] = [0.3, 1e-8]
    entry = memory._pick(jnp.asarray(weights), jnp.array([uniform], jnp.float32))
    assert int(entry[0]) in (7, 30)


def test_ring_overwrites_the_oldest_and_new_items_get_the_maximum_priority():
    capacity, run = 200, 48  # wraps in the middle of a run and of a tree row
    replay = memory.init(jnp.int32(0), capacity)
    held, weights = np.zeros(capacity, np.int32), np.zeros(capacity, np.float32)
    rng, maximum, position = np.random.default_rng(0), 1.0, 0
    for turn in range(12):
        items = np.arange(run, dtype=np.int32) + 1000 * turn
        replay = add(replay, jnp.asarray(items))
        where = (position + np.arange(run)) % capacity
        held[where], weights[where] = items, maximum
        position = (position + run) % capacity
        index = rng.permutation(min(capacity, (turn + 1) * run))[:20]
        priority = rng.lognormal(0, 1, 20).astype(np.float32)
        replay = set_priorities(replay, jnp.asarray(index), jnp.asarray(priority))
        weights[index], maximum = priority, max(maximum, priority.max())
        np.testing.assert_array_equal(replay.items, held)
        np.testing.assert_allclose(memory.priorities(replay), weights)
        check_sums(replay)
        assert int(replay.size) == min(capacity, (turn + 1) * run)


def test_items_that_are_not_valid_leave_no_trace():
    replay = filled(np.ones(5), capacity=8)
    valid = jnp.array([False, True, True, False, True, True])
    replay = add(replay, jnp.arange(10.0, 16.0, dtype=jnp.float32), valid)
    np.testing.assert_array_equal(replay.items, [15, 1, 2, 3, 4, 11, 12, 14])
    assert (int(replay.position), int(replay.size)) == (1, 8)
    check_sums(replay)
    none = add(replay, jnp.zeros(6, jnp.float32), jnp.zeros(6, bool))
    jax.tree.map(np.testing.assert_array_equal, none, replay)


def test_more_items_than_capacity_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        memory.add(memory.init(jnp.int32(0), 4), jnp.arange(5))


def test_uniform_draws_cover_only_what_is_held():
    replay = add(memory.init(jnp.float32(0), 100), jnp.arange(10, dtype=jnp.float32))
    _, index, probability = memory.sample_uniform(jax.random.key(0), replay, 2000)
    assert set(np.asarray(index).tolist()) == set(range(10))
    np.testing.assert_allclose(probability, 0.1)


def test_importance_weights():
    weight = memory.importance_weights(jnp.array([0.5, 0.125]), jnp.int32(4), 0.5)
    np.testing.assert_allclose(weight, [0.5, 1.0], rtol=1e-6)


def test_memory_is_updated_in_place():
    """Donated storage is neither copied by an insertion nor by a change of priorities."""
    replay = memory.init(jnp.zeros(64), 100_000)
    for function, arguments in (
        (memory.add, (jnp.zeros((64, 64)),)),
        (memory.set_priorities, (jnp.arange(64), jnp.ones(64))),
    ):
        compiled = jax.jit(function, donate_argnums=0).lower(replay, *arguments).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < replay.items.nbytes / 10


def random_rollout(rng, steps, batch):
    ends = rng.choice(3, size=(steps, batch), p=[0.6, 0.2, 0.2])
    observation = rng.normal(size=(steps, batch, 2)).astype(np.float32)
    return Rollout(
        observation=observation,
        mask=np.ones((steps, batch, 3), bool),
        action=rng.integers(0, 3, (steps, batch)),
        reward=rng.normal(size=(steps, batch)).astype(np.float32),
        terminated=ends == 1,
        truncated=ends == 2,
        elapsed=np.zeros((steps, batch), np.float32),
        next_observation=observation + 100,
        next_mask=rng.random((steps, batch, 3)) < 0.5,
        extras=(),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("jitted", [True, False])
def test_n_step_transitions_equal_a_plain_loop(n, jitted):
    rng = np.random.default_rng(n)
    steps, batch = 7, 5
    rollout = random_rollout(rng, steps, batch)
    discount = rng.uniform(0.5, 1, (steps, batch)).astype(np.float32)
    join = partial(memory.n_step_transitions, n=n)
    arrays = jax.tree.map(jnp.asarray, rollout)
    joined = (jax.jit(join) if jitted else join)(arrays, jnp.asarray(discount))
    row = 0
    for t in range(steps):
        for b in range(batch):
            total, product, k = 0.0, 1.0, t
            while True:
                total += product * rollout.reward[k, b]
                product *= discount[k, b]
                ended = rollout.terminated[k, b] or rollout.truncated[k, b]
                if ended or k + 1 == steps or k + 1 == t + n:
                    break
                k += 1
            if rollout.terminated[k, b]:
                product = 0.0
            np.testing.assert_allclose(joined.reward[row], total, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(joined.discount[row], product, rtol=1e-5)
            np.testing.assert_array_equal(joined.observation[row], rollout.observation[t, b])
            np.testing.assert_array_equal(joined.action[row], rollout.action[t, b])
            np.testing.assert_array_equal(
                joined.next_observation[row], rollout.next_observation[k, b]
            )
            np.testing.assert_array_equal(joined.next_mask[row], rollout.next_mask[k, b])
            row += 1
