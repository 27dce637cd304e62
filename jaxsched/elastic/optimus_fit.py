"""Optimus' online performance model: relative least squares with coefficients from 0 on.

Seconds per epoch or iteration with ``w`` workers and ``p`` parameter servers are modelled as
``theta . x(w, p)``, ``x = (1/w, 1, w/p, w, p)`` (Peng et al., Optimus, section 3.2). All functions
work on any number of leading axes. Axes: ``C`` = 5 coefficients.
"""

from itertools import combinations
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.types import Array

RIDGE = 1e-9  # times the trace
BETTER_BY = 1e-12  # a later support must be
LEAST_SECONDS = 1e-6  # predictions are at least this


class Evidence(NamedTuple):
    """Sums over observations ``(w, p, t)``: all that the fit depends on, except a constant."""

    gram: Array  # float [..., C, C], sum of x x' / t^2
    moment: Array  # float [..., C], sum of x / t


def basis(w: Array, p: Array) -> Array:
    """``x(w, p)``, float ``[..., C]``; w and p are at least 1."""
    w, p = jnp.asarray(w, float), jnp.asarray(p, float)
    return jnp.stack([1.0 / w, jnp.ones_like(w), w / p, w, p], axis=-1)


def evidence(w: Array, p: Array, rate: Array) -> Evidence:
    """What single observations say: ``rate`` = 1 / seconds; leaves ``[..., C, C]``, ``[..., C]``.

    A rate of 0 counts as no observation.
    """
    scaled = basis(w, p) * rate[..., None]
    return Evidence(scaled[..., :, None] * scaled[..., None, :], scaled)


def predict(theta: Array, w: Array, p: Array) -> Array:
    """Modelled seconds, at least ``LEAST_SECONDS``; float ``[...]`` of theta ``[..., C]``."""
    x = basis(jnp.maximum(w, 1), jnp.maximum(p, 1))
    return jnp.maximum(jnp.sum(theta * x, axis=-1), LEAST_SECONDS)


def supports(size: int) -> tuple[tuple[int, ...], ...]:
    """All non-empty sets of ``size`` indices, by size, then in lexicographic order."""
    every = range(size)
    return tuple(s for count in range(1, size + 1) for s in combinations(every, count))


def fit(gram: Array, moment: Array) -> Array:
    """The ``theta >= 0`` that minimises ``theta' G theta - 2 h' theta``, exactly.

    For each support the normal equations, with a ridge of 1e-9 times the trace, are solved;
    solutions with a negative entry are discarded, and the best of the others wins (a later one if
    it is better by more than 1e-12).

    Args:
      gram: ``G``, float ``[..., C, C]``.
      moment: ``h``, float ``[..., C]``.

    Returns:
      float ``[..., C]``; zeros where no support has a solution.
    """
    size = gram.shape[-1]
    chosen = np.array([[i in s for i in range(size)] for s in supports(size)])  # [supports, C]
    # Columns of very different size are scaled to a unit diagonal, so that float32 suffices.
    diagonal = jnp.stack([gram[..., i, i] for i in range(size)], axis=-1)
    scale = jnp.where(diagonal > 0, 1.0 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    ridge = RIDGE * jnp.sum(diagonal, axis=-1, keepdims=True) * scale * scale
    normal = gram * scale[..., :, None] * scale[..., None, :]
    right = moment * scale
    both = chosen[:, :, None] & chosen[:, None, :]
    matrix = jnp.where(both, normal[..., None, :, :], 0.0)
    matrix += np.eye(size) * jnp.where(chosen, ridge[..., None, :], 1.0)[..., None, :]
    solution = _solve(matrix, jnp.where(chosen, right[..., None, :], 0.0))  # [..., supports, C]
    product = jnp.sum(normal[..., None, :, :] * solution[..., None, :], axis=-1)
    value = jnp.sum(solution * (product - 2.0 * right[..., None, :]), axis=-1)
    value = jnp.where(jnp.all(solution >= 0, axis=-1), value, jnp.inf)
    best, best_value = jnp.zeros_like(moment), jnp.full(value.shape[:-1], jnp.inf, value.dtype)
    for index in range(len(chosen)):
        better = value[..., index] < best_value - BETTER_BY
        best_value = jnp.where(better, value[..., index], best_value)
        best = jnp.where(better[..., None], solution[..., index, :], best)
    return best * scale


def _solve(matrix: Array, right: Array) -> Array:
    """Gaussian elimination, entry by entry (positive definite matrices need no pivots)."""
    size = right.shape[-1]
    a = [[matrix[..., i, j] for j in range(size)] for i in range(size)]
    b = [right[..., i] for i in range(size)]
    for i in range(size):
        for j in range(i + 1, size):
            factor = a[j][i] / a[i][i]
            for k in range(i + 1, size):
                a[j][k] = a[j][k] - factor * a[i][k]
            b[j] = b[j] - factor * b[i]
    for i in reversed(range(size)):
        for j in range(i + 1, size):
            b[i] = b[i] - a[i][j] * b[j]
        b[i] = b[i] / a[i][i]
    return jnp.stack(b, axis=-1)
