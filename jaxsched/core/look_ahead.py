"""One-step look-ahead: try candidate actions on copies of the state, and take the best.

At each decision every candidate is taken on a copy of the state, and a rollout of the base policy
follows to a horizon. If the base has no memory, the future is exact and the horizon the episode,
no return is below the base's (policy improvement). Sources: Tesauro and Galperin, On-line Policy
Improvement using Monte-Carlo Search (1996); Bertsekas, Rollout, Policy Iteration, and Distributed
Reinforcement Learning (2020), chapter 2.

:func:`branches` gives the values of the candidates themselves, for learners.

Axes: ``C`` candidate actions, the base's own first; ``M`` futures.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.monte_carlo import (
    Candidates,
    Closing,
    LookAhead,
    Weights,
    check_redraws,
    values_of,
)
from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree

ROUNDING = 1e-6
"""Gains below this share of the base's return count as rounding."""


class Memory(NamedTuple):
    """The policies' memories, each as if its own actions had been taken."""

    base: PyTree
    rivals: tuple[PyTree, ...]


@cache
def look_ahead(
    env: Environment,
    base: Policy,
    config: LookAhead,
    name: str,
    rivals: tuple[Policy, ...] = (),
) -> Policy:
    """The policy that improves on ``base`` by one step of look-ahead; weights are ``Weights``.

    The same object at each call with equal arguments.

    Args:
      env: the environment of the copies, whose rewards count. Its states must be those of
        the environment in which the policy acts.
      base: the policy after the first step; may draw, have memory and weights, and be privileged.
      config: sizes.
      name: the policy's name in tables and figures.
      rivals: policies without weights, whose actions are the candidates besides the base's. For
        action spaces that are too large to try, or not one choice of several;
        ``config.alternatives`` has no effect then.

    Raises:
      JaxschedError: futures are to be redrawn and ``env`` cannot, or there are no rivals and an
        action is not one choice of several.
    """
    check_redraws(env, config)

    def init(params: Any) -> Memory:
        return Memory(base.init(params), tuple(rival.init(params) for rival in rivals))

    def act(weights: Weights, memory: Memory, view: View, key: PRNGKey) -> tuple[PyTree, Memory]:
        base_key, pick_key, future_key = jax.random.split(key, 3)
        own, after = base.act(weights.base, memory.base, view, base_key)
        if rivals:
            tried, later = _proposed(env, rivals, (), memory.rivals, view, own, pick_key)
            memory = memory._replace(rivals=later)
        else:
            tried = _choices(env, config, view, own, pick_key)

        values = values_of(env, base, config, weights, after, view, tried, future_key)
        chosen = _best(values, tried.legal, weights.params.margin)
        action = jax.tree.map(lambda each: each[chosen], tried.action)
        return action, memory._replace(base=after)

    return Policy(name, init, act, privileged=True)


class Branches(NamedTuple):
    """Values of the candidate actions of one state.

    Attributes:
      observation: of the state.
      action: leaves ``[C, ...]``, the base's own first.
      legal: bool ``[C]``, candidates that were tried; always the base's own.
      value: float32 ``[C]``, mean over the futures of the return within the horizon, plus a
        bootstrapped value with ``closing``.
    """

    observation: PyTree
    action: PyTree
    legal: Array
    value: Array


def branches(
    env: Environment,
    base: Policy,
    config: LookAhead,
    weights: Weights,
    state: PyTree,
    params: Any,
    key: PRNGKey,
    rivals: tuple[Policy, ...] = (),
    closing: Closing | None = None,
) -> Branches:
    """The candidates at one state and their values, by rollouts of the base.

    Args:
      env: the environment of the copies.
      base: a policy without memory.
      config: sizes.
      weights: the base's weights and the look-ahead's parameters; the margin has no effect.
      state: of ``env``.
      params: its parameters.
      key: for the candidates, the futures and all draws on them.
      rivals: policies without memory whose actions are the candidates besides the base's; their
        weights are the base's.
      closing: value of a rollout's last observation, unless its episode has
        terminated; 0 if absent.

    Raises:
      JaxschedError: see :func:`look_ahead`.
    """
    check_redraws(env, config)
    base_key, pick_key, future_key = jax.random.split(key, 3)
    view = View(*env.observe(state, params), state, params)
    memory = base.init(params)
    own, _ = base.act(weights.base, memory, view, base_key)
    if rivals:
        nothing = tuple(rival.init(params) for rival in rivals)
        tried, _ = _proposed(env, rivals, weights.base, nothing, view, own, pick_key)
    else:
        tried = _choices(env, config, view, own, pick_key)
    values = values_of(env, base, config, weights, memory, view, tried, future_key, closing)
    return Branches(view.observation, tried.action, tried.legal, jnp.mean(values, axis=0))


def _proposed(
    env: Environment,
    rivals: tuple[Policy, ...],
    weights: PyTree,
    memories: tuple[PyTree, ...],
    view: View,
    own: PyTree,
    key: PRNGKey,
) -> tuple[Candidates, tuple[PyTree, ...]]:
    """The base's own action, then those of its rivals; and the rivals' next memories."""
    keys = jax.random.split(key, len(rivals))
    acted = [
        rival.act(weights, mine, view, rival_key)
        for rival, mine, rival_key in zip(rivals, memories, keys, strict=True)
    ]
    action = jax.tree.map(
        lambda first, *rest: jnp.stack([first, *(jnp.asarray(x, first.dtype) for x in rest)]),
        jax.tree.map(jnp.asarray, own),
        *[action for action, _ in acted],
    )
    legal = jnp.broadcast_to(env.decides(view.state), len(rivals))
    tried = Candidates(action, jnp.concatenate([jnp.ones(1, bool), legal]))
    return tried, tuple(later for _, later in acted)


def _choices(
    env: Environment, config: LookAhead, view: View, own: Array, key: PRNGKey
) -> Candidates:
    """The base's own action, then all others in order, or some drawn ones."""
    spec = env.action_spec(view.params)
    if not isinstance(spec, DiscreteSpec):
        raise JaxschedError(f"{env.name}: look-ahead needs actions that are one choice of several")
    num_actions = spec.num_actions
    others = num_actions - 1
    rank = -jnp.arange(num_actions, dtype=jnp.float32)
    if config.alternatives is not None and config.alternatives <= others:
        others = config.alternatives - 1
        rank = jax.random.uniform(key, (num_actions,), jnp.float32, minval=-1.0, maxval=0.0)
    other = view.mask & (jnp.arange(num_actions) != own)
    score, action = jax.lax.top_k(jnp.where(other, rank, -jnp.inf), others)
    legal = (score > -jnp.inf) & env.decides(view.state)
    return Candidates(
        action=jnp.concatenate([jnp.asarray(own, jnp.int32)[None], action.astype(jnp.int32)]),
        legal=jnp.concatenate([jnp.ones(1, bool), legal]),
    )


def _best(values: Array, legal: Array, margin: Array) -> Array:
    """Index of the best candidate, 0 unless another's gain is clear; int32 scalar.

    Candidates are compared by their mean gain less ``margin`` standard errors: the paired
    differences over common futures, whose noise is far below that of the returns.

    Args:
      values: returns, ``[M, C]``.
      legal: ``[C]``.
      margin: standard errors.
    """
    gain = values - values[:, :1]
    mean = jnp.mean(gain, axis=0)
    num = values.shape[0]
    error = jnp.zeros_like(mean)
    if num > 1:
        error = jnp.std(gain, axis=0, ddof=1) / num**0.5
    clear = mean - margin * error
    least = ROUNDING * jnp.abs(jnp.mean(values[:, 0]))
    clear = jnp.where(legal & (clear > least), clear, -jnp.inf).at[0].set(0.0)
    return jnp.argmax(clear).astype(jnp.int32)
