"""Counting the first numbers that are in a set, against plain counting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.bisection import count_from

MOST = (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33)


def counts(most):
    """For every end of the set and every start below it: start, end, what is counted."""
    pairs = np.array([(known, end) for end in range(most + 1) for known in range(end + 1)])

    def one(known, end):
        return count_from(known, most, lambda number: (number < end) & (number < most))

    known, end = pairs.T
    return known, end, jax.jit(jax.vmap(one))(jnp.int32(known), jnp.int32(end))


@pytest.mark.parametrize("most", MOST)
def test_every_set_and_start(most):
    _, end, got = counts(most)
    assert got.tolist() == end.tolist()


@pytest.mark.parametrize("most", [1, 6, 8, 1000])
def test_it_asks_for_numbers_in_range_only(most):
    """At most ``most``, of which the set may say anything that is not a lie: it is not in it."""
    asked = []

    def is_in(number):
        asked.append(int(number))
        return number < most

    assert int(count_from(jnp.int32(0), most, is_in)) == most
    assert set(asked) <= set(range(most + 1))
    assert len(asked) <= most.bit_length()


def test_the_start_is_not_looked_at():
    """Numbers below it are taken to be in the set."""
    lies = lambda number: (number >= 3) & (number < 6)  # noqa: E731
    assert int(count_from(jnp.int32(3), 10, lies)) == 6
    assert int(count_from(jnp.int32(6), 10, lies)) == 6


def test_sorted_values_with_repetitions():
    values = jnp.asarray(sorted(np.random.default_rng(0).integers(0, 40, 117)), jnp.int32)
    padded = jnp.append(values, 2**30)

    @jax.jit
    def count(limit):
        return count_from(jnp.int32(0), len(values), lambda number: padded[number] <= limit)

    for limit in range(-1, 42):
        assert count(limit) == np.searchsorted(values, limit, side="right")
