"""The jobs that wait, by class, with the next one found in a few short vector operations.

A class holds jobs of equal size (and group). Every job has a fixed place; places of a class are
consecutive blocks. A place holds a value while its job waits, and every block its least value.
Axes: ``B`` blocks, ``W`` places per block, ``K`` classes.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.types import Array

NONE = jnp.iinfo(jnp.int32).max
"""The value of a place whose job does not wait."""


class Waiting(NamedTuple):
    """The table of waiting jobs.

    Attributes:
      values: int32 ``[B, W]``; ``NONE`` where no job waits.
      least: int32 ``[B]``, the least value of each block.
    """

    values: Array
    least: Array


class Found(NamedTuple):
    """One job of each class.

    Attributes:
      place: int32 ``[K]``, junk where there is none.
      exists: bool ``[K]``.
    """

    place: Array
    exists: Array


def nobody(num_blocks: int, width: int) -> Waiting:
    """A table in which no job waits."""
    return Waiting(
        jnp.full((num_blocks, width), NONE, jnp.int32), jnp.full((num_blocks,), NONE, jnp.int32)
    )


def put(waiting: Waiting, place: Array, value: Array) -> Waiting:
    """The table with another value at one place; ``NONE`` takes the job out."""
    width = waiting.values.shape[1]
    block = place // width
    row = jnp.where(jnp.arange(width) == place % width, value, waiting.values[block])
    return Waiting(waiting.values.at[block].set(row), waiting.least.at[block].set(jnp.min(row)))


def first_up_to(waiting: Waiting, block_class: Array, limit: Array) -> Found:
    """The first place of each class whose value does not exceed the class's limit.

    Args:
      waiting: the table.
      block_class: int32 ``[B]``; blocks of no class have a number from K on.
      limit: int32 ``[K]``, below ``NONE``.
    """
    num_blocks, width = waiting.values.shape
    of_class = block_class[None, :] == jnp.arange(limit.shape[0])[:, None]
    reached = of_class & (waiting.least[None, :] <= limit[:, None])
    blocks = jnp.arange(num_blocks, dtype=jnp.int32)
    block = jnp.min(jnp.where(reached, blocks, num_blocks), axis=1)
    rows = waiting.values[jnp.minimum(block, num_blocks - 1)]
    within = jnp.where(rows <= limit[:, None], jnp.arange(width, dtype=jnp.int32), width)
    return Found(block * width + jnp.min(within, axis=1), block < num_blocks)


def least_values(waiting: Waiting, block_class: Array, num_classes: int) -> Array:
    """The least value of each class, int32 ``[K]``; ``NONE`` where no job waits."""
    of_class = block_class[None, :] == jnp.arange(num_classes)[:, None]
    return jnp.min(jnp.where(of_class, waiting.least[None, :], NONE), axis=1)
