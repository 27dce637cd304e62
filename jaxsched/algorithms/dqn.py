"""Deep Q-network with prioritised replay, double and n-step targets, and masked actions.

Mnih et al. 2015 (target network, replay), van Hasselt et al. 2016 (double), Schaul et al. 2016
(priorities), Sutton 1988 (n-step). One call of ``update`` is

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
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms import replay as memory
from jaxsched.algorithms.replay import Replay, Transition
from jaxsched.core.learner import Learner, Metrics
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

Explore = Callable[[PRNGKey, PyTree, Array], Array]


@dataclass(frozen=True)
class DQNConfig:
    """Settings; the integers and options are static, the floats become a traced ``Hyper``.

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
      huber_delta: absolute error from which the loss is linear.
    """

    total_updates: int
    gradient_steps: int = 1
    batch_size: int = 256
    capacity: int = 400_000
    learning_starts: int = 10_000
    n_step: int = 1
    double: bool = True
    prioritised: bool = True
    target_period: int = 400
    target_rate: float | None = None
    observation_dtype: str | None = None
    learning_rate: float = 3e-4
    final_learning_rate: float = 3e-5
    gamma: float = 0.99
    horizon_s: float | None = None
    epsilon_start: float = 1.0
    epsilon_end: float = 0.01
    epsilon_fraction: float = 0.15
    alpha: float = 0.6
    beta_start: float = 0.4
    priority_floor: float = 1e-3
    max_gradient_norm: float = 10.0
    huber_delta: float = 1.0

    def __post_init__(self) -> None:
        """Check that the sizes are positive and fit together."""
        for name in (
            "total_updates",
            "gradient_steps",
            "batch_size",
            "capacity",
            "n_step",
            "target_period",
        ):
            if getattr(self, name) < 1:
                raise JaxschedError(
                    f"DQNConfig.{name} is {getattr(self, name)}; it must be at least 1"
                )
        if self.learning_starts > self.capacity:
            raise JaxschedError(
                f"DQNConfig.learning_starts is {self.learning_starts}, but replay holds only "
                f"{self.capacity} (capacity); learning would never start"
            )
        if self.priority_floor <= 0:
            raise JaxschedError(
                f"DQNConfig.priority_floor is {self.priority_floor}; it must be above 0"
            )


class Hyper(NamedTuple):
    """The floats of ``DQNConfig`` as float32 scalars in the state, so that a sweep is a vmap."""

    learning_rate: Array
    final_learning_rate: Array
    gamma: Array
    horizon_s: Array  # infinite where steps are discounted by gamma
    epsilon_start: Array
    epsilon_end: Array
    epsilon_fraction: Array
    alpha: Array
    beta_start: Array
    priority_floor: Array
    huber_delta: Array
    target_rate: Array  # 1 where the target network is copied


class DQNState(NamedTuple):
    """Everything that the learner remembers."""

    params: PyTree
    target_params: PyTree
    optimiser: optax.OptState
    replay: Replay
    hyper: Hyper
    updates: Array  # int32, calls of ``update``
    gradient_steps: Array  # int32, gradient steps taken


class _Learning(NamedTuple):
    """What one gradient step changes (replay: its priorities only)."""

    params: PyTree
    target_params: PyTree
    optimiser: optax.OptState
    priorities: Replay  # with no items
    gradient_steps: Array


def hyper_of(config: DQNConfig) -> Hyper:
    """The traced floats of a configuration."""
    values = {name: getattr(config, name) for name in Hyper._fields}
    if config.horizon_s is None:
        values["horizon_s"] = float("inf")
    if config.target_rate is None:
        values["target_rate"] = 1.0
    return Hyper(**{name: jnp.asarray(value, jnp.float32) for name, value in values.items()})


def linear(start: Array, end: Array, progress: Array) -> Array:
    """From ``start`` at progress 0 to ``end`` at 1 and beyond."""
    return start + (end - start) * jnp.clip(progress, 0.0, 1.0)


def explore_uniformly(key: PRNGKey, observation: PyTree, mask: Array) -> Array:
    """A legal action per row, each with the same probability; int32 ``[B]``."""
    del observation
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)).astype(jnp.int32)


def best_legal(values: Array, mask: Array) -> Array:
    """The legal action of largest value, int32 ``[B]`` from ``[B, A]``."""
    return jnp.argmax(jnp.where(mask, values, -jnp.inf), axis=-1).astype(jnp.int32)


def dqn(network: nn.Module, config: DQNConfig, explore: Explore = explore_uniformly) -> Learner:
    """A DQN learner.

    Args:
      network: flax module, ``apply(params, observation) -> q`` of float32 ``[B, A]``.
      config: settings. ``state.hyper`` holds the floats and may be replaced, also by batched
        leaves under vmap.
      explore: ``(key, observation, mask) -> action`` over leaves ``[B, ...]``, the action taken
        with probability epsilon; a uniform legal one by default.

    Returns:
      The learner; its ``act`` returns no extras.
    """
    optimiser = optax.chain(
        optax.clip_by_global_norm(config.max_gradient_norm), optax.scale_by_adam()
    )

    def q_values(params: PyTree, observation: PyTree) -> Array:
        return cast(Array, network.apply(params, observation))

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> DQNState:
        observation = jax.tree.map(lambda spec: spec.zeros(), specs.observation)
        if params is None:
            params = network.init(key, jax.tree.map(lambda x: x[None], observation))
        stored = jax.tree.map(_to_storage, observation)
        num_actions = specs.action.num_actions
        example = Transition(
            observation=stored,
            action=jnp.int32(0),
            reward=jnp.float32(0),
            discount=jnp.float32(0),
            next_observation=stored,
            next_mask=jnp.zeros(num_actions, bool),
        )
        return DQNState(
            params=params,
            target_params=params,
            optimiser=optimiser.init(params),
            replay=memory.init(example, config.capacity),
            hyper=hyper_of(config),
            updates=jnp.int32(0),
            gradient_steps=jnp.int32(0),
        )

    def act(
        state: DQNState, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, tuple[()]]:
        action = best_legal(q_values(state.params, observation), mask)
        if greedy:
            return action, ()
        coin_key, explore_key = jax.random.split(key)
        exploring = jax.random.uniform(coin_key, action.shape) < epsilon(state)
        return jnp.where(exploring, explore(explore_key, observation, mask), action), ()

    def update(state: DQNState, rollout: Rollout, key: PRNGKey) -> tuple[DQNState, Metrics]:
        discount = step_discount(state.hyper, rollout.elapsed)
        transitions = memory.n_step_transitions(rollout, discount, config.n_step)
        replay = memory.add(state.replay, transitions)
        learning = _Learning(
            state.params,
            state.target_params,
            state.optimiser,
            replay._replace(items=()),
            state.gradient_steps,
        )

        def step(learning: _Learning, key: PRNGKey) -> tuple[_Learning, Metrics]:
            return gradient_step(learning, key, state, replay.items)

        learning, metrics = jax.lax.scan(
            step, learning, jax.random.split(key, config.gradient_steps)
        )
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
        metrics |= {"epsilon": epsilon(state), "replay_size": replay.size.astype(jnp.float32)}
        return state, metrics

    def gradient_step(
        learning: _Learning, key: PRNGKey, state: DQNState, items: Transition
    ) -> tuple[_Learning, Metrics]:
        hyper, progress = state.hyper, state.updates / config.total_updates
        replay = learning.priorities._replace(items=items)
        draw = memory.sample if config.prioritised else memory.sample_uniform
        batch, index, probability = draw(key, replay, config.batch_size)
        beta = linear(hyper.beta_start, jnp.float32(1), progress)
        weight = memory.importance_weights(probability, replay.size, beta)
        batch = batch._replace(
            observation=jax.tree.map(_from_storage, batch.observation),
            next_observation=jax.tree.map(_from_storage, batch.next_observation),
        )
        target = bootstrap_target(learning, batch)

        def loss_of(params: PyTree) -> tuple[Array, tuple[Array, Array]]:
            values = q_values(params, batch.observation)
            value = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0]
            error = target - value
            return jnp.mean(weight * huber(error, hyper.huber_delta)), (error, value)

        (loss, (error, value)), gradient = jax.value_and_grad(loss_of, has_aux=True)(
            learning.params
        )
        direction, adam = optimiser.update(gradient, learning.optimiser)
        learning_rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
        params = jax.tree.map(lambda p, d: p - learning_rate * d, learning.params, direction)

        steps = learning.gradient_steps + 1
        target_params = optax.incremental_update(params, learning.target_params, hyper.target_rate)

        # Until enough is stored everything stays as it was: a select over small arrays.
        learns = replay.size >= config.learning_starts
        renews = learns & ((steps % config.target_period == 0) | (config.target_rate is not None))
        params, adam = select(learns, (params, adam), (learning.params, learning.optimiser))
        target_params = select(renews, target_params, learning.target_params)
        priorities = learning.priorities
        if config.prioritised:
            priority = (jnp.abs(error) + hyper.priority_floor) ** hyper.alpha
            priority = jnp.where(learns, priority, memory.priority_of(replay, index))
            priorities = memory.set_priorities(priorities, index, priority)
        metrics = {
            "loss": loss,
            "td_error_abs": jnp.mean(jnp.abs(error)),
            "q_mean": jnp.mean(value),
            "target_mean": jnp.mean(target),
            "gradient_norm": optax.global_norm(gradient),
            "learning_rate": learning_rate,
            "beta": beta,
        }
        steps = jnp.where(learns, steps, learning.gradient_steps)
        return _Learning(params, target_params, adam, priorities, steps), metrics

    def bootstrap_target(learning: _Learning, batch: Transition) -> Array:
        target_values = q_values(learning.target_params, batch.next_observation)
        choosing = (
            q_values(learning.params, batch.next_observation) if config.double else target_values
        )
        action = best_legal(choosing, batch.next_mask)
        value = jnp.take_along_axis(target_values, action[:, None], axis=-1)[:, 0]
        return batch.reward + batch.discount * value

    def step_discount(hyper: Hyper, elapsed: Array) -> Array:
        if config.horizon_s is None:
            return jnp.broadcast_to(hyper.gamma, elapsed.shape)
        return jnp.exp(-elapsed / hyper.horizon_s)

    def epsilon(state: DQNState) -> Array:
        progress = state.updates / (config.total_updates * state.hyper.epsilon_fraction)
        return linear(state.hyper.epsilon_start, state.hyper.epsilon_end, progress)

    def _to_storage(x: Array) -> Array:
        floating = jnp.issubdtype(x.dtype, jnp.floating)
        return x.astype(config.observation_dtype) if config.observation_dtype and floating else x

    def _from_storage(x: Array) -> Array:
        return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return Learner(init, act, update, policy_params=lambda state: state.params)


def huber(error: Array, delta: Array) -> Array:
    """Quadratic up to ``delta``, linear beyond (Huber 1964)."""
    size = jnp.abs(error)
    quadratic = jnp.minimum(size, delta)
    return 0.5 * quadratic**2 + delta * (size - quadratic)
