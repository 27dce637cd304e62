"""The jobs that wait, in one order, where the number of free GPUs alone says who fits.

Every job has a fixed place in the order. A place holds the job's run time while it waits, and every
block of places its least run time and its fewest GPUs. Axes: ``B`` blocks, ``W`` places per block.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array


class Line(NamedTuple):
    """The table of waiting jobs, int32.

    Attributes:
      values: ``[B, W]``, run times; ``NONE`` where no job waits.
      least: ``[B]``, the least of each block.
      fewest: ``[B]``, the fewest GPUs of a waiting job; ``NONE`` where there is none.
    """

    values: Array
    least: Array
    fewest: Array


def nobody(num_blocks: int, width: int) -> Line:
    """A table in which no job waits."""
    none = jnp.full((num_blocks,), NONE, jnp.int32)
    return Line(jnp.full((num_blocks, width), NONE, jnp.int32), none, none)


def put(line: Line, gpus_at: Array, place: Array, value: Array) -> Line:
    """The table with another value at one place; ``NONE`` takes the job out.

    Args:
      line: the table.
      gpus_at: int32 ``[B, W]``, GPUs of the job of each place.
      place: int32 scalar.
      value: int32 scalar.
    """
    width = line.values.shape[1]
    block = place // width
    row = jnp.where(jnp.arange(width) == place % width, value, line.values[block])
    fewest = jnp.min(jnp.where(row < NONE, gpus_at[block], NONE))
    return Line(
        line.values.at[block].set(row),
        line.least.at[block].set(jnp.min(row)),
        line.fewest.at[block].set(fewest),
    )


def first(line: Line, gpus_at: Array, most: Array) -> tuple[Array, Array]:
    """The place of the first who waits for at most so many GPUs, and whether there is one."""
    width = line.values.shape[1]
    reached = line.fewest <= most
    block = jnp.argmax(reached)
    suits = (line.values[block] < NONE) & (gpus_at[block] <= most)
    return (block * width + jnp.argmax(suits)).astype(jnp.int32), reached[block]


def first_beside(
    line: Line, gpus_at: Array, room: Array, spare: Array, short: Array
) -> tuple[Array, Array]:
    """The place of the first who fits and does no harm, and whether there is one.

    Args:
      line: the table.
      gpus_at: int32 ``[B, W]``, GPUs of the job of each place.
      room: int32 scalar, a job fits with so many GPUs.
      spare: with so many it does no harm.
      short: nor with such a run time.
    """
    num_blocks, width = line.values.shape
    few = jnp.minimum(room, spare)
    may = (line.fewest <= few) | ((line.fewest <= room) & (line.least <= short))
    blocks = jnp.arange(num_blocks, dtype=jnp.int32)

    def next_block(after: Array) -> Array:
        return jnp.min(jnp.where(may & (blocks > after), blocks, num_blocks))

    def suits(block: Array) -> Array:
        values, gpus = line.values[block], gpus_at[block]
        return (values < NONE) & ((gpus <= few) | ((gpus <= room) & (values <= short)))

    def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        block = carry[0]
        found = suits(block)
        place = jnp.min(jnp.where(found, jnp.arange(width, dtype=jnp.int32), width))
        none = place == width
        return jnp.where(none, next_block(block), block), jnp.where(none, -1, place)

    block, place = jax.lax.while_loop(
        lambda carry: (carry[0] < num_blocks) & (carry[1] < 0),
        look,
        (next_block(jnp.int32(-1)), jnp.int32(-1)),
    )
    return block * width + place, place >= 0
