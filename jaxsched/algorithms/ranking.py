"""A pairwise ranking loss for actions of which only the order counts, such as priorities.

Axes: ``U`` units of an agent, ``D`` numbers of a unit, ``R`` rows that are ordered on their own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.masked_map import map_chosen
from jaxsched.types import Array

CHUNK_PAIRS = 2**18
"""Pairs that are computed at once."""


class Pairs(NamedTuple):
    """How well an order is met, per step ``[..., 1]`` or per unit ``[..., U]``."""

    loss: Array  # float32, mean over pairs
    agreement: Array  # float32, share of the pairs in the right order
    active: Array  # bool, whether there is any pair


def ranking(found: Array, wanted: Array, active: Array, scale: float | Array = 1.0) -> Pairs:
    """Pairwise logistic loss (Burges et al., Learning to Rank Using Gradient Descent, 2005).

    Every pair whose wanted numbers differ pays ``log(1 + exp(-scale * d))``, with ``d`` how far
    the found numbers are apart in the wanted direction. Ties pay nothing. The time that it takes
    follows the number of rows with an active unit. Differentiable in ``found`` alone, once; the
    gradients of all else are zero.

    Args:
      found: float32 ``[..., U]``: pairs of active units; or ``[..., U, D]``: pairs of numbers of
        one unit. Units that are not active may hold anything.
      wanted: as ``found``.
      active: bool ``[..., U]``.
      scale: what differences are multiplied by.
    """
    if found.ndim == active.ndim:
        present, lead = active, (*active.shape[:-1], 1)
    else:
        present, lead = jnp.broadcast_to(active[..., None], found.shape), active.shape
    rows = (x.reshape(-1, found.shape[-1]) for x in (found, wanted, present))
    loss, agreement, count = _of_rows(*rows, jnp.float32(scale))
    return Pairs(loss.reshape(lead), agreement.reshape(lead), count.reshape(lead) > 0)


@jax.custom_vjp
def _of_rows(
    found: Array, wanted: Array, present: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Loss, agreement and number of pairs of each row, ``[R]``, from ``[R, D]``."""
    return _with_slope(found, wanted, present, scale)[0]


def _with_slope(
    found: Array, wanted: Array, present: Array, scale: Array
) -> tuple[tuple[Array, Array, Array], Array]:
    """The same, and the gradient of each row's loss, ``[R, D]``."""
    size, numbers = found.shape
    chunk = min(size, max(1, CHUNK_PAIRS // numbers**2))
    rows = tuple(jnp.where(present, x, 0.0) for x in (found, wanted)) + (present,)

    def compute(
        scale: Array, rows: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array, Array], Array]:
        found, wanted, present = rows

        def total(found: Array) -> tuple[Array, tuple[Array, Array, Array]]:
            values = _all_pairs(found, wanted, present, scale)
            return jnp.sum(values[0]), values

        slope, values = jax.grad(total, has_aux=True)(found)
        return values, slope

    results: tuple[tuple[Array, Array, Array], Array] = map_chosen(
        compute, scale, rows, jnp.any(present, axis=-1), chunk
    )
    return results


def _backward(
    slope: Array, cotangents: tuple[Array, Array, Array]
) -> tuple[Array, None, None, None]:
    return cotangents[0][:, None] * slope, None, None, None


_of_rows.defvjp(_with_slope, _backward)


def _all_pairs(
    found: Array, wanted: Array, present: Array, scale: Array
) -> tuple[Array, Array, Array]:
    above = wanted[..., :, None] > wanted[..., None, :]
    weight = (above & present[..., :, None] & present[..., None, :]).astype(jnp.float32)
    apart = found[..., :, None] - found[..., None, :]
    count = jnp.sum(weight, axis=(-2, -1))

    def mean(x: Array) -> Array:
        return jnp.sum(weight * x, axis=(-2, -1)) / jnp.maximum(count, 1.0)

    right = (apart > 0).astype(jnp.float32)
    return mean(jax.nn.softplus(-scale * apart)), mean(right), count
