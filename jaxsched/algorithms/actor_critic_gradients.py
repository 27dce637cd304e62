"""The gradient step of the actor-critic: one on the policy, one on the value.

Axes: ``C`` clusters, ``N`` decisions, ``A`` actions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.settings import linear
from jaxsched.algorithms.softmax import (
    Networks,
    descend_both,
    entropy,
    log_probabilities,
    taken,
    weighted_mean,
)
from jaxsched.core.learner import Metrics
from jaxsched.core.sharding import ENVS, num_parts, split
from jaxsched.types import Array, PRNGKey, PyTree

Explore = Callable[[PRNGKey, PyTree, Array, Array, Array], Array]
Credit = Callable[[PyTree, Array, PyTree], Array]
Kept = Callable[[PyTree], Array]


class Batch(NamedTuple):
    """Decisions with their targets, leaves ``[N, ...]``."""

    observation: PyTree
    mask: Array
    action: Array
    target: Array
    weight: Array
    scale: Any = None  # of the policy's advantages; None: 1
    scores: Any = ()  # log-probabilities stored with the decisions; or ()


class Learning(NamedTuple):
    """What one gradient step changes (replay: its priorities only)."""

    params: Networks
    optimiser: Networks
    priorities: Any  # Replay with no items, or None
    gradient_steps: Array


class Parts(NamedTuple):
    """What a learner is made of."""

    policy: nn.Module
    value: nn.Module
    config: ActorCriticConfig
    explore: Explore | None
    optimiser: optax.GradientTransformation
    credit: Credit | None = None
    kept: Kept | None = None

    def logits(self, params: PyTree, observation: PyTree) -> Array:
        """Float32 ``[N, A]``."""
        return cast(Array, self.policy.apply(params, observation))

    def values(self, params: PyTree, observation: PyTree) -> Array:
        """Float32 ``[N]``."""
        return cast(Array, self.value.apply(params, observation))


def learn_from(
    parts: Parts, updates: Array, hyper: Any, batch: Batch, baseline: Array, learning: Learning
) -> tuple[Learning, Array, Metrics]:
    """Average the clusters' gradients (leaves ``[C, N, ...]``) and apply them once.

    Returns:
      What was learnt, the advantages ``[C, N]`` and metrics.
    """
    progress = updates / parts.config.total_updates
    entropy_weight = linear(hyper.entropy_start, hyper.entropy_end, progress)
    batch = split(batch, 0 if batch.target.shape[0] % num_parts(ENVS) == 0 else 1)
    gradient, advantage, metrics = jax.vmap(
        lambda part: _gradients(parts, learning.params, part, entropy_weight, baseline)
    )(batch)
    gradient, metrics = jax.tree.map(lambda x: jnp.mean(x, axis=0), (gradient, metrics))
    rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
    value_rate = linear(hyper.value_learning_rate, hyper.final_value_learning_rate, progress)
    params, moments = descend_both(
        parts.optimiser, learning.params, learning.optimiser, gradient, (rate, value_rate)
    )
    metrics |= {
        "entropy_weight": entropy_weight,
        "learning_rate": rate,
        "gradient_norm": optax.global_norm(gradient.policy),
        "value_gradient_norm": optax.global_norm(gradient.value),
    }
    learning = learning._replace(
        params=params,
        optimiser=moments,
        gradient_steps=learning.gradient_steps + 1,
    )
    return learning, advantage, metrics


def _gradients(
    parts: Parts, params: Networks, batch: Batch, entropy_weight: Array, baseline: Array
) -> tuple[Networks, Array, Metrics]:
    """Gradients of one cluster, and advantages ``[N]``."""
    known = (batch.weight > 0).astype(jnp.float32)

    def average_of(x: Array) -> Array:
        return jnp.sum(batch.weight * x) / jnp.maximum(jnp.sum(known), 1.0)

    def value_loss_of(value_params: PyTree) -> tuple[Array, Array]:
        predicted = parts.values(value_params, batch.observation)
        return average_of((batch.target - predicted) ** 2), predicted

    if parts.config.baseline == "value":
        (value_loss, predicted), value_gradient = jax.value_and_grad(value_loss_of, has_aux=True)(
            params.value
        )
    else:
        value_loss, predicted = jnp.float32(0), jnp.broadcast_to(baseline, known.shape)
        value_gradient = jax.tree.map(jnp.zeros_like, params.value)
    advantage = batch.target - predicted
    scaled = advantage
    if parts.config.normalise_advantages:
        centred = advantage - weighted_mean(advantage, known)
        scaled = centred / (jnp.sqrt(weighted_mean(centred**2, known)) + 1e-8)

    if batch.scale is not None:
        scaled *= batch.scale

    def gains(logits: Array) -> tuple[Array, Array]:
        scores = log_probabilities(logits, batch.mask)
        spread = entropy(scores)
        share = spread / scores.shape[-1] if parts.config.entropy_per_action else spread
        return taken(scores, batch.action) * scaled + entropy_weight * share, spread

    def policy_loss_of(policy_params: PyTree) -> tuple[Array, Array]:
        logits = parts.logits(policy_params, batch.observation)
        gain, spread = gains(logits)
        if parts.config.stores_scores:
            pull = jax.grad(lambda stored: jnp.sum(gains(stored)[0]))(batch.scores)
            gain = jnp.sum(pull * logits, axis=-1)
        return average_of(-gain), weighted_mean(spread, known)

    (policy_loss, spread), policy_gradient = jax.value_and_grad(policy_loss_of, has_aux=True)(
        params.policy
    )
    metrics = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": spread,
        "value_mean": weighted_mean(predicted, known),
        "target_mean": weighted_mean(batch.target, known),
        "advantage_abs": weighted_mean(jnp.abs(advantage), known),
    }
    return Networks(policy_gradient, value_gradient), advantage, metrics
