"""Deep Q-network with prioritised replay, double and n-step targets, and masked actions.

Mnih et al. 2015 (target network, replay), van Hasselt et al. 2016 (double), Schaul et al. 2016
(priorities), Sutton 1988 (n-step). One call of ``update`` is::

    store the n-step transitions of the rollout
    gradient_steps times:
        draw a batch in proportion to priority ** alpha
        target = reward + discount * q_target(next, best legal next action)
        one Adam step on the weighted Huber loss of target - q(observation, action)
        new priorities from the absolute errors; now and then, renew the target network

Environments may discount by simulated time: with ``horizon_s`` a step that took ``elapsed``
seconds is discounted by ``exp(-elapsed / horizon_s)``, so decisions at one instant are not.

Axes: ``B`` batch, ``A`` actions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Annotated, Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms import replay as memory
from jaxsched.algorithms.replay import Replay, Transition
from jaxsched.algorithms.settings import linear, traced, traced_values
from jaxsched.algorithms.softmax import any_legal, as_float32, best_legal, clipped_adam, descend
from jaxsched.core.learner import Learner, Metrics
from jaxsched.core.sharding import split, whole_layout
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.options import Bounds, Count, Positive, check
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

Explore = Callable[[PRNGKey, PyTree, Array], Array]


@dataclass(frozen=True)
class DQNConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which learning rate, epsilon and beta move.
      gradient_steps: gradient steps per call of ``update``.
      batch_size: transitions per gradient step.
      capacity: transitions held in replay.
      learning_starts: transitions held before the first gradient step.
      n_step: largest number of steps joined in one target.
      double: choose the bootstrap action with the online network.
      prioritised: proportional priorities; uniform draws if false.
      target_period: gradient steps between hard copies into the target network.
      target_rate: if given, move the target network by this fraction after each gradient step
        instead (Polyak averaging).
      observation_dtype: dtype name in which replay stores floating-point observations, e.g.
        ``"float16"`` to halve its memory; as they come by default.
      learning_rate: of Adam, at the start.
      final_learning_rate: at the end; linear in between.
      gamma: discount per step; unused where ``horizon_s`` is given.
      horizon_s: discount by time, ``exp(-elapsed / horizon_s)`` per step.
      epsilon_start: probability of an exploring action, at the start.
      epsilon_end: the same after ``epsilon_fraction`` of the updates; linear in between.
      epsilon_fraction: see ``epsilon_end``.
      alpha: exponent of the priorities.
      beta_start: exponent of the importance weights at the start; 1 at the end.
      priority_floor: added to each absolute error.
      max_gradient_norm: global norm to which gradients are clipped.
    """

    total_updates: Count
    gradient_steps: Count = 1
    batch_size: Count = 256
    capacity: Count = 400_000
    learning_starts: Annotated[int, Bounds(0)] = 10_000
    n_step: Count = 1
    double: bool = True
    prioritised: bool = True
    target_period: Count = 400
    target_rate: float | None = traced(None, absent=1.0)
    observation_dtype: str | None = None
    learning_rate: float = traced(3e-4)
    final_learning_rate: float = traced(3e-5)
    gamma: float = traced(0.99)
    horizon_s: float | None = traced(None, absent=inf)
    epsilon_start: float = traced(1.0)
    epsilon_end: float = traced(0.01)
    epsilon_fraction: float = traced(0.15)
    alpha: float = traced(0.6)
    beta_start: float = traced(0.4)
    priority_floor: Positive = traced(1e-3)
    max_gradient_norm: float = 10.0

    def __post_init__(self) -> None:
        """Check that the sizes are positive and fit together."""
        check(self)
        if self.learning_starts > self.capacity:
            raise JaxschedError(
                f"DQNConfig.learning_starts is {self.learning_starts}, but replay holds only "
                f"{self.capacity} (capacity); learning would never start"
            )


class DQNState(NamedTuple):
    """The learner's state."""

    params: PyTree
    target_params: PyTree
    optimiser: optax.OptState
    replay: Replay
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``
    gradient_steps: Array  # int32, gradient steps taken


class _Learning(NamedTuple):
    """What one gradient step changes (replay: its priorities only)."""

    params: PyTree
    target_params: PyTree
    optimiser: optax.OptState
    priorities: Replay  # with no items
    gradient_steps: Array


def explore_uniformly(key: PRNGKey, observation: PyTree, mask: Array) -> Array:
    """A legal action per row, each with the same probability; int32 ``[B]``."""
    del observation
    return any_legal(key, mask)


class _Parts(NamedTuple):
    """What a DQN is made of."""

    network: nn.Module
    config: DQNConfig
    explore: Explore
    optimiser: optax.GradientTransformation

    def q_values(self, params: PyTree, observation: PyTree) -> Array:
        """Float32 ``[B, A]``."""
        return cast(Array, self.network.apply(params, observation))


def dqn(network: nn.Module, config: DQNConfig, explore: Explore = explore_uniformly) -> Learner:
    """A DQN learner.

    Args:
      network: flax module, ``apply(params, observation) -> q`` of float32 ``[B, A]``.
      config: settings. ``state.hyper`` holds the traced floats and may be replaced, also by
        batched leaves under vmap.
      explore: ``(key, observation, mask) -> action`` over leaves ``[B, ...]``, the action taken
        with probability epsilon; a uniform legal one by default.

    Returns:
      The learner; its ``act`` returns no extras.
    """
    parts = _Parts(network, config, explore, clipped_adam(config.max_gradient_norm))
    functions = partial(_init, parts), partial(_act, parts), partial(_update, parts)
    return Learner(*functions, lambda state: state.params, layout=_layout)


def _init(parts: _Parts, key: PRNGKey, specs: Specs, params: PyTree | None = None) -> DQNState:
    config = parts.config
    observation = jax.tree.map(lambda spec: spec.zeros(), specs.observation)
    if params is None:
        params = parts.network.init(key, jax.tree.map(lambda x: x[None], observation))
    stored = jax.tree.map(partial(_to_storage, dtype=config.observation_dtype), observation)
    example = Transition(
        observation=stored,
        action=jnp.int32(0),
        reward=jnp.float32(0),
        discount=jnp.float32(0),
        next_observation=stored,
        next_mask=jnp.zeros(specs.action.num_actions, bool),
    )
    return DQNState(
        params=params,
        target_params=params,
        optimiser=parts.optimiser.init(params),
        replay=memory.init(example, config.capacity),
        hyper=traced_values(config),
        updates=jnp.int32(0),
        gradient_steps=jnp.int32(0),
    )


def _layout(state: DQNState) -> DQNState:
    layout: DQNState = whole_layout(state)
    return layout._replace(replay=memory.layout(state.replay))


def _act(
    parts: _Parts, state: DQNState, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
) -> tuple[Array, tuple[()]]:
    action = best_legal(parts.q_values(state.params, observation), mask)
    if greedy:
        return action, ()
    coin_key, explore_key = jax.random.split(key)
    exploring = jax.random.uniform(coin_key, action.shape, jnp.float32) < _epsilon(parts, state)
    return jnp.where(exploring, parts.explore(explore_key, observation, mask), action), ()


def _update(
    parts: _Parts, state: DQNState, rollout: Rollout, key: PRNGKey
) -> tuple[DQNState, Metrics]:
    config = parts.config
    discount = _step_discount(parts, state, rollout.elapsed)
    replay = memory.add(state.replay, memory.n_step_transitions(rollout, discount, config.n_step))
    learning = _Learning(
        state.params,
        state.target_params,
        state.optimiser,
        replay._replace(items=()),
        state.gradient_steps,
    )
    step = partial(_gradient_step, parts, state, replay.items)
    learning, metrics = jax.lax.scan(step, learning, jax.random.split(key, config.gradient_steps))
    state = DQNState(
        params=learning.params,
        target_params=learning.target_params,
        optimiser=learning.optimiser,
        replay=learning.priorities._replace(items=replay.items),
        hyper=state.hyper,
        updates=state.updates + 1,
        gradient_steps=learning.gradient_steps,
    )
    metrics = jax.tree.map(jnp.mean, metrics)
    metrics |= {
        "epsilon": _epsilon(parts, state),
        "replay_size": replay.size.astype(jnp.float32),
    }
    return state, metrics


def _gradient_step(
    parts: _Parts, state: DQNState, items: Transition, learning: _Learning, key: PRNGKey
) -> tuple[_Learning, Metrics]:
    """Draw a batch, take one step on its loss, renew priorities and perhaps the target network."""
    hyper, progress = state.hyper, state.updates / parts.config.total_updates
    replay = learning.priorities._replace(items=items)
    draw = memory.sample if parts.config.prioritised else memory.sample_uniform
    batch, index, probability = draw(key, replay, parts.config.batch_size)
    batch = split(batch)
    beta = linear(hyper.beta_start, jnp.float32(1), progress)
    weight = memory.importance_weights(probability, replay.size, beta)
    batch = batch._replace(
        observation=jax.tree.map(as_float32, batch.observation),
        next_observation=jax.tree.map(as_float32, batch.next_observation),
    )
    target = _bootstrap_target(parts, learning, batch)

    def loss_of(params: PyTree) -> tuple[Array, tuple[Array, Array]]:
        values = parts.q_values(params, batch.observation)
        value = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0]
        return jnp.mean(weight * optax.huber_loss(target, value)), (target - value, value)

    (loss, (error, value)), gradient = jax.value_and_grad(loss_of, has_aux=True)(learning.params)
    learning_rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
    following = _descended(parts, state, learning, gradient, learning_rate)

    # Until enough is stored everything stays as it was: a select over small arrays.
    learns = replay.size >= parts.config.learning_starts
    following = _where_due(parts, learns, following, learning)
    if parts.config.prioritised:
        priority = (jnp.abs(error) + hyper.priority_floor) ** hyper.alpha
        priority = jnp.where(learns, priority, memory.priority_of(replay, index))
        priorities = memory.set_priorities(learning.priorities, index, priority)
        following = following._replace(priorities=priorities)
    return following, {
        "loss": loss,
        "td_error_abs": jnp.mean(jnp.abs(error)),
        "q_mean": jnp.mean(value),
        "target_mean": jnp.mean(target),
        "gradient_norm": optax.global_norm(gradient),
        "learning_rate": learning_rate,
        "beta": beta,
    }


def _bootstrap_target(parts: _Parts, learning: _Learning, batch: Transition) -> Array:
    """``reward + discount * q_target`` of the best legal next action, ``[B]``."""
    target_values = parts.q_values(learning.target_params, batch.next_observation)
    choosing = target_values
    if parts.config.double:
        choosing = parts.q_values(learning.params, batch.next_observation)
    action = best_legal(choosing, batch.next_mask)
    value = jnp.take_along_axis(target_values, action[:, None], axis=-1)[:, 0]
    return batch.reward + batch.discount * value


def _descended(
    parts: _Parts, state: DQNState, learning: _Learning, gradient: PyTree, rate: Array
) -> _Learning:
    """One Adam step, and the target network moved after it."""
    params, adam = descend(parts.optimiser, learning.params, learning.optimiser, gradient, rate)
    target = optax.incremental_update(params, learning.target_params, state.hyper.target_rate)
    return _Learning(params, target, adam, learning.priorities, learning.gradient_steps + 1)


def _where_due(
    parts: _Parts, learns: Array, following: _Learning, learning: _Learning
) -> _Learning:
    """``following`` where learning has begun; its target network where that is to be renewed."""
    renewed = following.gradient_steps % parts.config.target_period == 0
    renews = learns & (renewed | (parts.config.target_rate is not None))
    params, adam, steps = select(
        learns,
        (following.params, following.optimiser, following.gradient_steps),
        (learning.params, learning.optimiser, learning.gradient_steps),
    )
    target_params = select(renews, following.target_params, learning.target_params)
    return _Learning(params, target_params, adam, learning.priorities, steps)


def _step_discount(parts: _Parts, state: DQNState, elapsed: Array) -> Array:
    if parts.config.horizon_s is None:
        return jnp.broadcast_to(state.hyper.gamma, elapsed.shape)
    return jnp.exp(-elapsed / state.hyper.horizon_s)


def _epsilon(parts: _Parts, state: DQNState) -> Array:
    progress = state.updates / (parts.config.total_updates * state.hyper.epsilon_fraction)
    return linear(state.hyper.epsilon_start, state.hyper.epsilon_end, progress)


def _to_storage(x: Array, dtype: str | None) -> Array:
    return x.astype(dtype) if dtype and jnp.issubdtype(x.dtype, jnp.floating) else x
