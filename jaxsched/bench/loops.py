"""The loops that are timed: many environments, stepped by chance or by a network.

Axes: ``T`` time, ``B`` batch of environments.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.bench.timing import Loop, consume, hashed_uniform, pick_uniform
from jaxsched.core.environment import Current, Environment, start, step_and_reset
from jaxsched.core.policies import Policy, View
from jaxsched.ops import target
from jaxsched.ops.batching import select
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree

Sums = tuple[Array, ...]


class Chooser(NamedTuple):
    """What acts in a timed loop.

    Attributes:
      memory: at the start of an episode, for one environment.
      act: ``(draw, observation, mask, memory) -> (action, memory)`` over leaves ``[B, ...]``;
        ``draw`` is one random word per environment.
    """

    memory: PyTree
    act: Callable[[Array, PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]


def start_many(env: Environment, params: Any, batch: int) -> Current:
    """``batch`` environments at the start of episodes drawn at random."""
    keys = jax.random.split(jax.random.key(1), batch)
    return jax.jit(jax.vmap(lambda key: start(env, key, params)))(keys)


def at_random(spec: PyTree) -> Chooser:
    """Uniform legal actions of an environment's action spec."""
    leaves, tree = jax.tree.flatten(spec, is_leaf=lambda leaf: isinstance(leaf, ArraySpec))

    def act(draw: Array, observation: PyTree, mask: PyTree, memory: PyTree) -> tuple:
        del observation
        if isinstance(spec, DiscreteSpec):
            return jax.vmap(pick_uniform)(draw, mask), memory
        drawn = [
            jax.vmap(lambda word, leaf=leaf, n=n: hashed_uniform(word + n, leaf.shape))(draw)
            for n, leaf in enumerate(leaves)
        ]
        return jax.tree.unflatten(tree, drawn), memory

    return Chooser((), act)


def by_policy(policy: Policy, weights: PyTree, params: Any) -> Chooser:
    """A policy that looks at observations only; its draws come from one key, by environment."""

    def one(draw: Array, observation: PyTree, mask: PyTree, memory: PyTree) -> tuple:
        view = View(observation, mask, None, None)
        return policy.act(weights, memory, view, jax.random.key(draw))

    return Chooser(policy.init(params), jax.vmap(one))


def environment_loop(
    env: Environment, params: Any, chooser: Chooser, *, batch: int, num_steps: int
) -> Loop:
    """``num_steps`` steps of ``batch`` environments, reset automatically, each observation used.

    One random word per environment and step gives the action (low half) and the episode to start
    if this one ends (high half); the environments get keys of their own, if they use any.

    Returns:
      The loop; beside the carry it returns a number that depends on all that was seen, and the
      share of the steps that took a decision (float32).
    """
    episodes, per_step = env.num_episodes(params), target.on_cpu()
    always = type(env).decides is Environment.decides

    def step(
        carry: tuple[Current, PyTree, Sums], at: tuple[PRNGKey, Array]
    ) -> tuple[tuple[Current, PyTree, Sums], Sums]:
        current, memory, so_far = carry
        key, draw = at
        observation, mask = jax.vmap(lambda state: env.observe(state, params))(current.state)
        seen = jax.vmap(consume)(observation)
        draw = draw + jnp.isnan(seen)  # an action comes after what is seen, as a policy's does
        action, memory = chooser.act(draw, observation, mask, memory)
        episode = (((draw >> 16) * episodes) >> 16).astype(jnp.int32)

        def one(index: Array, current: Current, action: PyTree, episode: Array) -> Any:
            own_key = jax.random.fold_in(key, index)
            return step_and_reset(env, own_key, current, action, params, episode=episode)

        following, timestep = jax.vmap(one)(jnp.arange(batch), current, action, episode)
        decides = jax.vmap(env.decides)(current.state)
        memory = jax.vmap(select, (0, None, 0))(timestep.done, chooser.memory, memory)
        if per_step:
            used = jnp.sum(seen) + jnp.sum(timestep.reward)
            sums = used, jnp.mean(decides, dtype=jnp.float32)
            return (following, memory, so_far), sums
        # On a GPU a sum over environments is a kernel; on a CPU more to carry is slower.
        used, decided = so_far
        used += seen + timestep.reward
        return (following, memory, (used, decided if always else decided + decides)), ()

    def loop(key: PRNGKey, current: Current) -> tuple[Current, tuple[Array, Array]]:
        draw_key, step_key = jax.random.split(key)
        draws = jax.random.bits(draw_key, (num_steps, batch), jnp.uint32)
        keys = jax.random.split(step_key, num_steps)
        # In here, so that the program does not hold a constant for every environment.
        fresh = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), chooser.memory)
        counted = jnp.int32(num_steps) if always else jnp.zeros(batch, jnp.int32)
        nothing: Sums = () if per_step else (jnp.zeros(batch), counted)
        carry, sums = jax.lax.scan(step, (current, fresh, nothing), (keys, draws))
        used, decided = sums if per_step else (carry[2][0], carry[2][1] / num_steps)
        return carry[0], (jnp.sum(used), jnp.mean(decided))

    return loop
