"""Placement of DAS's decisions: a batch gives what single decisions do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das.learn.agents import rank_by_comparison
from jaxsched.envs.das.rules.machines import ceil_quotient
from jaxsched.envs.das.rules.placement import HEAD, Demand, place_in_order, rank_of

PLACES, MACHINES = 12, 5


@pytest.mark.parametrize("batch", [1, 3, 40])
def test_a_batch_places_as_single_decisions_do(batch):
    rng = np.random.default_rng(batch)
    amounts = [rng.integers(0, most + 1, (batch, MACHINES)) for most in (8, 96, 384)]
    free = tuple(jnp.asarray(amount, jnp.float32) for amount in amounts)
    asked = [rng.integers(least, most, (batch, PLACES)) for least, most in
             ((1, 4), (1, 3), (0, 9), (0, 30))]  # fmt: skip
    demand = Demand(*(jnp.asarray(values, jnp.float32) for values in asked))
    affinity = jnp.asarray(rng.integers(0, 3, (batch, PLACES, MACHINES)), jnp.float32)
    number = jnp.asarray(rng.integers(0, PLACES + 1, batch))
    inputs = free, demand, affinity, number
    together = np.asarray(jax.jit(jax.vmap(place_in_order))(*inputs))
    alone = jax.jit(place_in_order)
    for lane in range(batch):
        one = jax.tree.map(lambda x, lane=lane: x[lane], inputs)
        np.testing.assert_array_equal(together[lane], alone(*one))
        assert not together[lane][int(number[lane]) :].any()
    if batch == 40:
        assert together[:, HEAD:].any()


def test_quotients_are_exact():
    rng = np.random.default_rng(0)
    speed = rng.integers(2, 101, 20000)
    left = np.concatenate([rng.integers(1, 1_677_721_500, 10000), speed[10000:] * 987_654])
    found = ceil_quotient(jnp.asarray(left), jnp.asarray(speed), jnp.asarray(speed, jnp.float32))
    np.testing.assert_array_equal(found, -(-left // speed))


def test_ranks_by_comparison_are_the_ranks():
    rng = np.random.default_rng(1)
    some = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -2.5, 1.0], np.float32)
    priority = jnp.asarray(some[rng.integers(0, len(some), (200, PLACES))])
    member = jnp.asarray(rng.random((200, PLACES)) < 0.7).at[0].set(False)
    expected = np.asarray(jax.vmap(rank_of)(priority, member))
    np.testing.assert_array_equal(jax.vmap(rank_by_comparison)(priority, member), expected)
    np.testing.assert_array_equal(np.sort(expected), np.tile(np.arange(PLACES), (200, 1)))
