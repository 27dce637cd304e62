"""The kernel of a GPU places what the loop over jobs places; here it is interpreted."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das.rules import placement
from jaxsched.envs.das.rules.placement import Demand, place_with_kernel


@pytest.mark.parametrize("batch, jobs, machines", [(32, 8, 8), (7, 5, 3)])
def test_jobs_are_placed_as_in_turn(batch, jobs, machines):
    """Also where blocks and machines have to be filled up, and where affinities tie."""
    draws = np.random.default_rng(0)

    def drawn(least, most, *shape):
        return jnp.asarray(draws.integers(least, most, shape), jnp.float32)

    free = tuple(drawn(0, 65, batch, machines) for _ in range(3))
    per_instance = (drawn(0, most, batch, jobs) for most in (5, 9, 9))
    demand = Demand(drawn(0, 9, batch, jobs), *per_instance)
    affinity = drawn(-5, 6, batch, jobs, machines) / 4
    expected = placement._place_each(free, demand, affinity)
    found = place_with_kernel(placement._place_one, free, demand, affinity, interpret=True)
    assert found.dtype == jnp.int8 and int(expected.sum()) > batch
    np.testing.assert_array_equal(found, expected)
