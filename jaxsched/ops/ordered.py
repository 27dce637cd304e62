"""Floats as whole numbers, for ranks and comparisons that should be exact."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.types import Array

LARGEST = np.int32(2**31 - 1)


def ordered(value: Array) -> Array:
    """Numbers as int32 in the same order as their float32; neither the least nor the largest int32.

    NaN counts as minus infinity, and minus zero as zero: that by a choice, since compilers leave
    out the addition of zero.
    """
    value = jnp.where(jnp.isnan(value), -jnp.inf, value).astype(jnp.float32)
    value = jnp.where(value == 0, 0.0, value)
    bits = jax.lax.bitcast_convert_type(value, jnp.int32)
    return bits ^ ((bits >> 31) & LARGEST)
