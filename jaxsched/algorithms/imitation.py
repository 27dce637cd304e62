"""Supervised learning of a teacher's choices.

The environment's observation is a :class:`~jaxsched.wrappers.teacher.Taught`:
what the policy observes and the teacher's action. One call of ``update`` is

    gradient_steps times:
        take batch_size decisions of the rollout, each as often as any other
        augment them
        one Adam step on the loss between the masked softmax and the teacher's choice

The student acts at ``student_share`` of the decisions, and the teacher labels the states it gets
into (DAgger: Ross et al., A Reduction of Imitation Learning and Structured Prediction to No-Regret
Online Learning, 2011).

Axes: ``T`` time, ``B`` batch, ``N`` decisions, ``A`` actions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms.settings import linear, traced, traced_values
from jaxsched.algorithms.softmax import (
    as_float32,
    best_legal,
    descend,
    flatten_time,
    has_choice,
    init_params,
    log_probabilities,
    minibatches,
    taken,
    weighted_mean,
)
from jaxsched.core.learner import Learner, Metrics
from jaxsched.core.sharding import split, whole
from jaxsched.options import Count, Share, check
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs
from jaxsched.wrappers.teacher import Taught

Augment = Callable[[PRNGKey, PyTree, Array, Array], tuple[PyTree, Array, Array]]

Loss = Literal["cross_entropy", "squared", "absolute"]


@dataclass(frozen=True)
class ImitationConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which the learning rate moves.
      gradient_steps: minibatches per call of ``update``.
      batch_size: decisions per minibatch.
      loss: ``"cross_entropy"``, or on the softmax output against the one-hot label ``"squared"``
        or ``"absolute"``, averaged over actions. Decisions with a single legal action, or whose
        label is illegal, carry no weight.
      learning_rate: of Adam, at the start.
      final_learning_rate: at the end; linear in between; constant if absent.
      student_share: probability that a decision is the student's (sampled), not the teacher's.
    """

    total_updates: Count
    gradient_steps: Count = 1
    batch_size: Count = 256
    loss: Loss = "cross_entropy"
    learning_rate: float = traced(5e-3)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    student_share: Share = traced(0.5)

    def __post_init__(self) -> None:
        """Check sizes and options."""
        check(self)


class ImitationState(NamedTuple):
    """The learner's state."""

    params: PyTree
    optimiser: optax.OptState
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``


def imitation(
    network: nn.Module, config: ImitationConfig, augment: Augment | None = None
) -> Learner:
    """A learner of a teacher's choices.

    Args:
      network: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``; it
        never sees the label. Floating-point observations reach it as float32.
      config: settings.
      augment: ``(key, observation, mask, label) -> (observation, mask, label)`` of one decision,
        applied afresh to each decision of each minibatch.

    Returns:
      The learner. Its ``act`` executes the label (or the student's action, see
      ``student_share``), or where ``greedy`` the student's best legal action; no extras.
    """
    optimiser = optax.scale_by_adam()

    def log_policy(params: PyTree, observation: PyTree, mask: Array) -> Array:
        logits = network.apply(params, jax.tree.map(as_float32, observation))
        return log_probabilities(cast(Array, logits), mask)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> ImitationState:
        if params is None:
            params = init_params(network, key, specs.observation.observation)
        moments = optimiser.init(params)
        return ImitationState(params, moments, traced_values(config), jnp.int32(0))

    def act(
        state: ImitationState, observation: Taught, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, tuple[()]]:
        label = observation.label.astype(jnp.int32)
        if not greedy and config.student_share == 0:
            return label, ()
        scores = log_policy(state.params, observation.observation, mask)
        if greedy:
            return best_legal(scores, mask), ()
        coin_key, student_key = jax.random.split(key)
        student = jax.random.categorical(student_key, scores).astype(jnp.int32)
        acts = jax.random.uniform(coin_key, label.shape, jnp.float32) < state.hyper.student_share
        return jnp.where(acts, student, label), ()

    def update(
        state: ImitationState, rollout: Rollout, key: PRNGKey
    ) -> tuple[ImitationState, Metrics]:
        decisions = whole(flatten_time((rollout.observation, rollout.mask)))
        draw_key, step_key = jax.random.split(key)
        index = minibatches(draw_key, rollout.reward.size, config.gradient_steps, config.batch_size)
        progress = state.updates / config.total_updates
        rate = linear(state.hyper.learning_rate, state.hyper.final_learning_rate, progress)

        def step(
            carry: tuple[PyTree, optax.OptState], drawn: tuple[Array, PRNGKey]
        ) -> tuple[tuple[PyTree, optax.OptState], Metrics]:
            params, adam = carry
            rows, key = drawn
            taught, mask = split(jax.tree.map(lambda x: x[rows], decisions))
            observation, label = taught.observation, taught.label.astype(jnp.int32)
            if augment is not None:
                keys = jax.random.split(key, config.batch_size)
                observation, mask, label = jax.vmap(augment)(keys, observation, mask, label)
            (_, metrics), gradient = jax.value_and_grad(loss_of, has_aux=True)(
                params, observation, mask, label
            )
            params, adam = descend(optimiser, params, adam, gradient, rate)
            return (params, adam), metrics

        keys = jax.random.split(step_key, config.gradient_steps)
        carry, metrics = jax.lax.scan(step, (state.params, state.optimiser), (index, keys))
        metrics = jax.tree.map(jnp.mean, metrics) | {"learning_rate": rate}
        return ImitationState(*carry, state.hyper, state.updates + 1), metrics

    def loss_of(
        params: PyTree, observation: PyTree, mask: Array, label: Array
    ) -> tuple[Array, Metrics]:
        scores = log_policy(params, observation, mask)
        legal = jnp.take_along_axis(mask, label[:, None], axis=-1)[:, 0]
        weight = (has_choice(mask) & legal).astype(jnp.float32)
        if config.loss == "cross_entropy":
            loss = -taken(scores, label)
        else:
            error = jnp.exp(scores) - jax.nn.one_hot(label, mask.shape[-1])
            size = error**2 if config.loss == "squared" else jnp.abs(error)
            loss = jnp.mean(size, axis=-1)
        mean_loss = weighted_mean(jnp.where(weight > 0, loss, 0.0), weight)
        agrees = (best_legal(scores, mask) == label).astype(jnp.float32)
        return mean_loss, {
            "loss": mean_loss,
            "agreement": weighted_mean(agrees, weight),
            "informative": jnp.mean(weight),
            "illegal_labels": jnp.mean(~legal, dtype=jnp.float32),
        }

    return Learner(init, act, update, policy_params=lambda state: state.params)
