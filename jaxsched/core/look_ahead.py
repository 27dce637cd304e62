"""One-step look-ahead: try the alternatives on copies of the state, play on, take the best.

At each decision every alternative is played on a copy of the state, and the base policy plays on
for a horizon. Where the base is memoryless, the future exact and the horizon the whole episode,
no return is below the base's (policy improvement). Sources: Tesauro and Galperin, On-line Policy
Improvement using Monte-Carlo Search (1996); Bertsekas, Rollout, Policy Iteration, and Distributed
Reinforcement Learning (2020), chapter 2.

:func:`branches` gives the values of the candidates themselves, for learners.

Axes: ``C`` candidate actions, the base's own first; ``M`` futures.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import any_of_copies
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree

ROUNDING = 1e-6
"""Gains below this share of the base's return are rounding, not gains."""


@dataclass(frozen=True)
class LookAhead:
    """What of a look-ahead is compiled.

    Attributes:
      futures: M, redrawn futures that all candidates are played on, at least 2; 0: the true
        future (a clairvoyant; what an environment draws while it steps is not in it).
      alternatives: C, candidates of a decision: the base's action and others drawn uniformly from
        the legal ones; None: all legal actions.
      max_steps: of each play, the first one included; None: the environment's own bound.
    """

    futures: int = 8
    alternatives: int | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        """Check the sizes."""
        if self.futures < 0 or self.futures == 1:
            raise JaxschedError(
                f"look-ahead: futures is {self.futures}; accepted: at least 2 (their spread tells "
                "gains from luck), or 0 for the true future"
            )
        for name, least in (("alternatives", 2), ("max_steps", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise JaxschedError(
                    f"look-ahead: {name} is {value}; accepted: at least {least}, or none"
                )

    def most_steps(self, num_actions: int | None = None, episode_steps: int | None = None) -> int:
        """Environment steps that the plays at one state take at most.

        Args:
          num_actions: of the environment; it bounds the candidates.
          episode_steps: its own bound, of plays without ``max_steps``.

        Raises:
          JaxschedError: plays or candidates have no bound.
        """
        sizes = [size for size in (self.alternatives, num_actions) if size is not None]
        steps = episode_steps if self.max_steps is None else self.max_steps
        if not sizes or steps is None:
            raise JaxschedError(
                "look-ahead: max_steps or alternatives is None; a number of each bounds the steps "
                "of plays"
            )
        return max(self.futures, 1) * min(sizes) * steps


class Knobs(NamedTuple):
    """What of a look-ahead may change without compiling again, float32 scalars.

    Attributes:
      horizon_s: simulated seconds that the play of a candidate counts, its first step included; of
        the step that goes beyond, the reward counts in proportion to its time within. Infinite:
        until the episode ends.
      margin: an action other than the base's is taken only if its mean gain over the futures
        exceeds so many standard errors of that mean.
      discount_s: rewards of steps that begin ``t`` seconds later count ``exp(-t / discount_s)``;
        infinite: alike.
    """

    horizon_s: Array
    margin: Array
    discount_s: Array


def knobs(
    *, horizon_s: float = float("inf"), margin: float = 2.0, discount_s: float = float("inf")
) -> Knobs:
    """``Knobs`` of these values.

    Raises:
      JaxschedError: a value is out of range.
    """
    for name, value in (("horizon_s", horizon_s), ("discount_s", discount_s)):
        if not value > 0:
            raise JaxschedError(f"look-ahead: {name} is {value!r}; accepted: a number above 0")
    if not 0 <= margin < float("inf"):
        raise JaxschedError(f"look-ahead: margin is {margin!r}; accepted: a number from 0 on")
    return Knobs(jnp.float32(horizon_s), jnp.float32(margin), jnp.float32(discount_s))


class Weights(NamedTuple):
    """Weights of a look-ahead policy: the base's own, and the knobs."""

    base: PyTree
    knobs: Knobs


class Candidates(NamedTuple):
    """The actions of one decision that are tried."""

    action: PyTree  # leaves [C, ...]
    legal: Array  # bool [C], the base's own always


class Memory(NamedTuple):
    """What the policies remember, each as if its own actions had been taken."""

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
      env: what the copies are played in; its rewards are what counts. Its states must be those of
        the environment that the policy acts in.
      base: plays on after the first step; may draw, remember, have weights and be privileged.
      config: sizes.
      name: what tables and figures call the policy.
      rivals: policies without weights, whose actions are the candidates beside the base's. For
        actions that are too many to try, or no choice of several; ``config.alternatives`` has no
        effect then.

    Raises:
      JaxschedError: futures are to be redrawn and ``env`` cannot, or there are no rivals and an
        action is not one choice of several.
    """
    _check_redraws(env, config)

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

        values = _values(env, base, config, weights, after, view, tried, future_key)
        chosen = _best(values, tried.legal, weights.knobs.margin)
        action = jax.tree.map(lambda each: each[chosen], tried.action)
        return action, memory._replace(base=after)

    return Policy(name, init, act, privileged=True)


class Branches(NamedTuple):
    """What the candidate actions of one state are worth.

    Attributes:
      observation: of the state.
      action: leaves ``[C, ...]``, the base's own first.
      legal: bool ``[C]``, those that were tried; the base's own always.
      value: float32 ``[C]``, mean over the futures of what is earned within the horizon.
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
) -> Branches:
    """The candidates at one state and their values, the base playing on.

    Args:
      env: what the copies are played in.
      base: a policy without memory.
      config: sizes.
      weights: the base's weights and the knobs; the margin has no effect.
      state: of ``env``.
      params: its parameters.
      key: of the candidates, the futures and all that is drawn on them.
      rivals: policies without memory whose actions are the candidates beside the base's; their
        weights are the base's.

    Raises:
      JaxschedError: see :func:`look_ahead`.
    """
    _check_redraws(env, config)
    base_key, pick_key, future_key = jax.random.split(key, 3)
    view = View(*env.observe(state, params), state, params)
    memory = base.init(params)
    own, _ = base.act(weights.base, memory, view, base_key)
    if rivals:
        nothing = tuple(rival.init(params) for rival in rivals)
        tried, _ = _proposed(env, rivals, weights.base, nothing, view, own, pick_key)
    else:
        tried = _choices(env, config, view, own, pick_key)
    values = _values(env, base, config, weights, memory, view, tried, future_key)
    return Branches(view.observation, tried.action, tried.legal, jnp.mean(values, axis=0))


def _check_redraws(env: Environment, config: LookAhead) -> None:
    if config.futures and not env.redraws_futures:
        raise JaxschedError(f"{env.name}: does not redraw futures; accepted: the true future")


def _values(
    env: Environment,
    base: Policy,
    config: LookAhead,
    weights: Weights,
    memory: PyTree,
    view: View,
    tried: Candidates,
    key: PRNGKey,
) -> Array:
    """What the candidates earn on each future, or on the true one, float32 ``[max(M, 1), C]``."""

    def returns(key: PRNGKey) -> Array:
        redraw_key, play_key = jax.random.split(key)
        state, params = view.state, view.params
        if config.futures:
            state, params = env.resample_future(redraw_key, state, params)
        return _returns(env, base, config, weights, state, memory, params, tried, play_key)

    return jax.vmap(returns)(jax.random.split(key, max(config.futures, 1)))


def _proposed(
    env: Environment,
    rivals: tuple[Policy, ...],
    weights: PyTree,
    memories: tuple[PyTree, ...],
    view: View,
    own: PyTree,
    key: PRNGKey,
) -> tuple[Candidates, tuple[PyTree, ...]]:
    """The base's own action, then those of its rivals; and what these remember then."""
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
    """The base's own action, then the others: all in order, or some drawn."""
    spec = env.action_spec(view.params)
    if not isinstance(spec, DiscreteSpec):
        raise JaxschedError(f"{env.name}: look-ahead needs actions that are one choice of several")
    num_actions = spec.num_actions
    others = num_actions - 1
    rank = -jnp.arange(num_actions, dtype=jnp.float32)
    if config.alternatives is not None and config.alternatives <= others:
        others = config.alternatives - 1
        rank = jax.random.uniform(key, (num_actions,), minval=-1.0, maxval=0.0)
    other = view.mask & (jnp.arange(num_actions) != own)
    score, action = jax.lax.top_k(jnp.where(other, rank, -jnp.inf), others)
    legal = (score > -jnp.inf) & env.decides(view.state)
    return Candidates(
        action=jnp.concatenate([jnp.asarray(own, jnp.int32)[None], action.astype(jnp.int32)]),
        legal=jnp.concatenate([jnp.ones(1, bool), legal]),
    )


class _Play(NamedTuple):
    """Where the play of one candidate stands."""

    state: PyTree
    memory: PyTree
    time: Array  # float32, seconds since the decision
    total: Array  # float32, reward so far
    over: Array  # bool


def _returns(
    env: Environment,
    base: Policy,
    config: LookAhead,
    weights: Weights,
    state: PyTree,
    memory: PyTree,
    params: Any,
    tried: Candidates,
    key: PRNGKey,
) -> Array:
    """What each candidate earns within the horizon, float32 ``[C]``; one future, common draws."""
    bound = env.max_steps(params) if config.max_steps is None else config.max_steps
    horizon, _, discount = weights.knobs

    def move(play: _Play, action: PyTree, memory: PyTree, key: PRNGKey) -> _Play:
        after, timestep = env.step(key, play.state, action, params)
        time = play.time + timestep.elapsed.astype(jnp.float32)
        beyond = time > horizon
        within = (horizon - play.time) / jnp.maximum(timestep.elapsed, 1e-9)
        share = jnp.where(beyond, within, 1.0) * jnp.exp(-play.time / discount)
        earned = jnp.where(play.over, 0.0, share * timestep.reward)
        return _Play(
            state=after,
            memory=memory,
            time=time,
            total=play.total + earned.astype(jnp.float32),
            over=play.over | beyond | timestep.done,
        )

    def follow(play: _Play, act_key: PRNGKey, step_key: PRNGKey) -> _Play:
        observation, mask = env.observe(play.state, params)
        view = View(observation, mask, play.state, params)
        action, memory = base.act(weights.base, play.memory, view, act_key)
        return move(play, action, memory, step_key)

    def body(carry: tuple[Array, _Play]) -> tuple[Array, _Play]:
        step, plays = carry
        act_key, step_key = jax.random.split(jax.random.fold_in(key, step))
        return step + 1, jax.vmap(follow, (0, None, None))(plays, act_key, step_key)

    def going(carry: tuple[Array, _Play]) -> Array:
        return (carry[0] < bound) & any_of_copies(~jnp.all(carry[1].over))

    def first(action: PyTree, legal: Array) -> _Play:
        zero = jnp.float32(0)
        idle = ~legal | ~jnp.any(tried.legal[1:])  # with one candidate there is nothing to compare
        start_key = jax.random.fold_in(key, 0)
        return move(_Play(state, memory, zero, zero, idle), action, memory, start_key)

    plays = jax.vmap(first)(tried.action, tried.legal)
    return jax.lax.while_loop(going, body, (jnp.int32(1), plays))[1].total


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
