"""Monte Carlo values of candidate actions of one state, on common futures.

Each candidate is the first action of a rollout that a base policy continues to a
horizon. Futures and draws are the same for all candidates, so that differences between their
returns have hardly any noise from the arrivals.

Axes: ``C`` candidate actions, the base's own first; ``M`` futures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import any_across_batch
from jaxsched.types import Array, PRNGKey, PyTree

Closing = Callable[[PyTree, PyTree], Array]
"""``(weights of the base, observation) -> float32 []``, the value of the observation."""


@dataclass(frozen=True)
class LookAhead:
    """Static settings of a look-ahead.

    Attributes:
      futures: M, resampled futures on which each candidate is tried, at least 2; 0: the true
        future (clairvoyant, but for the draws of the environment's own steps).
      alternatives: C, candidates of a decision: the base's action and others drawn uniformly from
        the legal ones; None: all legal actions.
      max_steps: steps of each rollout, the first included; None: the environment's own bound.
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
        """Most environment steps of the rollouts at one state.

        Args:
          num_actions: of the environment; it bounds the candidates.
          episode_steps: its own bound, for rollouts without ``max_steps``.

        Raises:
          JaxschedError: rollouts or candidates have no bound.
        """
        sizes = [size for size in (self.alternatives, num_actions) if size is not None]
        steps = episode_steps if self.max_steps is None else self.max_steps
        if not sizes or steps is None:
            raise JaxschedError(
                "look-ahead: max_steps or alternatives is None; a number of each bounds the steps "
                "of rollouts"
            )
        return max(self.futures, 1) * min(sizes) * steps


class LookAheadParams(NamedTuple):
    """Settings of a look-ahead that may change without compiling again, float32 scalars.

    Attributes:
      horizon_s: simulated seconds of a candidate's rollout that count, its first step included; the
        reward of the step across the horizon counts in proportion to its time within. Infinite:
        until the episode ends. With a closing value, all rollouts go on, and count, until
        the last one is past the horizon.
      margin: an action other than the base's is taken only if its mean gain over the futures
        exceeds this many standard errors of that mean.
      discount_s: rewards of steps that begin ``t`` seconds later count ``exp(-t / discount_s)``;
        infinite: no discount.
    """

    horizon_s: Array
    margin: Array
    discount_s: Array


def look_ahead_params(
    *, horizon_s: float = float("inf"), margin: float = 2.0, discount_s: float = float("inf")
) -> LookAheadParams:
    """Check these values and return them as ``LookAheadParams``.

    Raises:
      JaxschedError: a value is out of range.
    """
    for name, value in (("horizon_s", horizon_s), ("discount_s", discount_s)):
        if not value > 0:
            raise JaxschedError(f"look-ahead: {name} is {value!r}; accepted: a number above 0")
    if not 0 <= margin < float("inf"):
        raise JaxschedError(f"look-ahead: margin is {margin!r}; accepted: a number from 0 on")
    return LookAheadParams(jnp.float32(horizon_s), jnp.float32(margin), jnp.float32(discount_s))


class Weights(NamedTuple):
    """Weights of a look-ahead policy: the base's own, and ``LookAheadParams``."""

    base: PyTree
    params: LookAheadParams


class Candidates(NamedTuple):
    """The actions tried at one decision."""

    action: PyTree  # leaves [C, ...]
    legal: Array  # bool [C], the base's own always


def check_redraws(env: Environment, config: LookAhead) -> None:
    """Refuse futures that the environment cannot redraw.

    Raises:
      JaxschedError: it cannot.
    """
    if config.futures and not env.can_resample_future:
        raise JaxschedError(f"{env.name}: does not redraw futures; accepted: the true future")


def values_of(
    env: Environment,
    base: Policy,
    config: LookAhead,
    weights: Weights,
    memory: PyTree,
    view: View,
    tried: Candidates,
    key: PRNGKey,
    closing: Closing | None = None,
) -> Array:
    """Returns of the candidates on each future, or on the true one, float32 ``[max(M, 1), C]``."""

    def returns(key: PRNGKey) -> Array:
        redraw_key, play_key = jax.random.split(key)
        state, params = view.state, view.params
        if config.futures:
            state, params = env.resample_future(redraw_key, state, params)
        plays = _played(env, base, config, weights, state, memory, params, tried, play_key, closing)
        return plays.total if closing is None else _closed(env, closing, weights, plays, params)

    return jax.vmap(returns)(jax.random.split(key, max(config.futures, 1)))


class _Rollout(NamedTuple):
    """State of one candidate's rollout."""

    state: PyTree
    memory: PyTree
    time: Array  # float32, seconds since the decision
    total: Array  # float32, reward so far
    over: Array  # bool
    ended: Array  # bool, the episode has ended


def _played(
    env: Environment,
    base: Policy,
    config: LookAhead,
    weights: Weights,
    state: PyTree,
    memory: PyTree,
    params: Any,
    tried: Candidates,
    key: PRNGKey,
    closing: Closing | None,
) -> _Rollout:
    """The rollout of each candidate, leaves ``[C, ...]``; one future, common draws."""
    bound = env.max_steps(params) if config.max_steps is None else config.max_steps
    horizon, _, discount = weights.params

    def move(play: _Rollout, action: PyTree, memory: PyTree, key: PRNGKey) -> _Rollout:
        after, timestep = env.step(key, play.state, action, params)
        time = play.time + timestep.elapsed.astype(jnp.float32)
        beyond = (time > horizon) & (closing is None)
        within = (horizon - play.time) / jnp.maximum(timestep.elapsed, 1e-9)
        share = jnp.where(beyond, within, 1.0) * jnp.exp(-play.time / discount)
        earned = jnp.where(play.over, 0.0, share * timestep.reward)
        return _Rollout(
            state=after,
            memory=memory,
            time=time,
            total=play.total + earned.astype(jnp.float32),
            over=play.over | beyond | timestep.done,
            ended=play.ended | (timestep.terminated & ~play.over),
        )

    def follow(play: _Rollout, act_key: PRNGKey, step_key: PRNGKey) -> _Rollout:
        observation, mask = env.observe(play.state, params)
        view = View(observation, mask, play.state, params)
        action, memory = base.act(weights.base, play.memory, view, act_key)
        return move(play, action, memory, step_key)

    def body(carry: tuple[Array, _Rollout]) -> tuple[Array, _Rollout]:
        step, plays = carry
        act_key, step_key = jax.random.split(jax.random.fold_in(key, step))
        return step + 1, jax.vmap(follow, (0, None, None))(plays, act_key, step_key)

    def going(carry: tuple[Array, _Rollout]) -> Array:
        step, plays = carry
        return (step < bound) & any_across_batch(~jnp.all(plays.over | (plays.time > horizon)))

    def first(action: PyTree, legal: Array) -> _Rollout:
        zero = jnp.float32(0)
        idle = ~legal
        if closing is None:  # a closing value also learns from single candidates
            idle |= ~jnp.any(tried.legal[1:])  # nothing to compare
        start_key = jax.random.fold_in(key, 0)
        play = _Rollout(state, memory, zero, zero, idle, ended=jnp.bool_(False))
        return move(play, action, memory, start_key)

    started = (jnp.int32(1), jax.vmap(first)(tried.action, tried.legal))
    found: _Rollout = jax.lax.while_loop(going, body, started)[1]
    return found


def _closed(
    env: Environment, closing: Closing, weights: Weights, plays: _Rollout, params: Any
) -> Array:
    """Returns of the rollouts plus the values of their last observations, float32 ``[C]``."""

    def beyond(play: _Rollout) -> Array:
        observation, _ = env.observe(play.state, params)
        worth = jnp.exp(-play.time / weights.params.discount_s) * closing(weights.base, observation)
        return jnp.where(play.ended, 0.0, worth)

    return plays.total + jax.vmap(beyond)(plays)
