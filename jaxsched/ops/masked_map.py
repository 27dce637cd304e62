"""A function over those rows of a batch that need it, at a cost that follows how many do.

Axes: ``D`` rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.ops.batching import max_across_batch
from jaxsched.types import Array, PyTree

RowFunction = Callable[[PyTree, PyTree], PyTree]


@partial(jax.custom_vjp, nondiff_argnums=(0, 4))
def map_chosen(
    function: RowFunction, shared: PyTree, rows: PyTree, chosen: Array, chunk: int
) -> PyTree:
    """``function(shared, rows)`` in the chosen rows, zeros in all others.

    Chosen rows are taken together, ``chunk`` of them at a time, so the time that it takes follows
    their number, and what a chunk needs can stay in a cache. It can be vectorised, and
    differentiated in reverse, not in forward mode, with respect to ``shared`` (of floats; gradients
    of ``rows`` are zero by definition: pass what is learnt as ``shared``). For the gradient every
    chunk is computed once more.

    Args:
      function: of the shared arrays and rows of leaves ``[chunk, ...]``, row by row; it gives
        floats, finite ones for rows of zeros.
      shared: what all rows share, such as weights.
      rows: leaves ``[D, ...]``.
      chosen: bool ``[D]``.
      chunk: rows computed at once, 1 to D.

    Returns:
      Leaves ``[D, ...]``.
    """
    order, trips = _order(chosen, chunk)
    size = chosen.shape[0]
    shapes = jax.eval_shape(function, shared, jax.tree.map(lambda x: x[:chunk], rows))
    empty = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), shapes)

    def body(index: Array, results: PyTree) -> PyTree:
        at = jax.lax.dynamic_slice_in_dim(order, index * chunk, chunk)
        found = function(shared, _taken(rows, at, order))
        return jax.tree.map(lambda old, new: old.at[at].set(new, mode="drop"), results, found)

    return jax.lax.fori_loop(0, trips, body, empty)


def _forward(
    function: RowFunction, shared: PyTree, rows: PyTree, chosen: Array, chunk: int
) -> tuple[PyTree, tuple[PyTree, PyTree, Array]]:
    return map_chosen(function, shared, rows, chosen, chunk), (shared, rows, chosen)


def _backward(
    function: RowFunction, chunk: int, kept: tuple[PyTree, PyTree, Array], cotangent: PyTree
) -> tuple[PyTree, None, None]:
    shared, rows, chosen = kept
    order, trips = _order(chosen, chunk)

    def body(index: Array, total: PyTree) -> PyTree:
        at = jax.lax.dynamic_slice_in_dim(order, index * chunk, chunk)
        part = _taken(rows, at, order)
        _, pull = jax.vjp(lambda x: function(x, part), shared)
        (gradient,) = pull(jax.tree.map(partial(_at_or_zero, at), cotangent))
        return jax.tree.map(jnp.add, total, gradient)

    return jax.lax.fori_loop(0, trips, body, jax.tree.map(jnp.zeros_like, shared)), None, None


map_chosen.defvjp(_forward, _backward)


def _order(chosen: Array, chunk: int) -> tuple[Array, Array]:
    """Indices of the chosen rows, then D as often as chunks need; and the number of chunks.

    That is common to all copies: a loop that ends at different times in different copies would
    carry every copy's results along at each of its rounds.
    """
    size = chosen.shape[0]
    order = jnp.nonzero(chosen, size=size + chunk, fill_value=size)[0]
    return order, max_across_batch(-(-jnp.sum(chosen) // chunk))


def _at_or_zero(at: Array, values: Array) -> Array:
    """The rows ``at``; zeros for indices beyond the last one."""
    return values.at[at].get(mode="fill", fill_value=0)


def _taken(rows: PyTree, at: Array, order: Array) -> Any:
    """The rows ``at``; for indices beyond the last the first chosen one, zeros if there is none."""

    def take(x: Array) -> Array:
        size, first = x.shape[0], order[0]
        taken = x[jnp.where(at < size, at, jnp.minimum(first, size - 1))]
        return jnp.where(first < size, taken, jnp.zeros_like(taken))

    return jax.tree.map(take, rows)
