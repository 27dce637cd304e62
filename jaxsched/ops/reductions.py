"""Reductions of small tables in an order that processors like; results are the usual ones.

XLA's CPU compiler vectorises a reduction along the last axis alone, and adds up its lanes at the
end of each row: for rows of eight numbers that is most of the work. Over axes before the last one
it takes number by number. Row after row, whole rows are taken at once.
"""

from collections.abc import Callable
from functools import reduce

import jax.numpy as jnp

from jaxsched.types import Array

MOST_ROWS = 64
"""Tables of more rows are reduced as XLA does it, for the sake of the program's size."""


def over_rows(combine: Callable[[Array, Array], Array], table: Array) -> Array:
    """The rows combined one after the other, ``[...]`` of ``[N, ...]``.

    Args:
      combine: of two rows, entry by entry.
      table: its first axis is static and not empty.
    """
    return reduce(combine, (table[row] for row in range(table.shape[0])))


def held(numbers: Array) -> Array:
    """Numbers themselves, computed once: a quotient, as XLA does not repeat divisions.

    Args:
      numbers: int32, from 0 to 2**24.
    """
    one = jnp.where(numbers < 0, 2.0, 1.0)
    return (numbers.astype(jnp.float32) / one).astype(jnp.int32)
