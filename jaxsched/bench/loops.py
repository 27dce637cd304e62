"""The loops that are timed: many environments, stepped by chance or by a network.

Axes: ``T`` time, ``B`` batch of environments.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.bench.timing import Loop, consume, hashed_uniform, pick_uniform
from jaxsched.core.environment import Current, Environment, Observed, start, step_and_reset
from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.ops import lane_kernel, target
from jaxsched.ops.batching import select
from jaxsched.ops.lanes import LaneFunction
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree, TimeStep

Sums = tuple[Array, ...]


class Chooser(NamedTuple):
    """What acts in a timed loop.

    Attributes:
      memory: at the start of an episode, for one environment.
      act: ``(draw, observation, mask, memory) -> (action, memory)`` of one environment; ``draw`` is
        a random word.
      by_mask: whether it looks at nothing but the draw and the mask.
    """

    memory: PyTree
    act: Callable[[Array, PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]
    by_mask: bool = False


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
            return pick_uniform(draw, mask), memory
        drawn = [hashed_uniform(draw + n, leaf.shape) for n, leaf in enumerate(leaves)]
        return jax.tree.unflatten(tree, drawn), memory

    return Chooser((), act, by_mask=True)


def by_policy(policy: Policy, weights: PyTree, params: Any) -> Chooser:
    """A policy that looks at observations only; its draws come from one key, by environment."""

    def one(draw: Array, observation: PyTree, mask: PyTree, memory: PyTree) -> tuple:
        view = View(observation, mask, None, None)
        return policy.act(weights, memory, view, jax.random.key(draw))

    return Chooser(policy.init(params), one)


def environment_loop(
    env: Environment,
    params: Any,
    chooser: Chooser,
    *,
    batch: int,
    num_steps: int,
    lowering: str | None = None,
) -> Loop:
    """``num_steps`` steps of ``batch`` environments, reset automatically, each observation used.

    One random word per environment and step gives the action (low half) and the episode to start
    if this one ends (high half); the environments get keys of their own, if they use any. How the
    steps of one become those of all, ``lowering`` says, by default what ``lowering_of`` finds.

    Returns:
      The loop; beside the carry it returns a number that depends on all that was seen, and the
      share of the steps that took a decision (float32).

    Raises:
      JaxschedError: over lanes or as one kernel, where that is asked for: the environment draws
        numbers in its steps, or has an operation that is not covered (``ops.lanes``); as one
        kernel: what acts looks at more than the mask.
    """
    lowering = lowering or lowering_of(env, params, chooser)
    if lowering == target.KERNEL:
        return _kernel_loop(env, params, chooser, batch=batch, num_steps=num_steps)
    episodes, per_step = env.num_episodes(params), target.on_cpu()
    always = type(env).decides is Environment.decides
    axis = -1 if lowering == target.LANES else 0
    vectorised = _over_lanes if lowering == target.LANES else _by_vmap

    def loop(key: PRNGKey, current: Current) -> tuple[Current, tuple[Array, Array]]:
        step_many = vectorised(env, params, chooser)

        def step(
            carry: tuple[Current, PyTree, Sums], at: tuple[PRNGKey, Array]
        ) -> tuple[tuple[Current, PyTree, Sums], Sums]:
            current, memory, so_far = carry
            key, draw = at
            observe = jax.vmap(lambda state: env.observe(state, params), axis)
            observation, mask = observe(current.state)
            seen = jax.vmap(consume)(observation)
            draw = draw + jnp.isnan(seen)  # an action comes after what is seen, as a policy's does
            episode = _drawn(draw, episodes)
            following, timestep, memory = step_many(
                key, current, Observed(observation, mask), draw, memory, episode
            )
            decides = jax.vmap(env.decides, axis)(current.state)
            memory = jax.vmap(select, (0, None, 0))(timestep.done, chooser.memory, memory)
            if per_step:
                used = jnp.sum(seen) + jnp.sum(timestep.reward)
                sums = used, jnp.mean(decides, dtype=jnp.float32)
                return (following, memory, so_far), sums
            # On a GPU a sum over environments is a kernel; on a CPU more to carry is slower.
            used, decided = so_far
            used += seen + timestep.reward
            return (following, memory, (used, decided if always else decided + decides)), ()

        draw_key, step_key = jax.random.split(key)
        draws = jax.random.bits(draw_key, (num_steps, batch), jnp.uint32)
        keys = jax.random.split(step_key, num_steps)
        # In here, so that the program does not hold a constant for every environment.
        fresh = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), chooser.memory)
        counted = jnp.int32(num_steps) if always else jnp.zeros(batch, jnp.int32)
        nothing: Sums = () if per_step else (jnp.zeros(batch), counted)
        carry, sums = jax.lax.scan(step, (_moved(current, 0, axis), fresh, nothing), (keys, draws))
        used, decided = sums if per_step else (carry[2][0], carry[2][1] / num_steps)
        return _moved(carry[0], axis, 0), (jnp.sum(used), jnp.mean(decided))

    return loop


def _by_vmap(env: Environment, params: Any, chooser: Chooser) -> Callable[..., tuple]:
    """A step of environments side by side, leaves ``[B, ...]``: ``Current``, time step, memory."""

    def step(
        key: PRNGKey, current: Current, seen: Observed, draw: Array, memory: PyTree, episode: Array
    ) -> tuple[Current, TimeStep, PyTree]:
        action, memory = jax.vmap(chooser.act)(draw, *seen, memory)

        def one(index: Array, current: Current, action: PyTree, episode: Array) -> Any:
            own_key = jax.random.fold_in(key, index)
            return step_and_reset(env, own_key, current, action, params, episode=episode)

        indices = jnp.arange(draw.shape[0])
        return *jax.vmap(one)(indices, current, action, episode), memory

    return step


def _over_lanes(env: Environment, params: Any, chooser: Chooser) -> Callable[..., tuple]:
    """The same with leaves of ``Current`` ``[..., B]``; a choice by the mask is a part of it."""

    def one(params: Any, current: Current, draw: Array, episode: Array, action: PyTree) -> Any:
        if chooser.by_mask:
            action, _ = chooser.act(draw, None, env.observe(current.state, params)[1], ())
        # No rule covers draws from a key: an environment that needs them is refused.
        key = jax.random.key(draw)
        following, timestep = step_and_reset(env, key, current, action, params, episode=episode)
        return following, timestep._replace(observation=(), action_mask=(), metrics=())

    def first(key: PRNGKey) -> tuple[Current, PyTree]:
        current = start(env, key, params)
        if chooser.by_mask:
            return current, ()
        seen = env.observe(current.state, params)
        return current, chooser.act(jnp.uint32(0), *seen, chooser.memory)[0]

    begun, action = jax.eval_shape(first, jax.random.key(0))
    word, whole = jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.int32)
    written = LaneFunction(one, params, begun, word, whole, action)

    def step(
        key: PRNGKey, current: Current, seen: Observed, draw: Array, memory: PyTree, episode: Array
    ) -> tuple[Current, TimeStep, PyTree]:
        del key
        action: PyTree = ()
        if not chooser.by_mask:
            action, memory = jax.vmap(chooser.act)(draw, *seen, memory)
        following, timestep = written(current, draw, episode, _moved(action, 0, -1))
        return following, timestep, memory

    return step


def _kernel_loop(
    env: Environment, params: Any, chooser: Chooser, *, batch: int, num_steps: int
) -> Loop:
    """The loop as one kernel, in which the observation is used without being written to memory."""
    if not chooser.by_mask:
        raise JaxschedError(
            "bench: as one kernel only uniform legal actions; accepted: vmap, lanes"
        )
    episodes = env.num_episodes(params)

    def one(params: Any, current: Current, draw: Array) -> tuple[Current, tuple[Array, Array]]:
        observation, mask = env.observe(current.state, params)
        seen = consume(observation)
        draw = draw + jnp.isnan(seen)
        action, _ = chooser.act(draw, None, mask, ())
        following, timestep = step_and_reset(
            env, jax.random.key(draw), current, action, params, episode=_drawn(draw, episodes)
        )
        decides = jnp.asarray(env.decides(current.state)).astype(jnp.float32)
        return following, (seen + timestep.reward, decides)

    def loop(key: PRNGKey, current: Current) -> tuple[Current, tuple[Array, Array]]:
        begun = jax.eval_shape(lambda: start(env, jax.random.key(0), params))
        number = jax.ShapeDtypeStruct((), jnp.float32)
        block = math.gcd(batch, lane_kernel.BLOCK)
        run = lane_kernel.kernel_of(one, params, begun, (number, number), block=block)
        draws = jax.random.bits(jax.random.split(key)[0], (num_steps, batch), jnp.uint32)
        ended, (used, decided) = run(_moved(current, 0, -1), draws)
        return _moved(ended, -1, 0), (jnp.sum(used), jnp.mean(decided) / num_steps)

    return loop


def _drawn(draw: Array, episodes: int) -> Array:
    """An episode by the high half of a word."""
    return (((draw >> 16) * episodes) >> 16).astype(jnp.int32)


def lowering_of(env: Environment, params: Any, chooser: Chooser) -> str:
    """How ``environment_loop`` writes the steps (``ops.target.LOWERINGS``)."""
    current = jax.eval_shape(lambda: start(env, jax.random.key(0), params))
    numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(current))

    def written(params: Any) -> tuple:
        _over_lanes(env, params, chooser)
        return ()

    def covered() -> bool:
        try:
            jax.eval_shape(written, params)
        except JaxschedError:
            return False
        return True

    return target.lowering(numbers, alone=chooser.by_mask, covered=covered)


def _moved(tree: PyTree, source: int, destination: int) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, source, destination), tree)
