"""Actor-critic by REINFORCE with prioritised replay, as DL2 schedules with (Peng et al., 2021).

Decisions taken at one instant form a group and share its reward
(:mod:`jaxsched.algorithms.returns`). One call of ``update`` is::

    store the decisions of the rollout, each with its group's reward and what follows the group
    gradient_steps times:
        draw a batch in proportion to priority
        target = reward + discount * value(first observation after the group)
        advantage = target - value(observation)
        policy: one Adam step on weight * (-log pi(action) * advantage - entropy_weight * H(pi))
        value: one Adam step on weight * (target - value(observation)) ** 2
        new priorities min(|advantage| + floor, most) ** alpha

A group that the rollout cuts is stored up to the cut and bootstraps there, or is held over until
it ends (``held``); gradient steps can be taken for each group that ended (``step_per``).

With ``num_clusters`` above 1 (synchronous A3C: Mnih et al., 2016) the environments are split into
equal clusters with a replay each; each contributes the gradient of an equal part of the batch and
the average is applied once.

Axes: ``T`` time, ``B`` batch of environments, ``C`` clusters, ``N`` decisions, ``A`` actions.
"""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms import replay as memory
from jaxsched.algorithms import returns
from jaxsched.algorithms.actor_critic_gradients import (
    Batch,
    Credit,
    Explore,
    Kept,
    Learning,
    Parts,
    learn_from,
)
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.replay import Replay
from jaxsched.algorithms.settings import traced_values
from jaxsched.algorithms.softmax import (
    Networks,
    best_legal,
    clipped_adam,
    init_params,
    log_probabilities,
    minibatches,
)
from jaxsched.core.learner import Learner, Metrics, Needs, Size
from jaxsched.core.sharding import ENVS, num_parts, split_layout, whole, whole_layout
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs


class Decision(NamedTuple):
    """One decision as replay stores it; the target is ``reward + discount * value(next)``."""

    observation: PyTree
    mask: Array  # bool [A]
    action: Array  # int32
    reward: Array  # float32, from the decision to the end of its group
    discount: Array  # float32, 0 after a termination
    next_observation: PyTree  # first after the group
    weight: Array  # float32, 0 for decisions whose target is unknown
    scores: Any  # float32 [A], log-probabilities it was drawn by; or (), see ``gradient_at``


class Held(NamedTuple):
    """The last decisions of earlier rollouts, of which some wait for their group's end."""

    rollout: Rollout  # leaves [H, B, ...], without branches
    waits: Array  # bool [H, B]


class ActorCriticState(NamedTuple):
    """The learner's state."""

    params: Networks
    optimiser: Networks
    replay: Any  # Replay with leaves [C, ...], or None
    held: Any  # Held, or None where nothing is held over
    average: returns.MovingAverage  # of group rewards
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``
    gradient_steps: Array  # int32, gradient steps taken, hence batches drawn


def actor_critic(
    policy: nn.Module,
    value: nn.Module,
    config: ActorCriticConfig,
    explore: Explore | None = None,
    credit: Credit | None = None,
    kept: Kept | None = None,
) -> Learner:
    """An actor-critic learner.

    Args:
      policy: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``.
      value: flax module, ``apply(params, observation) -> values`` of float32 ``[B]``.
      config: settings. ``state.hyper`` holds the traced floats and may be replaced, also by
        batched leaves under vmap.
      explore: ``(key, observation, mask, action, step) -> action`` over leaves ``[B, ...]``, may
        replace the sampled actions in training; ``step`` is the int32 number of updates done.
      credit: ``(observation, action, following) -> reward`` of single decisions, where the
        observation after their group tells; None: they share what the group earns. With replay
        only.
      kept: ``(next_observation) -> bool`` of single decisions, which of them are learnt from;
        None: all. With replay only.

    Returns:
      The learner. ``init`` takes parameters of the policy network; ``act`` samples unless
      ``greedy`` and returns no extras, or with ``gradient_at="stored"`` the log-probabilities.

    Raises:
      JaxschedError: ``credit`` or ``kept`` without replay.
    """
    if not config.capacity and (credit is not None or kept is not None):
        raise JaxschedError(
            f"ActorCriticConfig.capacity is {config.capacity}; single decisions are paid or left "
            "out with replay (capacity above 0) only"
        )
    optimiser = clipped_adam(config.max_gradient_norm)
    parts = Parts(policy, value, config, explore, optimiser, credit, kept)
    functions = partial(_init, parts), partial(_act, parts), partial(_update, parts)
    needs = _needs(config)
    return Learner(*functions, lambda state: state.params.policy, needs, layout=_layout)


def _needs(config: ActorCriticConfig) -> Needs:
    """Equal clusters, and rollouts that their replays can hold."""
    clusters, held = config.num_clusters, config.num_clusters * config.capacity
    equal = Size("num_envs", "a multiple of", clusters, f"{clusters} num_clusters")
    if not config.capacity:
        return Needs(sizes=(equal,))
    if config.held:
        equal = Size("num_envs", "equal to", config.held_envs, f"held_envs {config.held_envs}")
    because = f"{clusters} num_clusters x capacity {config.capacity}"
    if config.held:
        held -= config.held * config.held_envs
        because += f" less {config.held} held x held_envs {config.held_envs}"
    return Needs(sizes=(equal, Size("decisions", "at most", held, because)))


def _init(
    parts: Parts, key: PRNGKey, specs: Specs, params: PyTree | None = None
) -> ActorCriticState:
    policy_key, value_key = jax.random.split(key)
    if params is None:
        params = init_params(parts.policy, policy_key, specs.observation)
    networks = Networks(params, init_params(parts.value, value_key, specs.observation))
    return ActorCriticState(
        params=networks,
        optimiser=Networks(*map(parts.optimiser.init, networks)),
        replay=_empty_replay(parts.config, specs) if parts.config.capacity else None,
        held=_nothing_held(parts.config, specs) if parts.config.held else None,
        average=returns.MovingAverage.empty(),
        hyper=traced_values(parts.config),
        updates=jnp.int32(0),
        gradient_steps=jnp.int32(0),
    )


def _layout(state: ActorCriticState) -> ActorCriticState:
    """Whole clusters on a device where they can be shared out, else the items of each divided."""
    layout: ActorCriticState = whole_layout(state)
    if state.replay is None:
        return layout
    clusters = state.replay.size.shape[0]
    if clusters % num_parts(ENVS) == 0:
        return layout._replace(replay=split_layout(state.replay, 0))
    items = split_layout(state.replay.items, 1)
    return layout._replace(replay=layout.replay._replace(items=items))


def _empty_replay(config: ActorCriticConfig, specs: Specs) -> Replay:
    observation = jax.tree.map(lambda spec: spec.zeros(), specs.observation)
    example = Decision(
        observation=observation,
        mask=jnp.zeros(specs.action.num_actions, bool),
        action=jnp.int32(0),
        reward=jnp.float32(0),
        discount=jnp.float32(0),
        next_observation=observation,
        weight=jnp.float32(0),
        scores=jnp.zeros(specs.action.num_actions) if config.stores_scores else (),
    )
    one = memory.init(example, config.capacity)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (config.num_clusters, *x.shape)), one)


def _nothing_held(config: ActorCriticConfig, specs: Specs) -> Held:
    size = config.held, config.held_envs

    def rows(shape: tuple[int, ...], dtype: Any) -> Array:
        return jnp.zeros((*size, *shape), dtype)

    def observation() -> PyTree:
        return jax.tree.map(lambda spec: rows(spec.shape, spec.dtype), specs.observation)

    def mask() -> Array:
        return rows((specs.action.num_actions,), bool)

    empty = Rollout(
        observation=observation(),
        mask=mask(),
        action=rows((), jnp.int32),
        reward=rows((), jnp.float32),
        terminated=rows((), bool),
        truncated=rows((), bool),
        elapsed=rows((), jnp.float32),
        next_observation=observation(),
        next_mask=mask(),
        extras=rows((specs.action.num_actions,), jnp.float32) if config.stores_scores else (),
    )
    return Held(empty, rows((), bool))


def _act(
    parts: Parts,
    state: ActorCriticState,
    observation: PyTree,
    mask: Array,
    key: PRNGKey,
    greedy: bool,
) -> tuple[Array, Any]:
    logits = parts.logits(state.params.policy, observation)
    if greedy:
        return best_legal(logits, mask), ()
    draw_key, explore_key = jax.random.split(key)
    scores = log_probabilities(logits, mask)
    action = jax.random.categorical(draw_key, scores).astype(jnp.int32)
    if parts.explore is not None:
        action = parts.explore(explore_key, observation, mask, action, state.updates)
    return action, scores if parts.config.stores_scores else ()


def _update(
    parts: Parts, state: ActorCriticState, rollout: Rollout, key: PRNGKey
) -> tuple[ActorCriticState, Metrics]:
    config, hyper = parts.config, state.hyper
    horizon_s = None if config.horizon_s is None else hyper.horizon_s
    discount = returns.step_discounts(rollout, hyper.gamma, horizon_s)
    groups = returns.group_transitions(rollout, discount)
    average = returns.average_group_rewards(state.average, groups, hyper.baseline_decay)
    baseline = average.mean()
    learning = Learning(state.params, state.optimiser, None, state.gradient_steps)
    draw_key, order_key = jax.random.split(key)

    replay: Any = None
    held = state.held
    if config.capacity:
        replay, held = _stored(parts, state, rollout, groups)
        learning = learning._replace(priorities=replay._replace(items=()))
        step = partial(_replay_step, parts, state, replay.items, baseline)
        count = _number_of_steps(config, rollout, replay)
        if count is None:
            steps: Any = jax.random.split(draw_key, config.gradient_steps)
            learning, metrics = jax.lax.scan(step, learning, steps)
        else:
            learning, metrics = _repeated(step, learning, draw_key, count)
    else:
        known = _batch_of(parts, rollout, groups, discount, state)
        known = _rows_by_cluster(config, known)
        step = partial(_rollout_step, parts, state, known, baseline)
        steps = _rows_of(config, order_key, known.target.shape[1])
        learning, metrics = jax.lax.scan(step, learning, steps)
    if config.capacity:
        replay = learning.priorities._replace(items=replay.items)
    state = ActorCriticState(
        params=learning.params,
        optimiser=learning.optimiser,
        replay=replay,
        held=held,
        average=average,
        hyper=hyper,
        updates=state.updates + 1,
        gradient_steps=learning.gradient_steps,
    )
    metrics = jax.tree.map(jnp.mean, metrics) | {"baseline": baseline}
    if config.capacity:
        metrics["replay_size"] = jnp.sum(replay.size, dtype=jnp.float32)
    return state, metrics


def _stored(
    parts: Parts, state: ActorCriticState, rollout: Rollout, groups: returns.Groups
) -> tuple[Any, Any]:
    """The replay with the rollout's decisions, and those held for the next rollout."""
    config = parts.config
    if not config.held:
        new = by_cluster(_decisions_of(parts, rollout, groups), config.num_clusters)
        kept = by_cluster(_kept(parts, rollout), config.num_clusters)
        return jax.vmap(memory.add)(state.replay, new, kept), None
    own = rollout._replace(branches=())
    joined = jax.tree.map(
        lambda before, now: jnp.concatenate([before, now.astype(before.dtype)]),
        state.held.rollout,
        own,
    )
    unknown = jnp.concatenate([state.held.waits, jnp.ones_like(rollout.terminated)])
    horizon_s = None if config.horizon_s is None else state.hyper.horizon_s
    discount = returns.step_discounts(joined, state.hyper.gamma, horizon_s)
    groups = returns.group_transitions(joined, discount)
    new = by_cluster(_decisions_of(parts, joined, groups), config.num_clusters)
    ended, kept = unknown & groups.complete, _kept(parts, joined)
    stored = by_cluster(ended if kept is None else ended & kept, config.num_clusters)
    replay = jax.vmap(memory.add)(state.replay, new, stored)
    last, waits = jax.tree.map(lambda x: x[-config.held :], (joined, unknown & ~groups.complete))
    return replay, Held(last, waits)


def _kept(parts: Parts, rollout: Rollout) -> Array | None:
    """Decisions that are learnt from, bool ``[T, B]``; None: all."""
    if parts.kept is None:
        return None
    return jax.vmap(jax.vmap(parts.kept))(rollout.next_observation)


def _number_of_steps(config: ActorCriticConfig, rollout: Rollout, replay: Replay) -> Array | None:
    """Gradient steps of this update, int32; None where it is always ``gradient_steps``."""
    if config.step_per == "update" and not config.fill_first:
        return None
    count = jnp.int32(config.gradient_steps)
    if config.step_per == "group":
        count *= jnp.sum(returns.group_ends(rollout), dtype=jnp.int32)
    full = jnp.all(replay.size == config.capacity)
    return jnp.where(full, count, 0) if config.fill_first else count


def _repeated(
    step: Any, learning: Learning, key: PRNGKey, count: Array
) -> tuple[Learning, Metrics]:
    """So many steps, and the means of their metrics, 0 of none."""
    shapes = jax.eval_shape(step, learning, key)[1]
    sums = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def again(index: Array, carry: tuple[Learning, Metrics]) -> tuple[Learning, Metrics]:
        learning, sums = carry
        learning, metrics = step(learning, jax.random.fold_in(key, index))
        return learning, jax.tree.map(jnp.add, sums, metrics)

    learning, sums = jax.lax.fori_loop(0, count, again, (learning, sums))
    taken = jnp.maximum(count, 1).astype(jnp.float32)
    return learning, jax.tree.map(lambda x: x / taken, sums) | {"steps": count.astype(jnp.float32)}


def _decisions_of(parts: Parts, rollout: Rollout, groups: returns.Groups) -> Decision:
    following, reward = returns.at_group_end(groups, rollout.next_observation), groups.reward
    if parts.credit is not None:
        of_each = jax.vmap(jax.vmap(parts.credit))
        reward = of_each(rollout.observation, rollout.action, following).astype(jnp.float32)
    return Decision(
        observation=rollout.observation,
        mask=rollout.mask,
        action=rollout.action,
        reward=reward,
        discount=groups.discount,
        next_observation=following,
        weight=_known_weight(parts, groups),
        scores=rollout.extras if parts.config.stores_scores else (),
    )


def _batch_of(
    parts: Parts,
    rollout: Rollout,
    groups: returns.Groups,
    discount: Array,
    state: ActorCriticState,
) -> Batch:
    target = groups.reward
    if parts.config.baseline == "value":
        next_values = parts.values(state.params.value, rollout.next_observation)
        target = returns.lambda_returns(rollout, discount, next_values, state.hyper.lambda_)
    weight = _known_weight(parts, groups)
    return Batch(rollout.observation, rollout.mask, rollout.action, target, weight)


def _known_weight(parts: Parts, groups: returns.Groups) -> Array:
    """Weight of a decision: without a value to bootstrap from, its group must have ended."""
    known = groups.complete | (parts.config.baseline == "value")
    return known.astype(jnp.float32)


def _rows_of(config: ActorCriticConfig, key: PRNGKey, num_rows: int) -> Array:
    """Rows of each cluster that each gradient step learns from, ``[steps, C, N]``."""
    if config.batch_size is None:
        shape = (config.gradient_steps, config.num_clusters, num_rows)
        return jnp.broadcast_to(jnp.arange(num_rows), shape)
    size = config.batch_size // config.num_clusters
    rows = jax.vmap(lambda k: minibatches(k, num_rows, config.gradient_steps, size))(
        jax.random.split(key, config.num_clusters)
    )
    return jnp.swapaxes(rows, 0, 1)


def _replay_step(
    parts: Parts,
    state: ActorCriticState,
    items: Decision,
    baseline: Array,
    learning: Learning,
    key: PRNGKey,
) -> tuple[Learning, Metrics]:
    """A gradient step on decisions drawn by priority, which is renewed."""
    config, hyper = parts.config, state.hyper
    assert config.batch_size is not None
    size = config.batch_size // config.num_clusters
    beta = jnp.minimum(hyper.beta_start + hyper.beta_growth * learning.gradient_steps, 1.0)
    replay = learning.priorities._replace(items=items)
    keys = jax.random.split(key, config.num_clusters)
    over_memory = config.importance == "memory"
    drawn, index, probability = jax.vmap(
        lambda k, r: memory.sample(k, r, size, stratified=over_memory)
    )(keys, replay)
    if over_memory:
        least = jax.vmap(memory.least_probability)(replay)
        importance = (probability / least[:, None]) ** -beta
    else:
        importance = jax.vmap(lambda p, n: memory.importance_weights(p, n, beta))(
            probability, replay.size
        )
    target = drawn.reward
    if config.baseline == "value":
        following = parts.values(learning.params.value, drawn.next_observation)
        target = drawn.reward + drawn.discount * following
    weight = drawn.weight if over_memory else importance * drawn.weight
    scale = importance if over_memory else None
    batch = Batch(drawn.observation, drawn.mask, drawn.action, target, weight, scale, drawn.scores)
    learning, advantage, metrics = learn_from(
        parts, state.updates, state.hyper, batch, baseline, learning
    )
    priority = priority_of(advantage * drawn.weight, hyper)
    priorities = jax.vmap(memory.set_priorities)(learning.priorities, index, priority)
    priorities = priorities._replace(max_priority=learning.priorities.max_priority)  # of new ones
    return learning._replace(priorities=priorities), metrics | {"beta": beta}


def _rollout_step(
    parts: Parts,
    state: ActorCriticState,
    known: Batch,
    baseline: Array,
    learning: Learning,
    rows: Array,
) -> tuple[Learning, Metrics]:
    """A gradient step on some rows of the rollout."""
    batch = known
    if parts.config.batch_size is not None:
        batch = jax.tree.map(lambda x: jax.vmap(lambda y, r: y[r])(x, rows), known)
    learning, _, metrics = learn_from(parts, state.updates, state.hyper, batch, baseline, learning)
    return learning, metrics


def priority_of(advantage: Array, hyper: Any) -> Array:
    """``min(|advantage| + floor, most) ** alpha``, of the shape of ``advantage``."""
    most = hyper.priority_most
    return jnp.minimum(jnp.abs(advantage) + hyper.priority_floor, most) ** hyper.alpha


def _rows_by_cluster(config: ActorCriticConfig, tree: PyTree) -> PyTree:
    """The same where rows are drawn; in any order that suits the devices where all are used."""
    if num_parts(ENVS) == 1:
        return by_cluster(tree, config.num_clusters)
    if config.batch_size is not None:
        return whole(by_cluster(tree, config.num_clusters))
    return jax.tree.map(
        lambda x: jnp.swapaxes(x, 0, 1).reshape(config.num_clusters, -1, *x.shape[2:]), tree
    )


def by_cluster(tree: PyTree, num_clusters: int) -> PyTree:
    """Leaves ``[T, B, ...]`` as ``[C, T * B / C, ...]``: neighbouring environments together."""

    def split(x: Array) -> Array:
        num_steps, batch, *rest = x.shape
        parts = x.reshape(num_steps, num_clusters, batch // num_clusters, *rest)
        return jnp.swapaxes(parts, 0, 1).reshape(num_clusters, -1, *rest)

    return jax.tree.map(split, tree)
