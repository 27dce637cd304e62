"""Functions of windows, at a cost that follows how many of their positions are in use.

A window has room for many jobs and mostly holds a few. What is computed per position, or per pair
of positions, is left out behind a decision's last real position: decisions are taken together by a
few widths.

Axes: ``D`` decisions, ``N`` positions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.ops.masked_map import map_chosen
from jaxsched.types import Array, PyTree

NarrowFunction = Callable[[int, PyTree, PyTree], PyTree]
"""``(width, shared, decisions) -> results``, leaves ``[D, ...]`` and ``[D, width, ...]``.

Of the decisions' first ``width`` positions alone, as if there were no others.
"""

SPLIT_FROM = 16
"""Positions from which on decisions are taken by width; fewer are all computed."""

CHUNK_POSITIONS, CHUNKS = 512, 16
"""Positions that are computed at once, at least; and at most so many chunks of each width."""


def widths_of(num_positions: int) -> tuple[int, ...]:
    """The widths, ascending; the last one is the whole window."""
    if num_positions < SPLIT_FROM:
        return (num_positions,)
    return (num_positions // 8, num_positions // 2, num_positions)


def by_width(narrow: NarrowFunction, shared: PyTree, decisions: PyTree, real: Array) -> PyTree:
    """``narrow`` of many decisions; differentiable in ``shared`` alone.

    Args:
      narrow: see there; its results are finite where the first positions are real.
      shared: what all decisions share, such as weights.
      decisions: leaves ``[D, ...]``.
      real: bool ``[D, N]``.

    Returns:
      Leaves ``[D, N, ...]``; zero, or any number, in positions that are not real.
    """
    size, num_positions = real.shape
    needed = _needed(real)
    below, parts = 0, []
    for width in widths_of(num_positions):
        chunk = min(size, max(CHUNK_POSITIONS // width, -(-size // CHUNKS)))
        chosen = (needed > below) & (needed <= width)
        part = map_chosen(partial(narrow, width), shared, decisions, chosen, chunk)
        parts.append(jax.tree.map(partial(_padded, num_positions - width), part))
        below = width
    return jax.tree.map(lambda *x: sum(x), *parts)


def play_by_width(narrow: NarrowFunction, shared: PyTree, decision: PyTree, real: Array) -> PyTree:
    """``narrow`` of one decision, of the least width that holds its jobs.

    Vectorised over decisions it is :func:`by_width`, whatever else is vectorised around that.
    Vectorised over ``shared`` first, it is ``narrow`` of whole windows.

    Args:
      narrow: see there.
      shared: what does not differ between decisions.
      decision: leaves without the axis D.
      real: bool ``[N]``.

    Returns:
      Leaves ``[N, ...]``; zero, or any number, in positions that are not real.

    Raises:
      JaxschedError: it is differentiated.
    """
    num_positions = real.shape[0]
    widths = widths_of(num_positions)

    def unbatched(width: int, shared: PyTree, decision: PyTree) -> PyTree:
        found = narrow(width, shared, jax.tree.map(lambda x: x[None], decision))
        found = jax.tree.map(partial(_padded, num_positions - width), found)
        return jax.tree.map(lambda x: x[0], found)

    @jax.custom_batching.custom_vmap
    def run(shared: PyTree, decision: PyTree, real: Array) -> PyTree:
        wider = _needed(real) > jnp.array(widths[:-1], jnp.int32)
        branch = jnp.sum(wider, dtype=jnp.int32)
        return jax.lax.switch(branch, [partial(unbatched, w) for w in widths], shared, decision)

    @run.def_vmap
    def _(
        axis_size: int, batched: Any, shared: PyTree, decision: PyTree, real: Array
    ) -> tuple[PyTree, Any]:
        shared_in, *given_in = batched
        if any(jax.tree.leaves(shared_in)):
            axes = jax.tree.map(lambda known: 0 if known else None, (shared_in, given_in[0]))
            results = jax.vmap(partial(unbatched, num_positions), axes, axis_size=axis_size)(
                shared, decision
            )
        else:
            decision, real = jax.tree.map(
                lambda known, x: x if known else jnp.broadcast_to(x, (axis_size, *jnp.shape(x))),
                tuple(given_in),
                (decision, real),
            )
            results = by_width(narrow, shared, decision, real)
        return results, jax.tree.map(lambda _: True, results)

    result: PyTree = run(*jax.tree.map(_not_differentiated, (shared, decision)), real)
    return result


@jax.custom_jvp
def _not_differentiated(x: Array) -> Array:
    return x


@_not_differentiated.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise JaxschedError("play_by_width: a policy at play cannot be differentiated; its agents can")


def _needed(real: Array) -> Array:
    """Positions up to the last real one, int32 ``[...]`` of bool ``[..., N]``."""
    place = jnp.arange(1, real.shape[-1] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(real, place, 0), axis=-1)


def _padded(behind: int, x: Array) -> Array:
    """``[D, width, ...]`` with zeros in so many positions behind."""
    return jnp.pad(x, [(0, 0), (0, behind), *[(0, 0)] * (x.ndim - 2)])
