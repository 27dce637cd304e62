"""Collecting experience: one policy in many copies of an environment.

Axes: ``T`` time, ``B`` batch of environments.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Current, Environment, start, step_and_reset
from jaxsched.core.sharding import over_environments, split
from jaxsched.ops.batching import in_single, select
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, TimeStep

BatchPolicy = Callable[[PyTree, PyTree, PRNGKey], tuple[PyTree, PyTree]]


class Running(NamedTuple):
    """Return and length so far of each environment's current episode."""

    episode_return: Array  # float32 [B], undiscounted
    episode_length: Array  # int32 [B]


class EpisodeSums(NamedTuple):
    """Totals over the episodes that ended in a rollout (divide by ``episodes`` for means)."""

    episodes: Array  # float32 scalar
    return_sum: Array  # float32 scalar
    length_sum: Array  # float32 scalar


def start_batch(
    env: Environment, key: PRNGKey, params: Any, batch: int, num_random_streams: int | None = None
) -> tuple[Current, Running]:
    """Reset ``batch`` environments, each into an episode drawn with ``key``.

    With ``num_random_streams`` environments ``i`` and ``i + num_random_streams`` draw the same
    numbers.
    """
    current = over_environments(
        lambda keys, params: jax.vmap(lambda k: start(env, k, params))(keys),
        _keys(key, batch, num_random_streams),
        params,
    )
    return current, Running(jnp.zeros(batch, jnp.float32), jnp.zeros(batch, jnp.int32))


def unroll(
    env: Environment,
    policy: BatchPolicy,
    key: PRNGKey,
    current: Current,
    running: Running,
    params: Any,
    *,
    length: int,
    time_limit: int | Array | None = None,
    num_random_streams: int | None = None,
) -> tuple[Current, Running, Rollout, EpisodeSums]:
    """Step every environment ``length`` times, with automatic reset.

    Args:
      env: the environment.
      policy: ``(observation, mask, key) -> (action, extras)`` over leaves ``[B, ...]``.
      key: used for actions, steps and the episodes drawn at resets.
      current: the environments' states, leaves ``[B, ...]``.
      running: return and length of their current episodes.
      params: environment parameters, shared by all.
      length: ``T``.
      time_limit: cut episodes after this many steps; none by default.
      num_random_streams: environments ``i`` and ``i + num_random_streams`` draw the same numbers
        in steps and resets; all draw their own by default.

    Returns:
      The next ``current`` and ``running``, the ``Rollout`` (leaves ``[T, B, ...]``) and the
      totals over the episodes that ended.
    """
    batch = current.steps.shape[0]

    def observed(state: PyTree, params: Any) -> tuple[PyTree, PyTree]:
        return in_single(jax.vmap(lambda one: env.observe(one, params))(state))

    def stepped(given: tuple, shared: tuple) -> tuple[Current, TimeStep]:
        params, limit = shared
        following, timestep = jax.vmap(
            lambda k, c, a: step_and_reset(env, k, c, a, params, time_limit=limit)
        )(*given)
        return following, in_single(timestep)

    def step(
        carry: tuple[Current, Running], key: PRNGKey
    ) -> tuple[tuple[Current, Running], tuple[Rollout, EpisodeSums]]:
        current, running = carry
        act_key, step_key = jax.random.split(key)
        observation, mask = over_environments(observed, current.state, params)
        action, extras = policy(observation, mask, act_key)
        keys = _keys(step_key, batch, num_random_streams)
        following, timestep = over_environments(
            stepped, (keys, current, action), (params, time_limit)
        )
        experience = Rollout(
            observation=observation,
            mask=mask,
            action=action,
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            elapsed=timestep.elapsed,
            next_observation=timestep.observation,
            next_mask=timestep.action_mask,
            extras=extras,
        )
        running, sums = over_environments(_count, (running, timestep.reward, timestep.done))
        return (following, running), (experience, sums)

    (current, running), (rollout, sums) = jax.lax.scan(
        step, (current, running), jax.random.split(key, length)
    )
    return current, running, split(rollout, 1), jax.tree.map(jnp.sum, sums)


def play_ahead(
    env: Environment,
    policy: BatchPolicy,
    key: PRNGKey,
    current: Current,
    running: Running,
    params: Any,
    *,
    length: int,
    time_limit: int | Array | None = None,
    num_random_streams: int | None = None,
) -> tuple[Current, Running]:
    """Step environments by 0 to nearly ``length`` steps, more in each next one.

    Environment ``i`` of ``B`` takes ``i * length / B`` steps, so that environments that start
    together cover all parts of an episode; with ``num_random_streams`` N, ``(i % N) * length / N``.

    Args:
      env: the environment.
      policy: as in :func:`unroll`.
      key: for actions, steps and episodes.
      current: the environments' states, leaves ``[B, ...]``.
      running: return and length of their current episodes.
      params: environment parameters, shared by all.
      length: steps.
      time_limit: as in :func:`unroll`.
      num_random_streams: as in :func:`unroll`.
    """
    batch = current.steps.shape[0]
    streams = batch if num_random_streams is None else num_random_streams
    steps = np.arange(batch) % streams * length // streams

    def play(index: Array, now: tuple[Current, Running]) -> tuple[Current, Running]:
        following = unroll(
            env,
            policy,
            jax.random.fold_in(key, index),
            *now,
            params,
            length=1,
            time_limit=time_limit,
            num_random_streams=num_random_streams,
        )[:2]
        played: tuple[Current, Running] = jax.vmap(select)(index < steps, following, now)
        return played

    ahead: tuple[Current, Running] = jax.lax.fori_loop(0, length, play, (current, running))
    return ahead


def _keys(key: PRNGKey, batch: int, num_random_streams: int | None) -> PRNGKey:
    """A key for each environment, repeating after ``num_random_streams``."""
    if num_random_streams is None:
        return jax.random.split(key, batch)
    return jnp.tile(jax.random.split(key, num_random_streams), batch // num_random_streams)


def _count(given: tuple[Running, Array, Array], _: tuple) -> tuple[Running, EpisodeSums]:
    """Add one step to the running sums; report and clear those of ended episodes.

    Totals have an axis of 1, so that each device keeps its own until the rollout ends.
    """
    running, reward, done = given
    episode_return = running.episode_return + reward
    episode_length = running.episode_length + 1
    sums = EpisodeSums(
        episodes=jnp.sum(done, dtype=jnp.float32, keepdims=True),
        return_sum=jnp.sum(jnp.where(done, episode_return, 0.0), keepdims=True),
        length_sum=jnp.sum(jnp.where(done, episode_length, 0), dtype=jnp.float32, keepdims=True),
    )
    cleared = Running(jnp.where(done, 0.0, episode_return), jnp.where(done, 0, episode_length))
    return cleared, sums
