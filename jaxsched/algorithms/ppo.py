"""Proximal policy optimisation with a clipped objective, for one agent or several.

PPO (Schulman et al., Proximal Policy Optimization Algorithms, 2017) and MAPPO (Yu et al., The
Surprising Effectiveness of PPO in Cooperative Multi-Agent Games, 2022), in which agents act on
their own and share a centralised critic. One call of ``update`` is::

    targets = lambda or span returns of the rollout, advantages = targets - values
    epochs times, for each of num_minibatches parts of a fresh permutation of the rollout:
        ratio = pi(action) / pi_old(action) of each agent and active unit
        policy: one Adam step on -min(ratio * A, clip(ratio, 1 +- clip) * A) - entropy_weight * H
        critic: one Adam step on (its target - its prediction) ** 2

where ratios and entropies are averaged over the active units of an agent, over agents, and over
the decisions in which any unit is active. Decisions taken at one instant form a group
(:mod:`jaxsched.algorithms.returns`): no discount acts inside it, and a lambda of its own.

Axes: ``T`` time, ``B`` batch of environments, ``U`` units of an agent, ``S`` steps of a sequence,
``C`` sequences (single decisions are sequences of one step).
"""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms import returns
from jaxsched.algorithms.agents import (
    Agents,
    ByAgent,
    any_active,
    over_time,
    sequence_needs,
    sequences,
    softmax_agents,
    unit_mean,
)
from jaxsched.algorithms.average_reward import RewardRate, undiscounted
from jaxsched.algorithms.common_sequences import sequence_baseline, shared_needs
from jaxsched.algorithms.critics import Critic, state_value
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.algorithms.scale import Scale
from jaxsched.algorithms.settings import linear, traced_values
from jaxsched.algorithms.softmax import (
    Networks,
    clipped_adam,
    descend_both,
    minibatches,
    weighted_mean,
)
from jaxsched.core.learner import Learner, Metrics, Size
from jaxsched.core.sharding import split, whole
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

MAX_LOG_RATIO = 20.0  # beyond it the exponential could overflow and its slope be undefined


class Extras(NamedTuple):
    """What ``act`` hands to ``update`` for each decision.

    Attributes:
      log_prob: float32 ``[B, U]`` by agent.
      value: float32 ``[B]``; ``()`` of critics with copies, whose values ``update`` computes.
    """

    log_prob: ByAgent
    value: Any


class Batch(NamedTuple):
    """Decisions to learn from, leaves ``[S, C, ...]``."""

    observation: PyTree
    mask: PyTree
    action: PyTree
    log_prob: ByAgent  # of the policy that acted
    value: Array
    target: Array  # lambda or span return
    critic_target: Array


class PPOState(NamedTuple):
    """The learner's state."""

    params: Networks
    optimiser: Networks
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``
    copies: Any = ()  # Networks that values are computed with; () of critics without copies
    scale: Any = ()  # Scale of the targets with ``normalise_targets``
    rate: Any = ()  # RewardRate with ``average_reward``


class _Learning(NamedTuple):
    """What one gradient step changes."""

    params: Networks
    optimiser: Networks


class _Parts(NamedTuple):
    """What a learner is made of."""

    agents: Agents
    critic: Critic
    config: PPOConfig
    optimiser: optax.GradientTransformation


def ppo(policy: nn.Module, value: nn.Module, config: PPOConfig) -> Learner:
    """A PPO learner of a discrete choice.

    Args:
      policy: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``.
      value: flax module, ``apply(params, observation) -> values`` of float32 ``[B]``.
      config: settings.

    Returns:
      The learner, as :func:`mappo` makes it; ``init`` takes parameters of the policy network.
    """
    agents = softmax_agents(policy, only_choices=config.only_choices)
    return mappo(agents, state_value(value), config)


def mappo(agents: Agents, critic: Critic, config: PPOConfig) -> Learner:
    """A PPO learner of several agents with a centralised critic.

    Args:
      agents: the policy.
      critic: values that advantages are measured against, and how they are learned.
      config: settings. ``state.hyper`` holds the traced floats and may be replaced, also by
        batched leaves under vmap.

    Returns:
      The learner. ``init`` takes parameters of the policy; ``act`` samples and returns
      :class:`Extras`, or takes the most likely action where ``greedy``, without extras.

    Raises:
      JaxschedError: ``gamma_per`` is ``"decision"`` and the agents do not say where one is due,
        or ``return_span_s``, ``average_reward`` or ``normalise_targets`` is asked of an action
        value.
    """
    if config.gamma_per == "decision" and agents.due is None:
        raise JaxschedError(
            "PPOConfig.gamma_per is 'decision'; these agents have no 'due' (accepted: group, step)"
        )
    if config.return_span_s is not None and critic.one_step:
        raise JaxschedError(
            f"PPOConfig.return_span_s is {config.return_span_s}; it must be None for an action "
            "value"
        )
    if config.average_reward and critic.one_step:
        raise JaxschedError(
            "PPOConfig.average_reward is true; it must be false for an action value"
        )
    if config.normalise_targets and critic.one_step:
        raise JaxschedError(
            "PPOConfig.normalise_targets is true; it must be false for an action value"
        )
    parts = _Parts(agents, critic, config, clipped_adam(config.max_gradient_norm))
    functions = partial(_init, parts), partial(_act, parts), partial(_update, parts)
    length, num_parts = config.sequence_length, config.num_minibatches
    because = f"{num_parts} num_minibatches" + (f" of sequences of {length}" if length else "")
    equal_parts = Size("decisions", "a multiple of", num_parts * (length or 1), because)
    common = shared_needs(config.num_sequences)
    needs = common._replace(sizes=(*common.sizes, *sequence_needs(length), equal_parts))
    return Learner(*functions, lambda state: state.params.policy, needs)


def _init(parts: _Parts, key: PRNGKey, specs: Specs, params: PyTree | None = None) -> PPOState:
    policy_key, critic_key = jax.random.split(key)
    if params is None:
        params = parts.agents.init(policy_key, specs)
    networks = Networks(params, parts.critic.init(critic_key, specs))
    moments = Networks(*map(parts.optimiser.init, networks))
    copies = networks if parts.critic.copy_every else ()
    scale = Scale.unknown() if parts.config.normalise_targets else ()
    rate = RewardRate.unknown() if parts.config.average_reward else ()
    hyper = traced_values(parts.config)
    return PPOState(networks, moments, hyper, jnp.int32(0), copies, scale, rate)


def _act(
    parts: _Parts, state: PPOState, observation: PyTree, mask: PyTree, key: PRNGKey, greedy: bool
) -> tuple[PyTree, PyTree]:
    agents, critic = parts.agents, parts.critic
    if greedy:
        return agents.greedy(state.params.policy, observation, mask), ()
    action, log_prob = agents.sample(state.params.policy, observation, mask, key)
    value = () if critic.copy_every else critic.value(state.params, observation, mask)
    return action, Extras(log_prob, value)


def _update(
    parts: _Parts, state: PPOState, rollout: Rollout, key: PRNGKey
) -> tuple[PPOState, Metrics]:
    config, critic, hyper = parts.config, parts.critic, state.hyper
    told, scale, rate = _with_targets(parts, state, rollout)
    batch = whole(sequences(told, config.sequence_length))
    num_parts, num_sequences = config.num_minibatches, batch.target.shape[1]
    columns = minibatches(key, num_sequences, config.epochs * num_parts, num_sequences // num_parts)
    progress = state.updates / config.total_updates
    rates = (
        linear(hyper.learning_rate, hyper.final_learning_rate, progress),
        linear(hyper.value_learning_rate, hyper.final_learning_rate, progress),
    )
    entropy_weight = linear(hyper.entropy_start, hyper.entropy_end, progress)

    def step(learning: _Learning, columns: Array) -> tuple[_Learning, Metrics]:
        part = split(jax.tree.map(lambda x: x[:, columns], batch), 1)
        gradient, metrics = _gradients(parts, learning.params, part, hyper.clip, entropy_weight)
        params, moments = descend_both(
            parts.optimiser, learning.params, learning.optimiser, gradient, rates
        )
        return _Learning(params, moments), metrics

    learning = _Learning(state.params, state.optimiser)
    learning, metrics = jax.lax.scan(step, learning, columns)
    unexplained = jnp.var(batch.target - batch.value)
    unexplained = unexplained / jnp.maximum(jnp.var(batch.target), 1e-8)
    metrics = jax.tree.map(jnp.mean, metrics) | {
        "explained_variance": 1 - unexplained,
        "target_mean": jnp.mean(batch.target),
        "learning_rate": rates[0],
        "entropy_weight": entropy_weight,
    }
    if config.average_reward:
        metrics["reward_per_second"] = rate.per_second()
    updates, copies = state.updates + 1, state.copies
    if critic.copy_every:
        copies = select(updates % critic.copy_every == 0, learning.params, copies)
    following = PPOState(learning.params, learning.optimiser, hyper, updates, copies, scale, rate)
    return following, metrics


def _with_targets(parts: _Parts, state: PPOState, rollout: Rollout) -> tuple[Batch, Any, Any]:
    """The rollout with its values and targets, ``[T, B, ...]``, the targets' scale, the rate."""
    config, critic, hyper = parts.config, parts.critic, state.hyper
    networks = state.copies if critic.copy_every else state.params

    def outward(value: Array) -> Array:
        return state.scale.outward(value) if config.normalise_targets else value

    def values_of(observation: PyTree, mask: PyTree) -> Array:
        return outward(over_time(lambda o, m: critic.value(networks, o, m), observation, mask))

    rollout, rate = rollout._replace(reward=rollout.reward * hyper.reward_scale), state.rate
    if config.average_reward:
        rate = rate.after(rollout)
        rollout = rate.differential(rollout)
    grouped = _regrouped(parts, rollout)
    discount = _discounts(config, state, rollout, grouped)
    following = values_of(rollout.next_observation, rollout.next_mask)
    if config.return_span_s is None:
        target = returns.lambda_returns(
            grouped, discount, following, hyper.lambda_, hyper.step_lambda
        )
    else:
        target = returns.span_returns(rollout, discount, following, hyper.return_span_s)
    if config.average_reward:
        target = target - jnp.mean(target)
    if config.num_sequences is not None:
        value = sequence_baseline(rollout.elapsed, target, config.num_sequences)
    elif critic.copy_every:
        value = values_of(rollout.observation, rollout.mask)
    else:
        value = outward(rollout.extras.value)
    critic_target = rollout.reward + discount * following if critic.one_step else target
    scale = state.scale
    if config.normalise_targets:
        scale = scale.after(target)
        critic_target = scale.inward(target)
    batch = Batch(
        rollout.observation,
        rollout.mask,
        rollout.action,
        rollout.extras.log_prob,
        value,
        target,
        critic_target,
    )
    return batch, scale, rate


def _discounts(config: PPOConfig, state: PPOState, rollout: Rollout, grouped: Rollout) -> Array:
    """Discount of the value after each step, float32 ``[T, B]``."""
    hyper = state.hyper
    if config.average_reward:
        return undiscounted(rollout)
    if config.horizon_s is None:
        return returns.step_discounts(grouped, hyper.gamma)
    horizon_s = hyper.horizon_s
    if config.final_horizon_s is not None:
        progress = state.updates / config.total_updates
        horizon_s = jnp.exp(linear(jnp.log(horizon_s), jnp.log(hyper.final_horizon_s), progress))
    return returns.step_discounts(rollout, hyper.gamma, horizon_s)


def _regrouped(parts: _Parts, rollout: Rollout) -> Rollout:
    """The rollout with ``elapsed`` above 0 only where a unit of ``gamma_per`` ends."""
    if parts.config.gamma_per == "step":
        return rollout._replace(elapsed=jnp.ones_like(rollout.elapsed))
    if parts.config.gamma_per == "decision" and parts.agents.due is not None:
        due = parts.agents.due(rollout.next_observation, rollout.next_mask)
        return rollout._replace(elapsed=due.astype(jnp.float32))
    return rollout


def _gradients(
    parts: _Parts, params: Networks, batch: Batch, clip: Array, entropy_weight: Array
) -> tuple[Networks, Metrics]:
    policy_loss = jax.grad(partial(_policy_loss, parts), has_aux=True)
    policy_gradient, metrics = policy_loss(params.policy, batch, clip, entropy_weight)
    critic_loss_of = jax.value_and_grad(partial(_critic_loss, parts))
    critic_loss, critic_gradient = critic_loss_of(params.value, batch)
    metrics |= {
        "value_loss": critic_loss,
        "gradient_norm": optax.global_norm(policy_gradient),
        "value_gradient_norm": optax.global_norm(critic_gradient),
    }
    return Networks(policy_gradient, critic_gradient), metrics


def _policy_loss(
    parts: _Parts, params: PyTree, batch: Batch, clip: Array, entropy_weight: Array
) -> tuple[Array, Metrics]:
    """Minus the clipped gain and the weighted entropy."""
    likelihood = parts.agents.evaluate(params, batch.observation, batch.mask, batch.action)
    weight = any_active(likelihood.active).astype(jnp.float32)
    advantage = batch.target - batch.value
    if parts.config.normalise_advantages:
        centred = advantage - weighted_mean(advantage, weight)
        advantage = centred / (jnp.sqrt(weighted_mean(centred**2, weight)) + 1e-8)

    def average(values: ByAgent, active: ByAgent) -> Array:
        return weighted_mean(unit_mean(values, active), weight)

    active = likelihood.active
    change = _log_ratios(likelihood.log_prob, batch.log_prob, active)
    ratio = jax.tree.map(jnp.exp, change)
    gain = jax.tree.map(lambda r: clipped_gain(r, advantage[..., None], clip), ratio)
    outside = jax.tree.map(lambda r: (jnp.abs(r - 1) > clip).astype(jnp.float32), ratio)
    divergence = jax.tree.map(lambda r, c: r - 1 - c, ratio, change)
    loss = -average(gain, active)
    spread = average(likelihood.entropy, active)
    return loss - entropy_weight * spread, {
        "policy_loss": loss,
        "entropy": spread,
        "approx_kl": average(divergence, active),
        "clip_share": average(outside, active),
    }


def _critic_loss(parts: _Parts, params: PyTree, batch: Batch) -> Array:
    """Mean squared error of the critic's predictions."""
    predicted = over_time(
        lambda o, a: parts.critic.predict(params, o, a), batch.observation, batch.action
    )
    return jnp.mean((batch.critic_target - predicted) ** 2)


def _log_ratios(new: ByAgent, old: ByAgent, active: ByAgent) -> ByAgent:
    """Logarithms of the ratios ``[..., U]``; 0 of units that are not active."""
    change = {name: jnp.where(active[name], new[name] - old[name], 0.0) for name in active}
    return {name: jnp.clip(x, -MAX_LOG_RATIO, MAX_LOG_RATIO) for name, x in change.items()}


def clipped_gain(ratio: Array, advantage: Array, clip: Array) -> Array:
    """``min(ratio * A, clip(ratio, 1 - clip, 1 + clip) * A)``."""
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
