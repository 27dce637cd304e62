"""The window's rows: written out one by one, or, where they are many, as one block of arrays.

Of few rows each number is an array over the environments alone, which compilers vectorise. A
window of more than ``MOST_APART`` is a single block, whose numbers are arrays over its rows: the
program then stays as small as for one row. The rules (``dynamics.py``) are written once for both:
what concerns one row is the same, and what joins rows is here.

Axes: ``I`` rows.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.ops.batching import materialise, materialise_flags
from jaxsched.types import Array

MOST_APART = 32
FEW = 4  # rows that the closing of gaps writes out pair by pair


class Row(NamedTuple):
    """One workload of the window, or a block of them; int32 ``[]`` or ``[I]``, 0 where empty.

    ``job`` is its index in the table (the empty row's where there is none), ``left`` are remaining
    iterations, ``workers`` and ``servers`` the allocation of the current phase.
    """

    job: Array
    model: Array
    left: Array
    workers: Array
    servers: Array


def empty_rows(window: int, job: int) -> tuple[Row, ...]:
    """A window without workloads, whose rows say ``job``."""
    if window > MOST_APART:
        none = jnp.zeros(window, jnp.int32)
        return (Row(jnp.full(window, job, jnp.int32), none, none, none, none),)
    none = jnp.int32(0)
    return (Row(jnp.int32(job), none, none, none, none),) * window


def places(window: int) -> list[Any]:
    """Which place each row has, or the block's rows have."""
    if window > MOST_APART:
        return [np.arange(window, dtype=np.int32)]
    return list(range(window))


def exists(row: Row) -> Array:
    """Whether the row holds a workload (a finished one leaves at once)."""
    return row.left > 0


def can_train(row: Row) -> Array:
    """Whether its workload has a worker and a PS."""
    return (row.workers > 0) & (row.servers > 0)


def either(flags: list[Array]) -> Array:
    """Whether one of the flags of a row is set."""
    return reduce(jnp.logical_or, flags)


def any_of(flags: list[Array]) -> Array:
    """Whether one of the rows' flags is set, bool scalar."""
    found = either(flags)
    return jnp.any(found) if found.ndim else found


def count(flags: list[Array]) -> Array:
    """How many of the rows' flags are set, int32 scalar."""
    return summed(reduce(jnp.add, [flag.astype(jnp.int32) for flag in flags]))


def summed(number: Array) -> Array:
    """A row's number, or the sum of a block's; scalar."""
    return jnp.sum(number, dtype=number.dtype) if number.ndim else number


def column(numbers: list[Array]) -> Array:
    """One number of each row, ``[I]``."""
    return numbers[0] if numbers[0].ndim else jnp.stack(numbers)


def flat(numbers: list[list[Array]]) -> list[Array]:
    """Several numbers of each row, row after row: scalars, or one array ``[I * n]``."""
    if numbers[0][0].ndim:
        return [jnp.stack(numbers[0], axis=-1).reshape(-1)]
    return [number for row in numbers for number in row]


def joined(numbers: list[Array], last: Array) -> Array:
    """What :func:`flat` gives, and one more entry; one-dimensional."""
    if numbers[0].ndim:
        return jnp.append(numbers[0], last)
    return jnp.stack([*numbers, last])


def end_of(rows: tuple[Row, ...], place: int) -> Row:
    """The first (0) or the last (-1) row of the window, scalars."""
    row = rows[place]
    return Row(*(value[place] for value in row)) if row.job.ndim else row


def table_of(rows: tuple[Row, ...]) -> Array:
    """The window as one array, int32 ``[I, 5]``."""
    if rows[0].job.ndim:
        return jnp.stack(rows[0], axis=-1)
    return jnp.stack([jnp.stack(row) for row in rows])


def of_table(table: Array) -> tuple[Row, ...]:
    """The window of such an array."""
    if len(table) > MOST_APART:
        return (Row(*table.T),)
    return tuple(Row(*table[place]) for place in range(len(table)))


def shared(number: Array, num_rows: int) -> Array:
    """A number that every row reads, or a flag; where rows are many not computed anew for each."""
    if num_rows <= FEW:
        return number
    return materialise_flags(number)[0] if number.dtype == bool else materialise(number)
