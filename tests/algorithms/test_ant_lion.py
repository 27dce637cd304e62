"""The ant lion optimiser finds known optima and never loses what it has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.ant_lion import ant_lion, shrink_ratio
from jaxsched.errors import JaxschedError

GOAL = jnp.array([0.5, -0.25, 1.0, 0.0])
CORNER = -jnp.ones(4)


def bowl(x):
    return jnp.sum((x - GOAL) ** 2)


def ripples(x):
    """Many local optima around the global one, at the goal."""
    return bowl(x) + jnp.sum(0.1 * (1 - jnp.cos(8 * jnp.pi * (x - GOAL))))


def needle(x):
    """All alike, except one point."""
    return jnp.where(jnp.all(x == 0.25), -1.0, 0.0)


def broken(x):
    """Not a number where the optimum would be."""
    return jnp.where(x[0] > 0.25, jnp.nan, bowl(x))


COSTS = (bowl, ripples, needle, broken)


@jax.jit
def search_all(start, number, keys):
    """Searches of three seeds; one program for all costs."""

    def cost(x):
        value = jax.lax.switch(number, COSTS, x)
        return value, jnp.stack([value, 2 * value])

    return jax.vmap(lambda key: ant_lion(key, start, cost, population=40))(keys)


KEYS = jax.random.split(jax.random.key(0), 3)


def search(cost, start=CORNER):
    return search_all(start, COSTS.index(cost), KEYS)


def test_a_known_optimum_is_found_under_vmap():
    found = search(bowl)
    np.testing.assert_allclose(found.candidate, np.tile(GOAL, (3, 1)), atol=0.02)
    np.testing.assert_array_equal(found.objectives, np.stack([found.cost, 2 * found.cost], -1))
    assert not np.array_equal(found.candidate[0], found.candidate[1])


def test_the_best_of_many_optima_is_found():
    found = search(ripples)
    # The next optima are a quarter of a unit away and cost about 0.06.
    assert np.all(found.cost < 0.2)
    np.testing.assert_allclose(found.candidate[np.argmin(found.cost)], GOAL, atol=0.02)


def test_the_start_is_kept_unless_something_is_better():
    found = search(needle, jnp.full(4, 0.25))
    np.testing.assert_array_equal(found.candidate, 0.25)
    np.testing.assert_array_equal(found.cost, -1)


def test_costs_that_are_no_numbers_never_win():
    found = search(broken)
    np.testing.assert_allclose(found.candidate[:, 0], 0.25, atol=0.02)
    assert np.all(np.isfinite(found.cost))


def test_without_iterations_the_first_elite_is_found():
    start = GOAL + 0.01
    found = ant_lion(KEYS[0], start, lambda x: (bowl(x), jnp.zeros(1)), iterations=0)
    np.testing.assert_array_equal(found.candidate, start)


def test_walks_shrink_in_steps():
    done = jnp.array([1, 10, 11, 50, 51, 75, 76, 90, 91, 95, 96, 100])
    expected = [1, 1, 11, 50, 510, 750, 7600, 9000, 91000, 95000, 960000, 1000000]
    np.testing.assert_allclose(shrink_ratio(done, 100), expected, rtol=1e-5)


def test_sizes_are_checked():
    for changes, words in (({"population": 1}, "population is 1"), ({"iterations": -1}, "is -1")):
        with pytest.raises(JaxschedError, match=words):
            ant_lion(KEYS[0], GOAL, lambda x: (bowl(x), jnp.zeros(1)), **changes)
