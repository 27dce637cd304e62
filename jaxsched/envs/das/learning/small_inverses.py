"""Inverses of many small positive definite matrices at once, and their derivative.

Axes: ``...`` any batch axes, ``F`` rows and columns.
"""

import jax
import jax.numpy as jnp

from jaxsched.types import Array


def summed_products(first: Array, second: Array) -> Array:
    """``first' second``, ``[..., F, G]`` of ``[..., m, F]`` and ``[..., m, G]``.

    Written out: on CPUs a library's product of thousands of tiny matrices takes several times as
    long.
    """
    return jnp.sum(first[..., :, :, None] * second[..., :, None, :], axis=-3)


@jax.custom_vjp
def inverse_and_log_det(matrix: Array) -> tuple[Array, Array]:
    """Inverse ``[..., F, F]`` and log determinant ``[...]`` of positive definite matrices."""
    root, log_det = inverse_root(matrix)
    return summed_products(root, root), log_det


def inverse_root(matrix: Array) -> tuple[Array, Array]:
    """Inverse of the lower Cholesky factor ``[..., F, F]``, and the logarithm of the determinant.

    By elimination, one pivot after the other over all matrices at once: for many small matrices
    this is as fast as a library's factorisation, and it is plain XLA. (A library's, called on
    hundreds of matrices inside a training loop, never came back on CPUs with jax 0.10.)
    """
    size = matrix.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), matrix.shape)
    both = jnp.concatenate([matrix, identity], axis=-1)
    rows = jnp.arange(size)

    def eliminate(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        both, log_det = carry
        row = jax.lax.dynamic_index_in_dim(both, k, -2, keepdims=True)
        pivot = jax.lax.dynamic_index_in_dim(row, k, -1, keepdims=True)
        row = row * jax.lax.rsqrt(pivot)
        column = jax.lax.dynamic_index_in_dim(both, k, -1, keepdims=True) * jax.lax.rsqrt(pivot)
        below = (rows > k)[:, None]
        both = jnp.where(below, both - column * row, jnp.where((rows == k)[:, None], row, both))
        return both, log_det + jnp.log(pivot[..., 0, 0])

    start = (both, jnp.zeros(matrix.shape[:-2], matrix.dtype))
    both, log_det = jax.lax.fori_loop(0, size, eliminate, start)
    return both[..., size:], log_det


def _inverse_forward(matrix: Array) -> tuple[tuple[Array, Array], Array]:
    inverse, log_det = inverse_and_log_det(matrix)
    return (inverse, log_det), inverse


def _inverse_backward(inverse: Array, cotangents: tuple[Array, Array]) -> tuple[Array]:
    by_inverse, by_log_det = cotangents
    pulled = summed_products(summed_products(by_inverse, inverse), inverse)
    return (by_log_det[..., None, None] * inverse - pulled,)


inverse_and_log_det.defvjp(_inverse_forward, _inverse_backward)
