"""Reductions of small tables in an order that suits processors; results are the usual ones.

XLA's CPU compiler vectorises a reduction along the last axis alone, and combines the lanes at the
end of every row, which for rows of eight numbers is most of the work; over other axes it takes one
number at a time. Row after row, whole rows are combined at once, and lanes only at the end.
"""

from collections.abc import Callable
from functools import reduce

import jax.numpy as jnp

from jaxsched.types import Array

MOST_ROWS = 64
"""Every row is an operation of the program: of more rows ``least`` makes one reduction."""


def over_rows(combine: Callable[[Array, Array], Array], table: Array) -> Array:
    """All rows combined, first to last, ``[...]`` of ``[N, ...]``, N at least 1.

    Args:
      combine: two rows, entry by entry.
      table: a few rows.
    """
    return reduce(combine, (table[row] for row in range(table.shape[0])))


def least(table: Array) -> Array:
    """The least of all numbers, scalar of ``[N, M]``."""
    few = table.shape[0] <= MOST_ROWS
    return jnp.min(over_rows(jnp.minimum, table) if few else table)
