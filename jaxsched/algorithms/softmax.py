"""What learners of softmax policies share: masked probabilities, minibatches, Adam steps.

Axes: ``T`` time, ``B`` batch, ``N`` decisions, ``A`` actions.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.types import Array, PRNGKey, PyTree

ILLEGAL = -1e9  # logit of an infeasible action


class Networks(NamedTuple):
    """One entry per network of an actor-critic: parameters, gradients or optimiser states."""

    policy: PyTree
    value: PyTree


def init_params(network: nn.Module, key: PRNGKey, observation_spec: PyTree) -> PyTree:
    """Parameters drawn for a batch of one observation of the given specs."""
    zeros = jax.tree.map(lambda spec: as_float32(spec.zeros()[None]), observation_spec)
    return network.init(key, zeros)


def log_probabilities(logits: Array, mask: Array) -> Array:
    """Log-softmax over the legal actions, about -1e9 at the others; ``[..., A]``."""
    return jax.nn.log_softmax(jnp.where(mask, logits, ILLEGAL), axis=-1)


def best_legal(values: Array, mask: Array) -> Array:
    """The legal action of largest value, int32 ``[B]`` from ``[B, A]``."""
    return jnp.argmax(jnp.where(mask, values, -jnp.inf), axis=-1).astype(jnp.int32)


def any_legal(key: PRNGKey, mask: Array) -> Array:
    """A legal action per row, each with the same probability, int32 ``[B]`` from ``[B, A]``."""
    return jax.random.categorical(key, jnp.where(mask, jnp.float32(0), -jnp.inf)).astype(jnp.int32)


def taken(scores: Array, action: Array) -> Array:
    """The score of the action of each row, ``[...]`` from ``[..., A]`` and int ``[...]``."""
    return jnp.take_along_axis(scores, action[..., None], axis=-1)[..., 0]


def entropy(log_probability: Array) -> Array:
    """Entropy in nats, ``[...]`` from the log-probabilities ``[..., A]``."""
    probability = jnp.exp(log_probability)
    return -jnp.sum(jnp.where(probability > 0, probability * log_probability, 0.0), axis=-1)


def has_choice(mask: Array) -> Array:
    """Rows with more than one legal action; others have no gradient; bool ``[...]``."""
    return jnp.sum(mask, axis=-1) > 1


def weighted_mean(x: Array, weight: Array) -> Array:
    """Mean of ``x`` under weights of the same shape; 0 where all weights are 0."""
    total = jnp.sum(weight)
    return jnp.sum(x * weight) / jnp.where(total > 0, total, 1.0)


def flatten_time(tree: PyTree) -> PyTree:
    """Leaves ``[T, B, ...]`` as ``[T * B, ...]``, time-major."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def minibatches(key: PRNGKey, num_rows: int, num_batches: int, size: int) -> Array:
    """Rows of random minibatches, int32 ``[num_batches, size]``.

    Permutations one after the other, cut to length: no row comes up twice before every row came
    up once.
    """
    passes = -(-num_batches * size // num_rows)
    orders = jax.vmap(lambda k: jax.random.permutation(k, num_rows))(jax.random.split(key, passes))
    return orders.reshape(-1)[: num_batches * size].reshape(num_batches, size)


def descend(
    optimiser: optax.GradientTransformation,
    params: PyTree,
    state: optax.OptState,
    gradient: PyTree,
    rate: Array,
) -> tuple[PyTree, optax.OptState]:
    """One step of a traced learning rate along the optimiser's direction.

    Not ``optax.inject_hyperparams``: bits, program and time of 1,000 steps are the same (vmapped
    over rates too), but the rate would stand a second time in the optimiser's state, to be set at
    each step and stored in checkpoints, where those of before would not fit.
    """
    direction, state = optimiser.update(gradient, state)
    return jax.tree.map(lambda p, d: p - rate * d, params, direction), state


def descend_both(
    optimiser: optax.GradientTransformation,
    params: Networks,
    states: Networks,
    gradients: Networks,
    rates: tuple[Array, Array],
) -> tuple[Networks, Networks]:
    """:func:`descend` on policy and value, each by its own rate; parameters and states."""
    stepped = [
        descend(optimiser, *parts) for parts in zip(params, states, gradients, rates, strict=True)
    ]
    return Networks(*(p for p, _ in stepped)), Networks(*(s for _, s in stepped))


def clipped_adam(max_gradient_norm: float | None) -> optax.GradientTransformation:
    """Adam's direction, of gradients clipped to a global norm if one is given."""
    if max_gradient_norm is None:
        return optax.scale_by_adam()
    return optax.chain(optax.clip_by_global_norm(max_gradient_norm), optax.scale_by_adam())


def as_float32(x: Array) -> Array:
    """Floating-point arrays as float32, others as they are."""
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
