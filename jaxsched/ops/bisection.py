"""How many of a sorted sequence come before a limit, where the sequence is only known by index."""

from collections.abc import Callable

import jax.numpy as jnp

from jaxsched.types import Array


def count_from(known: Array, most: int, is_in: Callable[[Array], Array]) -> Array:
    """How many of the numbers ``0, 1, ...`` are in a set that holds them up to some number.

    Args:
      known: int32 scalar; the numbers below it are in the set.
      most: static; numbers from it on are not.
      is_in: whether a number (int32 scalar, at most ``most``) is in the set, bool scalar.
    """
    found = known
    for power in reversed(range(most.bit_length())):
        further = found + (1 << power)
        found = jnp.where(is_in(jnp.minimum(further - 1, most)), further, found)
    return found
