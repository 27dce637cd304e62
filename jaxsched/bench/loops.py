"""The loops that are timed: many environments, stepped by chance or by a network.

Axes: ``T`` time, ``B`` batch of environments.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.bench.timing import Loop, consume, hashed_uniform, pick_uniform
from jaxsched.environment import Current, Environment, start, step_and_reset
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree

Choose = Callable[[Array, PyTree, PyTree], PyTree]


def start_many(env: Environment, params: Any, batch: int) -> Current:
    """``batch`` environments at the start of episodes drawn at random."""
    keys = jax.random.split(jax.random.key(1), batch)
    return jax.jit(jax.vmap(lambda key: start(env, key, params)))(keys)


def at_random(spec: PyTree) -> Choose:
    """Uniform legal actions, leaves ``[B, ...]``, of an environment's action spec."""
    if isinstance(spec, DiscreteSpec):
        return lambda draw, observation, mask: jax.vmap(pick_uniform)(draw, mask)
    leaves, tree = jax.tree.flatten(spec, is_leaf=lambda leaf: isinstance(leaf, ArraySpec))

    def choose(draw: Array, observation: PyTree, mask: PyTree) -> PyTree:
        del observation, mask
        drawn = [
            jax.vmap(lambda word, leaf=leaf, n=n: hashed_uniform(word + n, leaf.shape))(draw)
            for n, leaf in enumerate(leaves)
        ]
        return jax.tree.unflatten(tree, drawn)

    return choose


def greedy(score: Callable[[PyTree, PyTree], Array], weights: PyTree) -> Choose:
    """The legal action of the highest score, ``[B]``."""

    def choose(draw: Array, observation: PyTree, mask: PyTree) -> PyTree:
        del draw
        return jnp.argmax(jnp.where(mask, score(weights, observation), -jnp.inf), axis=-1)

    return choose


def environment_loop(
    env: Environment, params: Any, choose: Choose, *, batch: int, num_steps: int
) -> Loop:
    """``num_steps`` steps of ``batch`` environments, reset automatically, each observation used.

    One random word per environment and step gives the action (low half) and the episode to start
    if this one ends (high half); the environments get keys of their own, if they use any.

    Returns:
      The loop; beside the carry it returns, for each step, a number that depends on all that was
      seen, and the share of the environments that took a decision (float32 ``[num_steps]``).
    """
    episodes = env.num_episodes(params)

    def step(current: Current, at: tuple[PRNGKey, Array]) -> tuple[Current, tuple[Array, Array]]:
        key, draw = at
        observation, mask = jax.vmap(lambda state: env.observe(state, params))(current.state)
        action = choose(draw, observation, mask)
        episode = (((draw >> 16) * episodes) >> 16).astype(jnp.int32)

        def one(index: Array, current: Current, action: PyTree, episode: Array) -> Any:
            own_key = jax.random.fold_in(key, index)
            return step_and_reset(env, own_key, current, action, params, episode=episode)

        following, timestep = jax.vmap(one)(jnp.arange(batch), current, action, episode)
        used = jnp.sum(jax.vmap(consume)(observation)) + jnp.sum(timestep.reward)
        decided = jnp.mean(jax.vmap(env.decides)(current.state), dtype=jnp.float32)
        return following, (used, decided)

    def loop(key: PRNGKey, current: Current) -> tuple[Current, tuple[Array, Array]]:
        draw_key, step_key = jax.random.split(key)
        draws = jax.random.bits(draw_key, (num_steps, batch), jnp.uint32)
        return jax.lax.scan(step, current, (jax.random.split(step_key, num_steps), draws))

    return loop
