"""Actor-critic by REINFORCE with prioritised replay, as DL2 schedules with (Peng et al., 2021).

Decisions taken at one instant form a group and share its reward
(:mod:`jaxsched.algorithms.returns`). One call of ``update`` is

    store the decisions of the rollout, each with its group's reward and what follows the group
    gradient_steps times:
        draw a batch in proportion to priority
        target = reward + discount * value(first observation after the group)
        advantage = target - value(observation)
        policy: one Adam step on weight * (-log pi(action) * advantage - entropy_weight * H(pi))
        value: one Adam step on weight * (target - value(observation)) ** 2
        new priorities min(|advantage| + floor, 1) ** alpha

With ``num_clusters`` above 1 (synchronous A3C: Mnih et al., 2016) the environments are split into
equal clusters with a replay each; each contributes the gradient of an equal part of the batch and
the average is applied once.

Axes: ``T`` time, ``B`` batch of environments, ``C`` clusters, ``N`` decisions, ``A`` actions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms import replay as memory
from jaxsched.algorithms import returns
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig, Hyper, hyper_of
from jaxsched.algorithms.dqn import best_legal, linear
from jaxsched.algorithms.replay import Replay
from jaxsched.algorithms.softmax import (
    Networks,
    clipped_adam,
    descend_both,
    entropy,
    init_params,
    log_probabilities,
    minibatches,
    taken,
    weighted_mean,
)
from jaxsched.core.learner import Learner, Metrics
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

Explore = Callable[[PRNGKey, PyTree, Array, Array, Array], Array]


class Decision(NamedTuple):
    """What replay holds of one decision; the target is ``reward + discount * value(next)``."""

    observation: PyTree
    mask: Array  # bool [A]
    action: Array  # int32
    reward: Array  # float32, from the decision to the end of its group
    discount: Array  # float32, 0 after a termination
    next_observation: PyTree  # first after the group
    weight: Array  # float32, 0 for decisions whose target is unknown


class Batch(NamedTuple):
    """Decisions with their targets, leaves ``[N, ...]``."""

    observation: PyTree
    mask: Array
    action: Array
    target: Array
    weight: Array


class ActorCriticState(NamedTuple):
    """Everything that the learner remembers."""

    params: Networks
    optimiser: Networks
    replay: Any  # Replay with leaves [C, ...], or None
    average: returns.MovingAverage  # of group rewards
    hyper: Hyper
    updates: Array  # int32, calls of ``update``
    gradient_steps: Array  # int32, gradient steps taken, hence batches drawn


class _Learning(NamedTuple):
    """What one gradient step changes (replay: its priorities only)."""

    params: Networks
    optimiser: Networks
    priorities: Any  # Replay with no items, or None
    gradient_steps: Array


def actor_critic(
    policy: nn.Module,
    value: nn.Module,
    config: ActorCriticConfig,
    explore: Explore | None = None,
) -> Learner:
    """An actor-critic learner.

    Args:
      policy: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``.
      value: flax module, ``apply(params, observation) -> values`` of float32 ``[B]``.
      config: settings. ``state.hyper`` holds the floats and may be replaced, also by batched
        leaves under vmap.
      explore: ``(key, observation, mask, action, step) -> action`` over leaves ``[B, ...]``, may
        replace the sampled actions in training; ``step`` is the int32 number of updates done.

    Returns:
      The learner. ``init`` takes parameters of the policy network; ``act`` samples unless
      ``greedy`` and returns no extras.
    """
    optimiser = clipped_adam(config.max_gradient_norm)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> ActorCriticState:
        policy_key, value_key = jax.random.split(key)
        if params is None:
            params = init_params(policy, policy_key, specs.observation)
        networks = Networks(params, init_params(value, value_key, specs.observation))
        return ActorCriticState(
            params=networks,
            optimiser=Networks(*map(optimiser.init, networks)),
            replay=empty_replay(specs) if config.capacity else None,
            average=returns.MovingAverage.empty(),
            hyper=hyper_of(config),
            updates=jnp.int32(0),
            gradient_steps=jnp.int32(0),
        )

    def empty_replay(specs: Specs) -> Replay:
        observation = jax.tree.map(lambda spec: spec.zeros(), specs.observation)
        example = Decision(
            observation=observation,
            mask=jnp.zeros(specs.action.num_actions, bool),
            action=jnp.int32(0),
            reward=jnp.float32(0),
            discount=jnp.float32(0),
            next_observation=observation,
            weight=jnp.float32(0),
        )
        one = memory.init(example, config.capacity)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (config.num_clusters, *x.shape)), one)

    def act(
        state: ActorCriticState, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, tuple[()]]:
        logits = cast(Array, policy.apply(state.params.policy, observation))
        if greedy:
            return best_legal(logits, mask), ()
        draw_key, explore_key = jax.random.split(key)
        action = jax.random.categorical(draw_key, log_probabilities(logits, mask))
        action = action.astype(jnp.int32)
        if explore is not None:
            action = explore(explore_key, observation, mask, action, state.updates)
        return action, ()

    def update(
        state: ActorCriticState, rollout: Rollout, key: PRNGKey
    ) -> tuple[ActorCriticState, Metrics]:
        num_steps, batch = rollout.reward.shape
        if batch % config.num_clusters:
            raise JaxschedError(
                f"{batch} environments do not split into {config.num_clusters} equal clusters"
            )
        discount = returns.step_discounts(
            rollout, state.hyper.gamma, None if config.horizon_s is None else state.hyper.horizon_s
        )
        groups = returns.group_transitions(rollout, discount)
        average = returns.average_group_rewards(state.average, groups, state.hyper.baseline_decay)
        baseline = average.mean()
        learning = _Learning(state.params, state.optimiser, None, state.gradient_steps)
        draw_key, order_key = jax.random.split(key)

        replay: Any = None
        if config.capacity:
            items_per_cluster = num_steps * batch // config.num_clusters
            if items_per_cluster > config.capacity:
                raise JaxschedError(
                    f"a rollout brings {items_per_cluster} decisions per cluster; "
                    f"ActorCriticConfig.capacity is {config.capacity}"
                )
            new = by_cluster(decisions_of(rollout, groups), config.num_clusters)
            replay = jax.vmap(memory.add)(state.replay, new)
            learning = learning._replace(priorities=replay._replace(items=()))
            step = partial(replay_step, state=state, items=replay.items, baseline=baseline)
            steps: Any = jax.random.split(draw_key, config.gradient_steps)
        else:
            known = by_cluster(batch_of(rollout, groups, discount, state), config.num_clusters)
            step = partial(rollout_step, state=state, known=known, baseline=baseline)
            steps = rows_of(order_key, known.target.shape[1])

        learning, metrics = jax.lax.scan(step, learning, steps)
        if config.capacity:
            replay = learning.priorities._replace(items=replay.items)
        state = ActorCriticState(
            params=learning.params,
            optimiser=learning.optimiser,
            replay=replay,
            average=average,
            hyper=state.hyper,
            updates=state.updates + 1,
            gradient_steps=learning.gradient_steps,
        )
        metrics = jax.tree.map(jnp.mean, metrics) | {"baseline": baseline}
        if config.capacity:
            metrics["replay_size"] = jnp.sum(replay.size, dtype=jnp.float32)
        return state, metrics

    def decisions_of(rollout: Rollout, groups: returns.Groups) -> Decision:
        return Decision(
            observation=rollout.observation,
            mask=rollout.mask,
            action=rollout.action,
            reward=groups.reward,
            discount=groups.discount,
            next_observation=returns.at_group_end(groups, rollout.next_observation),
            weight=known_weight(groups),
        )

    def batch_of(
        rollout: Rollout, groups: returns.Groups, discount: Array, state: ActorCriticState
    ) -> Batch:
        target = groups.reward
        if config.baseline == "value":
            next_values = cast(Array, value.apply(state.params.value, rollout.next_observation))
            target = returns.lambda_returns(rollout, discount, next_values, state.hyper.lambda_)
        return Batch(
            rollout.observation, rollout.mask, rollout.action, target, known_weight(groups)
        )

    def known_weight(groups: returns.Groups) -> Array:
        """Without a value to bootstrap from, the reward of a group must have been seen."""
        known = groups.complete | (config.baseline == "value")
        return known.astype(jnp.float32)

    def rows_of(key: PRNGKey, num_rows: int) -> Array:
        """Rows of each cluster that each gradient step learns from, ``[steps, C, N]``."""
        if config.batch_size is None:
            shape = (config.gradient_steps, config.num_clusters, num_rows)
            return jnp.broadcast_to(jnp.arange(num_rows), shape)
        size = config.batch_size // config.num_clusters
        rows = jax.vmap(lambda k: minibatches(k, num_rows, config.gradient_steps, size))(
            jax.random.split(key, config.num_clusters)
        )
        return jnp.swapaxes(rows, 0, 1)

    def replay_step(
        learning: _Learning,
        key: PRNGKey,
        *,
        state: ActorCriticState,
        items: Decision,
        baseline: Array,
    ) -> tuple[_Learning, Metrics]:
        assert config.batch_size is not None
        hyper, size = state.hyper, config.batch_size // config.num_clusters
        beta = jnp.minimum(hyper.beta_start + hyper.beta_growth * learning.gradient_steps, 1.0)
        replay = learning.priorities._replace(items=items)
        keys = jax.random.split(key, config.num_clusters)
        drawn, index, probability = jax.vmap(lambda k, r: memory.sample(k, r, size))(keys, replay)
        importance = jax.vmap(lambda p, n: memory.importance_weights(p, n, beta))(
            probability, replay.size
        )
        target = drawn.reward
        if config.baseline == "value":
            following = cast(Array, value.apply(learning.params.value, drawn.next_observation))
            target = drawn.reward + drawn.discount * following
        batch = Batch(
            drawn.observation, drawn.mask, drawn.action, target, importance * drawn.weight
        )
        learning, advantage, metrics = learn_from(learning, batch, state, baseline)
        priority = priority_of(advantage * drawn.weight, hyper)
        priorities = jax.vmap(memory.set_priorities)(learning.priorities, index, priority)
        return learning._replace(priorities=priorities), metrics | {"beta": beta}

    def rollout_step(
        learning: _Learning,
        rows: Array,
        *,
        state: ActorCriticState,
        known: Batch,
        baseline: Array,
    ) -> tuple[_Learning, Metrics]:
        batch = known
        if config.batch_size is not None:
            batch = jax.tree.map(lambda x: jax.vmap(lambda y, r: y[r])(x, rows), known)
        learning, _, metrics = learn_from(learning, batch, state, baseline)
        return learning, metrics

    def learn_from(
        learning: _Learning, batch: Batch, state: ActorCriticState, baseline: Array
    ) -> tuple[_Learning, Array, Metrics]:
        """Average the clusters' gradients (leaves ``[C, N, ...]``) and apply them once."""
        hyper, progress = state.hyper, state.updates / config.total_updates
        entropy_weight = linear(hyper.entropy_start, hyper.entropy_end, progress)
        gradient, advantage, metrics = jax.vmap(
            lambda part: gradients(learning.params, part, entropy_weight, baseline)
        )(batch)
        gradient, metrics = jax.tree.map(lambda x: jnp.mean(x, axis=0), (gradient, metrics))
        rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
        value_rate = linear(hyper.value_learning_rate, hyper.final_value_learning_rate, progress)
        params, moments = descend_both(
            optimiser, learning.params, learning.optimiser, gradient, (rate, value_rate)
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

    def gradients(
        params: Networks, batch: Batch, entropy_weight: Array, baseline: Array
    ) -> tuple[Networks, Array, Metrics]:
        """Gradients of one cluster, and advantages ``[N]``."""
        known = (batch.weight > 0).astype(jnp.float32)

        def average_of(x: Array) -> Array:
            return jnp.sum(batch.weight * x) / jnp.maximum(jnp.sum(known), 1.0)

        def value_loss_of(value_params: PyTree) -> tuple[Array, Array]:
            predicted = cast(Array, value.apply(value_params, batch.observation))
            return average_of((batch.target - predicted) ** 2), predicted

        if config.baseline == "value":
            (value_loss, predicted), value_gradient = jax.value_and_grad(
                value_loss_of, has_aux=True
            )(params.value)
        else:
            value_loss, predicted = jnp.float32(0), jnp.broadcast_to(baseline, known.shape)
            value_gradient = jax.tree.map(jnp.zeros_like, params.value)
        advantage = batch.target - predicted
        scaled = advantage
        if config.normalise_advantages:
            centred = advantage - weighted_mean(advantage, known)
            scaled = centred / (jnp.sqrt(weighted_mean(centred**2, known)) + 1e-8)

        def policy_loss_of(policy_params: PyTree) -> tuple[Array, Array]:
            logits = cast(Array, policy.apply(policy_params, batch.observation))
            scores = log_probabilities(logits, batch.mask)
            spread = entropy(scores)
            gain = taken(scores, batch.action) * scaled + entropy_weight * spread
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

    return Learner(init, act, update, policy_params=lambda state: state.params.policy)


def priority_of(advantage: Array, hyper: Hyper) -> Array:
    """``min(|advantage| + floor, 1) ** alpha``, of the shape of ``advantage``."""
    return jnp.minimum(jnp.abs(advantage) + hyper.priority_floor, 1.0) ** hyper.alpha


def by_cluster(tree: PyTree, num_clusters: int) -> PyTree:
    """Leaves ``[T, B, ...]`` as ``[C, T * B / C, ...]``: neighbouring environments together."""

    def split(x: Array) -> Array:
        num_steps, batch, *rest = x.shape
        parts = x.reshape(num_steps, num_clusters, batch // num_clusters, *rest)
        return jnp.swapaxes(parts, 0, 1).reshape(num_clusters, -1, *rest)

    return jax.tree.map(split, tree)
