"""Policy iteration by branching: candidate actions are valued by rollouts and imitated.

The training loop takes candidate actions in copies of a state, on common futures, and follows the
present greedy policy from there (``Learner.branching``, :mod:`jaxsched.core.look_ahead`). The
difference is the action's advantage with hardly any of the noise of the arrivals, so there is no
credit to assign. Rollouts that stop before the episode ends may bootstrap from a critic, which
learns the returns of the policy's own actions. One call of ``update`` is::

    keep the states' candidates and values, the last ``capacity`` of them
    gradient_steps times:
        take batch_size states
        scale = |value of the policy's own action| ** relative
        advantage[c] = (value[c] - value of the policy's own) / scale, clipped
        one Adam step on  -mean over states of sum over c of p[c] advantage[c],
        p the softmax of the candidates' scores / temperature, plus its weighted entropy
        critic: one Adam step on  (value of the policy's own action - its prediction) ** 2

Sources: Lagoudakis and Parr, Reinforcement Learning as Classification (2003), rollouts in place of
a value function; Schulman et al., Trust Region Policy Optimization (2015), "vine"; the loss is
their cost-sensitive classification with a softmax in place of the best class.

:func:`branching` is for one choice among several, :func:`branching_of_agents` for actions of
several agents, of which there are too many to try: candidates are then the actions of given rules
and samples of the policy.

Axes: ``B`` environments, ``C`` candidates, ``R`` states kept, ``A`` actions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, parts_of, sequence_means
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.regression import AgentLoss, departures
from jaxsched.algorithms.scale import Scale
from jaxsched.algorithms.settings import linear, traced_values
from jaxsched.algorithms.softmax import (
    Networks,
    any_legal,
    as_float32,
    best_legal,
    clipped_adam,
    descend_both,
    entropy,
    init_params,
    log_probabilities,
)
from jaxsched.core.learner import Branching, Learner, Metrics, Needs, Size
from jaxsched.core.look_ahead import Branches
from jaxsched.core.monte_carlo import Closing, LookAheadParams
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.core.sharding import split, split_layout, whole, whole_layout
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select, unbatched
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, Rollout, Specs


class BranchingState(NamedTuple):
    """The learner's state."""

    params: Networks  # the value's are () without a critic
    optimiser: Networks
    kept: Branches  # leaves [R, ...]
    next: Array  # int32, where the next states go
    filled: Array  # int32, states kept so far
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``
    scale: Any = ()  # Scale of the values that a critic learns


class Improvable(NamedTuple):
    """The functions of a policy that is being improved.

    Attributes:
      init: ``(key, specs) -> params``.
      greedy: ``(params, observation, mask) -> action`` over a batch, leaves ``[B, ...]``.
      draw: ``(params, observation, mask, key) -> action``, the same of exploration.
      scores: ``(params, observation, action) -> float32 [R, C]``, the policy's score of each
        candidate, leaves ``[R, C, ...]``.
    """

    init: Callable[[PRNGKey, Specs], PyTree]
    greedy: Callable[[PyTree, PyTree, PyTree], PyTree]
    draw: Callable[[PyTree, PyTree, PyTree, PRNGKey], PyTree]
    scores: Callable[[PyTree, PyTree, PyTree], Array]


def branching(
    network: nn.Module, config: BranchingConfig, value: nn.Module | None = None
) -> Learner:
    """A learner by policy iteration on branches, for one choice among several.

    Args:
      network: flax module, ``apply(params, observation) -> scores`` of float32 ``[B, A]``.
      config: settings.
      value: flax module, ``apply(params, observation) -> values`` of float32 ``[B]``, for
        ``config.critic``.

    Returns:
      The learner. Its ``act`` takes the legal action of the highest score (but for
      ``exploration``); no extras.

    Raises:
      JaxschedError: ``config`` asks for a critic and there is no network.
    """

    def scores_of(params: PyTree, observation: PyTree) -> Array:
        return cast(Array, network.apply(params, jax.tree.map(as_float32, observation)))

    return _improving(
        Improvable(
            init=lambda key, specs: init_params(network, key, specs.observation),
            greedy=lambda params, seen, mask: best_legal(scores_of(params, seen), mask),
            draw=lambda params, seen, mask, key: any_legal(key, mask),
            scores=lambda params, seen, action: jnp.take_along_axis(
                scores_of(params, seen), action, axis=-1
            ),
        ),
        value,
        config,
        Branching(config.look_ahead, _look_ahead_params),
    )


def branching_of_agents(
    agents: Agents,
    config: BranchingConfig,
    losses: tuple[AgentLoss, ...],
    *,
    value: nn.Module | None = None,
    scale: float = 1.0,
    rivals: tuple[Policy, ...] = (),
    draws: int = 0,
    greedy: Policy | None = None,
) -> Learner:
    """A learner by policy iteration on branches, for actions of several agents.

    The score of a candidate is minus the agents' losses on it, as if it were a teacher's
    (:mod:`jaxsched.algorithms.regression`).

    Args:
      agents: the policy that learns; every action is legal.
      config: settings; ``alternatives`` has no effect.
      losses: how each agent is compared with a candidate.
      value: see :func:`branching`.
      scale: of differences in losses of rankings.
      rivals: policies without weights, whose actions are candidates beside the agents' own.
      draws: candidates beside these that are drawn from the agents.
      greedy: the agents' greedy policy for a single environment, without memory, if there is a
        faster one than theirs; its weights are their parameters.

    Returns:
      The learner. Its ``act`` takes the most likely action, or with the probability
      ``exploration`` draws one; no extras.

    Raises:
      JaxschedError: there is no candidate but the agents' own, or no network for the critic.
    """
    if draws < 0 or not draws + len(rivals):
        raise JaxschedError(
            f"branching: there are {draws} draws and {len(rivals)} rivals; accepted: one or more"
        )

    def drawn(params: PyTree, seen: PyTree, mask: PyTree, key: PRNGKey) -> PyTree:
        return agents.sample(params, seen, mask, key)[0]

    def one_drawn(
        state: BranchingState, memory: PyTree, view: View, key: PRNGKey
    ) -> tuple[PyTree, PyTree]:
        def draw(observation: PyTree, mask: PyTree) -> PyTree:
            return drawn(state.params.policy, observation, mask, key)

        return unbatched(draw, view.observation, view.mask), memory

    def scores(params: PyTree, observation: PyTree, action: PyTree) -> Array:
        seen = jax.tree.map(lambda x: x[None], observation)  # one step
        by_candidate = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1)[:, None], action)
        own = jax.tree.map(lambda x: x[0], by_candidate)
        found = parts_of(agents, sequence_means(agents, params, seen, (), own))
        likelihood = jax.vmap(lambda each: agents.evaluate(params, seen, (), each))(by_candidate)
        wanted = parts_of(agents, by_candidate)
        found = {name: jnp.broadcast_to(x, wanted[name].shape) for name, x in found.items()}
        apart = departures(losses, found, wanted, likelihood, scale)
        total = sum(loss.weight * apart[loss.agent].loss for loss in losses)
        return -jnp.swapaxes(jnp.asarray(total)[:, 0], 0, 1)

    config = replace(config, alternatives=1 + len(rivals) + draws)
    tried = (*rivals, *[Policy("drawn", no_memory, one_drawn)] * draws)
    return _improving(
        Improvable(agents.init, agents.greedy, drawn, scores),
        value,
        config,
        Branching(
            config.look_ahead,
            _look_ahead_params,
            tried,
            None if greedy is None else _of_state(greedy),
        ),
    )


def _of_state(policy: Policy) -> Policy:
    """The policy with the learner's state as its weights."""
    return policy._replace(
        act=lambda state, memory, view, key: policy.act(state.params.policy, memory, view, key)
    )


def _improving(
    policy: Improvable, value: nn.Module | None, config: BranchingConfig, tries: Branching
) -> Learner:
    """The learner of a policy."""
    if config.critic and value is None:
        raise JaxschedError("BranchingConfig.critic is true; it must be false without a network")
    optimiser = clipped_adam(config.max_gradient_norm)
    critic = value if config.critic else None
    if critic is not None:
        tries = tries._replace(closing=_closing(critic))

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> BranchingState:
        networks = Networks(policy.init(key, specs) if params is None else params, ())
        if critic is not None:
            critic_key = jax.random.fold_in(key, 1)  # the policy starts as it does without one
            networks = networks._replace(value=init_params(critic, critic_key, specs.observation))
        moments = Networks(*map(optimiser.init, networks))
        kept, zero = _nothing(specs, config), jnp.int32(0)
        scale = () if critic is None else Scale.unknown()
        return BranchingState(
            networks, moments, kept, zero, zero, traced_values(config), zero, scale
        )

    def act(
        state: BranchingState, observation: PyTree, mask: PyTree, key: PRNGKey, greedy: bool
    ) -> tuple[PyTree, tuple[()]]:
        best = policy.greedy(state.params.policy, observation, mask)
        if greedy:
            return best, ()
        coin_key, draw_key = jax.random.split(key)
        drawn = policy.draw(state.params.policy, observation, mask, draw_key)
        batch = jax.tree.leaves(best)[0].shape[0]
        explores = jax.random.uniform(coin_key, (batch,), jnp.float32) < state.hyper.exploration
        return jax.vmap(select)(explores, drawn, best), ()

    def update(
        state: BranchingState, rollout: Rollout, key: PRNGKey
    ) -> tuple[BranchingState, Metrics]:
        found: Branches = rollout.branches
        following = _with_newest(state, found, config.capacity)
        drawn = jax.random.randint(
            key, (config.gradient_steps, config.batch_size), 0, following.filled, jnp.int32
        )
        rates = _rates(state, config)

        def step(
            carry: tuple[Networks, Networks], rows: Array
        ) -> tuple[tuple[Networks, Networks], Metrics]:
            params, moments = carry
            batch = split(whole(jax.tree.map(lambda x: x[rows], following.kept)))
            gradient, metrics = gradients(params, state.hyper, following.scale, batch)
            return descend_both(optimiser, params, moments, gradient, rates), metrics

        learned, metrics = jax.lax.scan(step, (state.params, state.optimiser), drawn)
        metrics = jax.tree.map(jnp.mean, metrics) | {"learning_rate": rates[0]} | _facts(found)
        params, moments = learned
        return following._replace(params=params, optimiser=moments), metrics

    def gradients(
        params: Networks, hyper: Any, scale: Any, batch: Branches
    ) -> tuple[Networks, Metrics]:
        gradient, metrics = jax.grad(loss_of, has_aux=True)(params.policy, hyper, batch)
        if critic is None:
            return Networks(gradient, ()), metrics
        of_critic = jax.grad(partial(_critic_loss, critic), has_aux=True)
        critic_gradient, more = of_critic(params.value, scale, batch)
        return Networks(gradient, critic_gradient), metrics | more

    def loss_of(params: PyTree, hyper: Any, batch: Branches) -> tuple[Array, Metrics]:
        scores = policy.scores(params, batch.observation, batch.action)
        log_p = log_probabilities(scores / hyper.temperature, batch.legal)
        p = jnp.where(batch.legal, jnp.exp(log_p), 0.0)
        gained = jnp.sum(p * advantage(batch, hyper.relative, hyper.clip), axis=-1)
        spread = entropy(log_p)
        loss = -jnp.mean(gained) - hyper.entropy_weight * jnp.mean(spread)
        return loss, {"loss": loss, "gained": jnp.mean(gained), "entropy": jnp.mean(spread)}

    return Learner(
        init,
        act,
        update,
        policy_params=lambda state: state.params.policy,
        needs=Needs(sizes=(Size("num_envs", "at most", config.capacity, "the states kept"),)),
        branching=tries,
        layout=_layout,
    )


def _with_newest(state: BranchingState, found: Branches, capacity: int) -> BranchingState:
    """The learner's state one update later, with the newest states stored."""
    num = found.value.shape[0]
    rows = (state.next + jnp.arange(num, dtype=jnp.int32)) % capacity
    kept = jax.tree.map(lambda old, new: old.at[rows].set(new), state.kept, found)
    scale = state.scale
    if isinstance(scale, Scale):
        scale = scale.after(found.value[:, 0])
    return state._replace(
        kept=kept,
        next=(rows[-1] + 1) % capacity,
        filled=jnp.minimum(state.filled + num, capacity),
        updates=state.updates + 1,
        scale=scale,
    )


def _rates(state: BranchingState, config: BranchingConfig) -> tuple[Array, Array]:
    """Learning rates of the policy and of the critic."""
    hyper, progress = state.hyper, state.updates / config.total_updates
    rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
    if config.critic and config.critic_updates:
        rate = jnp.where(state.updates < config.critic_updates, 0.0, rate)
    return rate, linear(hyper.value_learning_rate, hyper.final_value_learning_rate, progress)


def _closing(critic: nn.Module) -> Closing:
    """A critic's value of one observation, in the units of rewards."""

    def worth(state: BranchingState, observation: PyTree) -> Array:
        seen = jax.tree.map(as_float32, observation)
        value = unbatched(partial(critic.apply, state.params.value), seen)
        return cast(Array, state.scale.outward(value))

    return worth


def _critic_loss(
    critic: nn.Module, params: PyTree, scale: Scale, batch: Branches
) -> tuple[Array, Metrics]:
    """Mean squared error of the values of the policy's own actions, in deviations of theirs."""
    own = batch.value[:, 0]
    predicted = cast(Array, critic.apply(params, jax.tree.map(as_float32, batch.observation)))
    error = scale.inward(own) - predicted
    unexplained = jnp.var(scale.outward(predicted) - own) / jnp.maximum(jnp.var(own), 1e-8)
    loss = jnp.mean(error**2)
    return loss, {"value_loss": loss, "explained_variance": 1 - unexplained}


def _layout(state: BranchingState) -> BranchingState:
    layout: BranchingState = whole_layout(state)
    return layout._replace(kept=split_layout(state.kept, 0))


def advantage(found: Branches, relative: float | Array, clip: float | Array) -> Array:
    """Scaled and clipped gain of each candidate over the policy's own, float32 ``[..., C]``."""
    own = found.value[..., :1]
    scale = jnp.maximum(jnp.abs(own), 1e-6) ** relative
    return jnp.where(found.legal, jnp.clip((found.value - own) / scale, -clip, clip), 0.0)


def _look_ahead_params(state: BranchingState) -> LookAheadParams:
    return LookAheadParams(state.hyper.horizon_s, jnp.float32(0), state.hyper.discount_s)


def _nothing(specs: Specs, config: BranchingConfig) -> Branches:
    """Room for the states that are kept."""
    num, lead = config.alternatives, (config.capacity,)
    if isinstance(specs.action, DiscreteSpec):
        num = min(num or specs.action.num_actions, specs.action.num_actions)
    assert num is not None

    def room(spec: Any, *axes: int) -> Array:
        zeros = spec.zeros()
        return jnp.zeros((*lead, *axes, *zeros.shape), zeros.dtype)

    return Branches(
        jax.tree.map(room, specs.observation),
        action=jax.tree.map(lambda spec: room(spec, num), specs.action),
        legal=jnp.zeros((*lead, num), bool),
        value=jnp.zeros((*lead, num), jnp.float32),
    )


def _facts(found: Branches) -> Metrics:
    """How the newest states' candidates compare with the policy's own action."""
    gain = jnp.where(found.legal, found.value - found.value[:, :1], 0.0)
    tried = jnp.sum(found.legal[:, 1:], dtype=jnp.float32)
    better = jnp.sum((gain > 0) & found.legal, dtype=jnp.float32)
    return {
        "informative": jnp.mean(jnp.any(gain != 0, axis=-1), dtype=jnp.float32),
        "better": better / jnp.maximum(tried, 1.0),
        "gain": jnp.mean(jnp.max(gain, axis=-1)),
    }
