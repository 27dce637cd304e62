"""Reductions in rows against the usual ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.reductions import MOST_ROWS, least, over_rows


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape).astype(np.int32)


@pytest.mark.parametrize("shape", [(1, 8), (15, 8), (MOST_ROWS, 3), (MOST_ROWS + 1, 3)])
def test_least(shape):
    tables = jnp.asarray(drawn(5, *shape))
    found = jax.jit(jax.vmap(least))(tables)
    np.testing.assert_array_equal(found, np.min(tables, axis=(1, 2)))


@pytest.mark.parametrize(
    "combine, expected",
    [(jnp.maximum, np.max), (jnp.add, np.sum), (jnp.bitwise_or, np.bitwise_or.reduce)],
)
def test_over_rows(combine, expected):
    table = drawn(5, 4, 3) >> 4
    found = over_rows(combine, jnp.asarray(table))
    np.testing.assert_array_equal(found, expected(table, axis=0))
