"""Paired evaluation: every policy plays the same named episodes to their end."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy, View
from jaxsched.core.sharding import over_episodes
from jaxsched.types import Array, PRNGKey, PyTree, TimeStep


class Recorder(NamedTuple):
    """How a system gathers what its metrics need (single episode).

    Attributes:
      init: ``init(params) -> records`` of fixed shapes.
      update: ``update(records, timestep, playing) -> records``; must change nothing where
        ``playing`` (bool scalar) is false: the episode has ended.
    """

    init: Callable[[Any], PyTree]
    update: Callable[[PyTree, TimeStep, Array], PyTree]


class Outcome(NamedTuple):
    """What an evaluation returns, leaves ``[E, ...]`` over episodes."""

    records: PyTree
    episode_return: Array  # float32 [E]
    length: Array  # int32 [E], decisions taken
    finished: Array  # bool [E], reached its end within the step bound


@partial(jax.jit, static_argnames=("env", "policy", "recorder", "max_steps"))
def run_episodes(
    env: Environment,
    policy: Policy,
    recorder: Recorder,
    params: Any,
    episodes: Array,
    key: PRNGKey,
    weights: PyTree = (),
    *,
    max_steps: int | None = None,
) -> Outcome:
    """Play ``episodes`` in parallel until all have ended, each device of a mesh its own.

    Args:
      env: the environment.
      policy: the decision rule.
      recorder: gathers what the metrics need.
      params: environment parameters.
      episodes: int32 ``[E]``, which episodes.
      key: for policies and environments that draw; folded with the episode, and with the number
        of the copy of an episode that is listed several times: a play is the same whichever others
        are beside it.
      weights: the policy's network parameters, if it has any.
      max_steps: bound on the steps of an episode; the environment's own by default.
    """
    bound = env.max_steps(params) if max_steps is None else max_steps
    same = episodes[:, None] == episodes[None, :]
    copy = jnp.sum(jnp.tril(same, -1), axis=-1)
    keys = jax.vmap(lambda e, c: jax.random.fold_in(jax.random.fold_in(key, e), c))(episodes, copy)
    return over_episodes(
        lambda given, shared: _play(env, policy, recorder, bound, *given, *shared),
        (keys, episodes),
        (params, weights),
    )


def _play(
    env: Environment,
    policy: Policy,
    recorder: Recorder,
    bound: int,
    keys: PRNGKey,
    episodes: Array,
    params: Any,
    weights: PyTree,
) -> Outcome:
    """Play until all of these have ended, at most ``bound`` steps."""
    num = episodes.shape[0]
    state, timestep = jax.vmap(env.reset, (0, None, 0))(keys, params, episodes)
    repeat = partial(jax.tree.map, lambda x: jnp.broadcast_to(x, (num, *jnp.shape(x))))
    memory, records = repeat(policy.init(params)), repeat(recorder.init(params))

    def play(
        key: PRNGKey,
        step: Array,
        state: PyTree,
        memory: PyTree,
        records: PyTree,
        seen: Any,
        done: Array,
    ) -> tuple:
        act_key, step_key = jax.random.split(jax.random.fold_in(key, step + 1))
        observation, mask = seen
        view = View(observation, mask, state, params)
        action, memory = policy.act(weights, memory, view, act_key)
        state, timestep = env.step(step_key, state, action, params)
        return state, memory, recorder.update(records, timestep, ~done), timestep

    def body(carry: tuple) -> tuple:
        step, state, seen, memory, records, done, total, length = carry
        state, memory, records, timestep = jax.vmap(play, (0, None, 0, 0, 0, 0, 0))(
            keys, step, state, memory, records, seen, done
        )
        total = total + jnp.where(done, 0.0, timestep.reward)
        length = length + jnp.where(done, 0, 1)
        seen = (timestep.observation, timestep.action_mask)
        return step + 1, state, seen, memory, records, done | timestep.done, total, length

    def going(carry: tuple) -> Array:
        return (carry[0] < bound) & ~jnp.all(carry[5])

    seen = (timestep.observation, timestep.action_mask)
    zeros = jnp.zeros(num)
    done, lengths = timestep.done, jnp.zeros(num, jnp.int32)
    carry = (jnp.int32(0), state, seen, memory, records, done, zeros, lengths)
    _, _, _, _, records, done, total, length = jax.lax.while_loop(going, body, carry)
    return Outcome(records, total, length, done)
