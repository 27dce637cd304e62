"""Annealing finds known optima, climbs as its rule says and remembers the best."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.annealing import anneal, dominates
from jaxsched.errors import JaxschedError

GOAL = jnp.array([3, 1, 4, 1, 5], jnp.int32)


def distance(candidate):
    apart = jnp.abs(candidate - GOAL).astype(jnp.float32)
    return jnp.sum(apart), apart


def one_entry(key, candidate):
    where, up = jax.random.split(key)
    change = jnp.where(jax.random.bernoulli(up), 1, -1)
    return candidate.at[jax.random.randint(where, (), 0, 5)].add(change)


@jax.jit
def descend(key):
    return anneal(
        key,
        jnp.zeros(5, jnp.int32),
        distance,
        one_entry,
        iterations=300,
        temperature=1.0,
        scale=5.0,
    )


def test_a_known_optimum_is_found_under_vmap():
    keys = jax.random.split(jax.random.key(0), 3)
    found = jax.jit(jax.vmap(descend))(keys)
    np.testing.assert_array_equal(found.candidate, np.tile(GOAL, (3, 1)))
    np.testing.assert_array_equal(found.cost, 0)
    np.testing.assert_array_equal(found.objectives, 0)
    assert found.candidate.dtype == jnp.int32
    alone = descend(keys[1])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1], b), found, alone)


def upwards(key, candidate):
    return candidate + 1


def climb(cost, **settings):
    """Anneal from 0, always proposing one more."""
    return anneal(jax.random.key(0), jnp.float32(0), cost, upwards, **settings)


def test_worse_candidates_are_accepted_by_temperature_alone():
    # The cost rises by one, then falls far: only who climbs finds the valley at 2.
    def valley(x):
        cost = jnp.where(x == 1, 1.0, jnp.where(x == 2, -5.0, 0.0))
        return cost, cost[None]

    hot = climb(valley, iterations=2, temperature=1e9, scale=1.0)
    assert (float(hot.candidate), float(hot.cost)) == (2, -5)
    cold = climb(valley, iterations=20, temperature=1e-3, scale=1.0)
    assert (float(cold.candidate), float(cold.cost)) == (0, 0)
    cooled = climb(valley, iterations=20, temperature=1e9, cooling=0.0, scale=1e12)
    assert float(cooled.cost) == 0


def test_probability_of_acceptance():
    # One step up by 1, then a prize: the share of seeds that get it is exp(-scale / temperature).
    def prize(x):
        cost = jnp.where(x == 2, -1.0, jnp.where(x == 1, 1.0, 0.0))
        return cost, cost[None]

    run = jax.jit(
        jax.vmap(
            lambda key: anneal(
                key, jnp.float32(0), prize, upwards, iterations=2, temperature=2.0, scale=1.0
            )
        )
    )
    won = np.mean(np.asarray(run(jax.random.split(jax.random.key(0), 4000)).cost) == -1)
    share = np.exp(-0.5)
    assert abs(won - share) < 4 * np.sqrt(share * (1 - share) / 4000)


def test_what_dominates_is_accepted_even_if_it_costs_more():
    # Objectives fall with x; the cost rises by one before it falls.
    def steps(x):
        return jnp.where(x == 1, 1.0, -x), jnp.stack([-x, 0 * x])

    found = climb(steps, iterations=3, temperature=1e-6)
    assert float(found.candidate) == 3
    assert bool(dominates(jnp.array([1.0, 2]), jnp.array([1.0, 2])))
    assert not bool(dominates(jnp.array([0.0, 3]), jnp.array([1.0, 2])))


def test_the_first_of_equals_and_numbers_only():
    def flat(x):
        return jnp.where(x == 0, 1.0, jnp.where(x == 3, jnp.nan, 0.0)), jnp.zeros(1)

    assert float(climb(flat, iterations=5).candidate) == 1
    assert float(climb(flat, iterations=0).cost) == 1
    with pytest.raises(JaxschedError, match="iterations is -1"):
        climb(flat, iterations=-1)
