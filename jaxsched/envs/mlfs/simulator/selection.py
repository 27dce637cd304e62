"""The first of some numbered things by a value, ties broken by a key."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsched.types import Array

LATE = 2**31 - 1


def first_least(among: Any, value: Any, key: Any = None) -> Array:
    """Index of the least (value, key) among some, int32 scalar; 0 if there are none.

    Args:
      among: bool ``[N]``.
      value: int32 ``[N]``.
      key: int32 ``[N]``, different for each; the index if absent.
    """
    index = np.arange(among.shape[0], dtype=np.int32)
    tied = among & (value == jnp.min(jnp.where(among, value, LATE)))
    if key is None:
        return jnp.min(jnp.where(tied, index, LATE)) * jnp.any(tied)
    first = tied & (key == jnp.min(jnp.where(tied, key, LATE)))
    return jnp.sum(jnp.where(first, index, 0), dtype=jnp.int32)
