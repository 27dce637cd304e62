"""The random-walk Gaussian process over machines (specification, section 10.4).

Each position of the window has a graph over the machines at every decision. The kernel between two
graphs counts common walks; it is a Gram matrix of walk features, so the process is Bayesian linear
regression on those features and everything below happens in their few dimensions: with features
``f`` of the past and ``f*`` of now, weights ``w ~ N(0, I)`` and noise ``s2``,

    precision = I + f' f / s2,  weights = precision^-1 f' residual / s2,
    mean = prior mean + f* weights,  latent covariance = f* precision^-1 f*'.

Axes: ``...`` any batch axes (the last of them positions), ``N`` positions, ``M`` machines, ``e``
width of the embeddings, ``F`` features, ``m`` = M (kernel ``node``) or 1 (kernel ``graph``),
``k`` = M // m.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.types import Array, PRNGKey


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


Product = Literal["hadamard", "kronecker"]
Kernel = Literal["node", "graph"]
Basis = Literal["centred", "walk"]

SQRT5 = 5.0**0.5
LOG_TWO_PI = 1.8378770664093453

einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


@jax.custom_jvp
def matern52(squared: Array) -> Array:
    """Matern-5/2 of squared distances in units of the length scale, ``[...]``.

    Its derivative is taken in the squared distance, where it is smooth: -5/6 at 0.
    """
    r = SQRT5 * jnp.sqrt(squared)
    return (1 + r + 5 / 3 * squared) * jnp.exp(-r)


@matern52.defjvp
def _matern52_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (squared,), (tangent,) = primals, tangents
    r = SQRT5 * jnp.sqrt(squared)
    return matern52(squared), -5 / 6 * (1 + r) * jnp.exp(-r) * tangent


def squared_distances(jobs: Array, machines: Array, product: Product) -> Array:
    """Squared distances between machines' features as each position sees them.

    The features are products of a job's and a machine's embedding (section 10.3), by element
    (``hadamard``) or Kronecker's. The mean machine is taken off first, so that the squares that
    cancel are no larger than the largest distance; what may be rounding counts as 0, so equal
    machines stay equal.

    Args:
      jobs: ``[..., N, e]``.
      machines: ``[..., M, e]``.
      product: which product.

    Returns:
      ``[..., N, M, M]``, at least 0.
    """
    centred = machines - jnp.mean(machines, axis=-2, keepdims=True)
    if product == "kronecker":
        return jnp.sum(jobs**2, -1)[..., None, None] * _between_rows(centred)[..., None, :, :]
    return _between_rows(jobs[..., :, None, :] * centred[..., None, :, :])


def _between_rows(points: Array) -> Array:
    """Squared distances ``[..., M, M]`` between rows of ``[..., M, e]``."""
    products = einsum("...me,...ne->...mn", points, points)
    norms = jnp.sum(points**2, axis=-1)
    sizes = norms[..., :, None] + norms[..., None, :]
    squared = sizes - 2 * products
    rounding = 16 * jnp.finfo(squared.dtype).eps * sizes
    return jnp.where(squared <= rounding, 0.0, squared)


def machine_graph(jobs: Array, machines: Array, rho: Array, product: Product) -> Array:
    """The graphs over machines, ``[..., N, M, M]``: Matern-5/2 kernel over M, so of trace 1.

    Args:
      jobs: ``[..., N, e]``.
      machines: ``[..., M, e]``.
      rho: length scale, scalar.
      product: see :func:`squared_distances`.
    """
    squared = squared_distances(jobs, machines, product)
    return matern52(squared / rho**2) / machines.shape[-2]


def walk(graph: Array, values: Array) -> Array:
    """One step on the graphs ``[..., M, M]``: their product with ``values [..., M]``."""
    return einsum("...mn,...n->...m", graph, values)


def walk_features(graph: Array, beta: Array, length: int) -> Array:
    """``sqrt(beta^l / l!) P^l 1`` for l = 0..length, ``[..., M, F]`` of graphs ``[..., M, M]``.

    Their inner products are the kernel of section 10.4 up to ``beta^F e^beta / F!``.
    """
    first = jnp.ones_like(graph[..., 0])

    def step(values: Array, index: Array) -> tuple[Array, Array]:
        values = walk(graph, values) * jnp.sqrt(beta / index)
        return values, values

    return _collected(step, first, length)


def centred_features(graph: Array, beta: Array, length: int) -> Array:
    """Half as many features of the same kernel, ``[..., M, F]``; F = length // 2 + 1.

    The graphs' eigenvalues lie in 0..1; with ``x = (1 + u) / 2`` and ``y = (1 + v) / 2``

        exp(beta x y) = g(x) g(y) sum over l of (beta / 4)^l / l! u^l v^l,
        g(x) = exp(beta x / 2 - beta / 8),

    whose series converges much sooner than that of :func:`walk_features`: for beta <= 2 and equal
    ``length`` the errors are alike.

    Args:
      graph: ``[..., M, M]``.
      beta: scalar.
      length: of the longest walks; g's own series takes 3/4 of it.
    """
    ones = jnp.ones_like(graph[..., 0])

    def grow(carry: tuple[Array, Array], index: Array) -> tuple[tuple[Array, Array], None]:
        total, term = carry
        term = walk(graph, term) * (beta / (2 * index))
        return (total + term, term), None

    def step(values: Array, index: Array) -> tuple[Array, Array]:
        values = (2 * walk(graph, values) - values) * jnp.sqrt(beta / (4 * index))
        return values, values

    (total, _), _ = jax.lax.scan(grow, (ones, ones), jnp.arange(1, length - length // 4 + 1))
    return _collected(step, total * jnp.exp(-beta / 8), length // 2)


def _collected(
    step: Callable[[Array, Array], tuple[Array, Array]], first: Array, count: int
) -> Array:
    """``first`` and the results of ``count`` steps from there, on a new last axis."""
    _, rest = jax.lax.scan(step, first, jnp.arange(1, count + 1))
    return jnp.moveaxis(jnp.concatenate([first[None], rest]), 0, -1)


def kernel_features(graph: Array, beta: Array, length: int, basis: Basis, kernel: Kernel) -> Array:
    """Features ``[..., m, F]`` whose inner products are the kernel between graphs.

    Args:
      graph: ``[..., M, M]``.
      beta: scalar in (0, 2].
      length: of the longest walks.
      basis: :func:`centred_features` or :func:`walk_features`, the same kernel.
      kernel: per machine (``node``), or the mean over all pairs of machines (``graph``).
    """
    features = (centred_features if basis == "centred" else walk_features)(graph, beta, length)
    return features if kernel == "node" else jnp.mean(features, axis=-2, keepdims=True)


class Evidence(NamedTuple):
    """What decisions tell of the weights; sums of it over decisions are evidence again.

    Attributes:
      gram: ``[..., F, F]``, features times features, summed over ``m``.
      moment: ``[..., F, k]``, features times residuals, likewise.
    """

    gram: Array
    moment: Array


class Posterior(NamedTuple):
    """Weights given evidence.

    Attributes:
      weights: ``[..., F, k]``, their mean.
      precision: ``[..., F, F]``.
      inverse: ``[..., F, F]``, of the precision.
      log_det: ``[...]``, of the precision.
      noise: s2, scalar.
    """

    weights: Array
    precision: Array
    inverse: Array
    log_det: Array
    noise: Array


def evidence(features: Array, residual: Array) -> Evidence:
    """Evidence of single decisions.

    Args:
      features: ``[..., m, F]``; zero for positions that were empty.
      residual: ``[..., M]``, actions less the prior mean; finite.
    """
    parts = residual.reshape(*residual.shape[:-1], features.shape[-2], -1)
    return Evidence(gram(features), einsum("...mf,...mk->...fk", features, parts))


def gram(features: Array) -> Array:
    """Features times features summed over ``m``, ``[..., F, F]`` of ``[..., m, F]``."""
    return summed_products(features, features)


def posterior(seen: Evidence, noise: Array) -> Posterior:
    """The weights' distribution given the sum of all evidence; ``noise`` is s2."""
    precision = jnp.eye(seen.gram.shape[-1], dtype=seen.gram.dtype) + seen.gram / noise
    inverse, log_det = inverse_and_log_det(precision)
    weights = einsum("...fg,...gk->...fk", inverse, seen.moment / noise)
    return Posterior(weights, precision, inverse, log_det, noise)


def predict(given: Posterior, features: Array, prior_mean: Array) -> Array:
    """The predictive mean ``[..., M]`` for ``features [..., m, F]``."""
    shift = einsum("...mf,...fk->...mk", features, given.weights)
    return prior_mean + shift.reshape(prior_mean.shape)


def latent_covariance(given: Posterior, features: Array) -> Array:
    """Covariance without noise, ``[..., m, m]``; kernel ``graph``: the variance of each machine."""
    half = einsum("...mf,...fg->...mg", features, given.inverse)
    return einsum("...mg,...ng->...mn", half, features)


def sample(given: Posterior, features: Array, mean: Array, key: PRNGKey) -> Array:
    """Actions ``[..., M]`` drawn around ``mean [..., M]`` with the predictive covariance."""
    weights, noise = normals(key, mean.shape, features.shape[-1])
    return drawn(given, features, mean, weights, noise)


def normals(key: PRNGKey, shape: tuple[int, ...], num_features: int) -> tuple[Array, Array]:
    """Standard normal numbers of draws ``shape = [..., M]``: of the weights, of the noise.

    Returns:
      ``[..., F]`` and ``[..., M]``.
    """
    weight_key, noise_key = jax.random.split(key)
    weights = jax.random.normal(weight_key, (*shape[:-1], num_features), jnp.float32)
    return weights, jax.random.normal(noise_key, shape, jnp.float32)


def drawn(given: Posterior, features: Array, mean: Array, weights: Array, noise: Array) -> Array:
    """The action ``[..., M]`` that standard normal numbers stand for; the mean if all are 0.

    Args:
      given: the posterior.
      features: of now, ``[..., m, F]``.
      mean: predictive mean, ``[..., M]``.
      weights: ``[..., F]``; not read with the kernel ``graph``.
      noise: ``[..., M]``.
    """
    if features.shape[-2] != mean.shape[-1]:
        variance = given.noise + latent_covariance(given, features)[..., 0]
        return mean + jnp.sqrt(variance) * noise
    root, _ = inverse_root(given.precision)
    shift = einsum("...mf,...gf,...g->...m", features, root, weights)
    return mean + shift + jnp.sqrt(given.noise) * noise


def log_density(
    given: Posterior, features: Array, mean: Array, action: Array
) -> tuple[Array, Array]:
    """Log density and entropy of whole rows of actions.

    By the determinant lemma, and by Woodbury's identity as the least-squares problem it solves:
    ``min over w of |residual - f* w|^2 / s2 + w' precision w``, in which errors of w count squared
    and nothing cancels.

    Args:
      given: the posterior.
      features: of now, ``[..., m, F]``.
      mean: predictive mean, ``[..., M]``.
      action: ``[..., M]``.

    Returns:
      Two ``[...]``, in nats.
    """
    count, residual = mean.shape[-1], action - mean
    if features.shape[-2] != count:
        variance = given.noise + latent_covariance(given, features)[..., 0, 0]
        log_det = count * jnp.log(variance)
        distance = jnp.sum(residual**2, axis=-1) / variance
    else:
        inverse, after = inverse_and_log_det(given.precision + gram(features) / given.noise)
        pull = einsum("...mf,...m->...f", features, residual) / given.noise
        weights = einsum("...fg,...g->...f", inverse, pull)
        left = residual - einsum("...mf,...f->...m", features, weights)
        pulled = einsum("...fg,...g->...f", given.precision, weights)
        distance = jnp.sum(left**2, axis=-1) / given.noise + jnp.sum(weights * pulled, axis=-1)
        log_det = count * jnp.log(given.noise) + after - given.log_det
    log_prob = -0.5 * (distance + log_det + count * LOG_TWO_PI)
    return log_prob, 0.5 * (log_det + count * (1 + LOG_TWO_PI))
