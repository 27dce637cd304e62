"""Proximal policy optimisation with a clipped objective (Schulman et al., 2017).

One call of ``update`` is

    targets = lambda returns of the rollout, advantages = targets - values
    epochs times, for each of num_minibatches parts of a fresh permutation of the rollout:
        ratio = pi(action) / pi_old(action)
        policy: one Adam step on -min(ratio * A, clip(ratio, 1 +- clip) * A) - entropy_weight * H
        value: one Adam step on (target - value(observation)) ** 2

Decisions taken at one instant form a group (:mod:`jaxsched.algorithms.returns`): no discount acts
inside it, and a lambda of its own.

Axes: ``T`` time, ``B`` batch of environments, ``N`` decisions, ``A`` actions.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms import returns
from jaxsched.algorithms.dqn import best_legal, linear
from jaxsched.algorithms.softmax import (
    Networks,
    check_positive,
    clipped_adam,
    descend_both,
    entropy,
    flatten_time,
    init_params,
    log_probabilities,
    minibatches,
    taken,
)
from jaxsched.errors import JaxschedError
from jaxsched.learner import Learner, Metrics
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs


@dataclass(frozen=True)
class PPOConfig:
    """Settings; the integers and options are static, the floats become a traced ``Hyper``.

    Attributes:
      total_updates: calls of ``update`` over which learning rates and entropy weight move.
      epochs: passes over the rollout per call of ``update``.
      num_minibatches: equal parts of the rollout, one gradient step each.
      normalise_advantages: to mean 0 and deviation 1 in each minibatch.
      clip_value: limit the change of values by ``clip`` as that of ratios (the larger of both
        errors counts).
      max_gradient_norm: global norm to which each network's gradient is clipped, if given.
      learning_rate: of Adam on the policy, at the start.
      final_learning_rate: at the end; linear in between.
      value_learning_rate: of Adam on the value; as ``learning_rate`` if absent.
      final_value_learning_rate: at the end; as ``final_learning_rate`` if absent.
      gamma: discount per group; unused where ``horizon_s`` is given.
      horizon_s: discount by time, ``exp(-elapsed / horizon_s)`` per step.
      lambda_: weight of later groups in the targets.
      step_lambda: weight of later decisions of the same group.
      clip: largest change of a probability ratio that is rewarded.
      entropy_start: weight of the entropy, at the start.
      entropy_end: at the end; linear in between.
      reward_scale: rewards are multiplied by it.
    """

    total_updates: int
    epochs: int = 4
    num_minibatches: int = 4
    normalise_advantages: bool = True
    clip_value: bool = False
    max_gradient_norm: float | None = 0.5
    learning_rate: float = 3e-4
    final_learning_rate: float = 0.0
    value_learning_rate: float | None = None
    final_value_learning_rate: float | None = None
    gamma: float = 0.99
    horizon_s: float | None = None
    lambda_: float = 0.95
    step_lambda: float = 1.0
    clip: float = 0.2
    entropy_start: float = 0.01
    entropy_end: float = 0.01
    reward_scale: float = 1.0

    def __post_init__(self) -> None:
        """Check that the settings are possible."""
        check_positive(self, "total_updates", "epochs", "num_minibatches")
        for name in ("lambda_", "step_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise JaxschedError(
                    f"PPOConfig.{name} is {getattr(self, name)}; it must be in 0..1"
                )
        if self.clip <= 0:
            raise JaxschedError(f"PPOConfig.clip is {self.clip}; it must be above 0")


class Hyper(NamedTuple):
    """The floats of ``PPOConfig`` as float32 scalars in the state, so that a sweep is a vmap."""

    learning_rate: Array
    final_learning_rate: Array
    value_learning_rate: Array
    final_value_learning_rate: Array
    gamma: Array
    horizon_s: Array  # infinite where groups are discounted by gamma
    lambda_: Array
    step_lambda: Array
    clip: Array
    entropy_start: Array
    entropy_end: Array
    reward_scale: Array


class Extras(NamedTuple):
    """What ``act`` remembers of each decision, float32 ``[B]``."""

    log_prob: Array
    value: Array


class Batch(NamedTuple):
    """Decisions to learn from, leaves ``[N, ...]``."""

    observation: PyTree
    mask: Array
    action: Array
    old: Extras
    target: Array


class PPOState(NamedTuple):
    """Everything that the learner remembers."""

    params: Networks
    optimiser: Networks
    hyper: Hyper
    updates: Array  # int32, calls of ``update``


def hyper_of(config: PPOConfig) -> Hyper:
    """The traced floats of a configuration."""
    values = {name: getattr(config, name) for name in Hyper._fields}
    for name in ("value_learning_rate", "final_value_learning_rate"):
        if values[name] is None:
            values[name] = values[name.replace("value_", "")]
    if config.horizon_s is None:
        values["horizon_s"] = float("inf")
    return Hyper(**{name: jnp.asarray(value, jnp.float32) for name, value in values.items()})


def ppo(policy: nn.Module, value: nn.Module, config: PPOConfig) -> Learner:
    """A PPO learner.

    Args:
      policy: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``.
      value: flax module, ``apply(params, observation) -> values`` of float32 ``[B]``.
      config: settings. ``state.hyper`` holds the floats and may be replaced, also by batched
        leaves under vmap.

    Returns:
      The learner. ``init`` takes parameters of the policy network; ``act`` samples unless
      ``greedy`` and returns :class:`Extras`.
    """
    optimiser = clipped_adam(config.max_gradient_norm)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> PPOState:
        policy_key, value_key = jax.random.split(key)
        if params is None:
            params = init_params(policy, policy_key, specs.observation)
        networks = Networks(params, init_params(value, value_key, specs.observation))
        moments = Networks(*map(optimiser.init, networks))
        return PPOState(networks, moments, hyper_of(config), jnp.int32(0))

    def act(
        state: PPOState, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, Extras]:
        scores = scores_of(state.params.policy, observation, mask)
        if greedy:
            action = best_legal(scores, mask)
        else:
            action = jax.random.categorical(key, scores).astype(jnp.int32)
        return action, Extras(taken(scores, action), values_of(state.params.value, observation))

    def update(state: PPOState, rollout: Rollout, key: PRNGKey) -> tuple[PPOState, Metrics]:
        num_rows = rollout.reward.size
        if num_rows % config.num_minibatches:
            raise JaxschedError(
                f"a rollout of {num_rows} decisions does not split into "
                f"{config.num_minibatches} equal minibatches (PPOConfig.num_minibatches)"
            )
        hyper, progress = state.hyper, state.updates / config.total_updates
        batch = batch_of(state, rollout)
        rows = minibatches(
            key,
            num_rows,
            config.epochs * config.num_minibatches,
            num_rows // config.num_minibatches,
        )
        rates = (
            linear(hyper.learning_rate, hyper.final_learning_rate, progress),
            linear(hyper.value_learning_rate, hyper.final_value_learning_rate, progress),
        )
        entropy_weight = linear(hyper.entropy_start, hyper.entropy_end, progress)

        def step(
            carry: tuple[Networks, Networks], rows: Array
        ) -> tuple[tuple[Networks, Networks], Metrics]:
            params, moments = carry
            part = jax.tree.map(lambda x: x[rows], batch)
            gradient, metrics = gradients(params, part, hyper.clip, entropy_weight)
            carry = descend_both(optimiser, params, moments, gradient, rates)
            return carry, metrics

        (params, moments), metrics = jax.lax.scan(step, (state.params, state.optimiser), rows)
        error = batch.target - batch.old.value
        unexplained = jnp.var(error) / jnp.maximum(jnp.var(batch.target), 1e-8)
        metrics = jax.tree.map(jnp.mean, metrics) | {
            "explained_variance": 1 - unexplained,
            "target_mean": jnp.mean(batch.target),
            "learning_rate": rates[0],
            "entropy_weight": entropy_weight,
        }
        return PPOState(params, moments, hyper, state.updates + 1), metrics

    def batch_of(state: PPOState, rollout: Rollout) -> Batch:
        hyper = state.hyper
        rollout = rollout._replace(reward=rollout.reward * hyper.reward_scale)
        discount = returns.step_discounts(
            rollout, hyper.gamma, None if config.horizon_s is None else hyper.horizon_s
        )
        next_values = values_of(state.params.value, rollout.next_observation)
        target = returns.lambda_returns(
            rollout, discount, next_values, hyper.lambda_, hyper.step_lambda
        )
        return flatten_time(
            Batch(rollout.observation, rollout.mask, rollout.action, rollout.extras, target)
        )

    def gradients(
        params: Networks, batch: Batch, clip: Array, entropy_weight: Array
    ) -> tuple[Networks, Metrics]:
        advantage = batch.target - batch.old.value
        if config.normalise_advantages:
            advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)

        def policy_loss_of(policy_params: PyTree) -> tuple[Array, Metrics]:
            scores = scores_of(policy_params, batch.observation, batch.mask)
            change = taken(scores, batch.action) - batch.old.log_prob
            ratio, spread = jnp.exp(change), jnp.mean(entropy(scores))
            gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
            loss = -jnp.mean(gain)
            return loss - entropy_weight * spread, {
                "policy_loss": loss,
                "entropy": spread,
                "approx_kl": jnp.mean(ratio - 1 - change),
                "clip_share": jnp.mean(jnp.abs(ratio - 1) > clip, dtype=jnp.float32),
            }

        def value_loss_of(value_params: PyTree) -> Array:
            predicted = values_of(value_params, batch.observation)
            error = (batch.target - predicted) ** 2
            if config.clip_value:
                limited = batch.old.value + jnp.clip(predicted - batch.old.value, -clip, clip)
                error = jnp.maximum(error, (batch.target - limited) ** 2)
            return jnp.mean(error)

        policy_gradient, metrics = jax.grad(policy_loss_of, has_aux=True)(params.policy)
        value_loss, value_gradient = jax.value_and_grad(value_loss_of)(params.value)
        metrics |= {
            "value_loss": value_loss,
            "gradient_norm": optax.global_norm(policy_gradient),
            "value_gradient_norm": optax.global_norm(value_gradient),
        }
        return Networks(policy_gradient, value_gradient), metrics

    def scores_of(params: PyTree, observation: PyTree, mask: Array) -> Array:
        return log_probabilities(cast(Array, policy.apply(params, observation)), mask)

    def values_of(params: PyTree, observation: PyTree) -> Array:
        return cast(Array, value.apply(params, observation))

    return Learner(init, act, update, policy_params=lambda state: state.params.policy)
