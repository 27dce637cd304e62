"""Floats as whole numbers in the same order, compiled and not."""

import jax
import numpy as np
import pytest

from jaxsched.ops.ordered import ordered

ASCENDING = [-np.inf, -3e38, -1.5, -1e-30, 0.0, 1e-30, 1.0, 1.0000001, 3e38, np.inf]


@pytest.mark.parametrize("of", [ordered, jax.jit(ordered)])
def test_the_order_is_that_of_the_numbers(of):
    found = np.asarray(of(np.array(ASCENDING, np.float32))).astype(np.int64)
    assert (np.diff(found) > 0).all()
    assert np.iinfo(np.int32).min < found.min() and found.max() < np.iinfo(np.int32).max


@pytest.mark.parametrize("of", [ordered, jax.jit(ordered)])
def test_minus_zero_is_zero_and_nan_the_least(of):
    minus, zero, nan, least = np.asarray(of(np.array([-0.0, 0.0, np.nan, -np.inf], np.float32)))
    assert minus == zero and nan == least
