"""Policy iteration by branching: try the alternatives, move towards what was worth more.

The training loop plays some actions of a state on copies of it, on futures common to all of them,
and then the present greedy policy (``Learner.branching``, :mod:`jaxsched.core.look_ahead`). The
difference is the action's advantage with hardly any of the noise of the arrivals, so there is no
value function and no credit to assign. One call of ``update`` is::

    keep the states' candidates and values, the last ``capacity`` of them
    gradient_steps times:
        take batch_size states
        scale = |value of the policy's own action| ** relative
        advantage[c] = (value[c] - value of the policy's own) / scale, clipped
        one Adam step on  -mean over states of sum over c of p[c] advantage[c],
        p the softmax of the candidates' scores / temperature, plus its weighted entropy

Sources: Lagoudakis and Parr, Reinforcement Learning as Classification (2003), rollouts in place of
a value function; Schulman et al., Trust Region Policy Optimization (2015), "vine"; the loss is
their cost-sensitive classification with a softmax in place of the best class.

:func:`branching` is for one choice among several, :func:`branching_of_agents` for actions of
several agents, of which there are too many to try: candidates are then what given rules would do,
and draws of the policy.

Axes: ``B`` environments, ``C`` candidates, ``R`` states kept, ``A`` actions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms.agents import Agents, parts_of, sequence_means
from jaxsched.algorithms.regression import AgentLoss, departures
from jaxsched.algorithms.settings import check_positive, linear, traced, traced_values
from jaxsched.algorithms.softmax import (
    any_legal,
    as_float32,
    best_legal,
    clipped_adam,
    descend,
    entropy,
    init_params,
    log_probabilities,
)
from jaxsched.core.learner import Branching, Learner, Metrics, Needs, Size
from jaxsched.core.look_ahead import Branches, Knobs, LookAhead
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.core.sharding import split, split_layout, whole, whole_layout
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, Rollout, Specs

inf = float("inf")


@dataclass(frozen=True)
class BranchingConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which the learning rate moves.
      futures: redrawn futures that a state's candidates are played on; 0: the true one.
      alternatives: candidates of a state, the policy's own action and others drawn; None: all.
        Of agents the number is that of the rules and draws.
      max_steps: of each play; None: the environment's own bound.
      capacity: states kept, at least one of each environment.
      gradient_steps: minibatches per call of ``update``.
      batch_size: states per minibatch.
      max_gradient_norm: global norm to which gradients are clipped, if given.
      learning_rate: of Adam, at the start.
      final_learning_rate: at the end; linear in between; constant if absent.
      horizon_s: simulated seconds that the play of a candidate counts; all of them if absent.
      discount_s: time constant of the discount within; none if absent.
      exploration: probability that a legal action drawn uniformly is taken instead.
      relative: 1 compares relative to what the policy's own action earns, 0 absolute.
      clip: bound of scaled advantages; none if absent.
      temperature: of the softmax.
      entropy_weight: of the softmax's entropy.
    """

    total_updates: int
    futures: int = 0
    alternatives: int | None = None
    max_steps: int | None = None
    capacity: int = 8192
    gradient_steps: int = 4
    batch_size: int = 256
    max_gradient_norm: float | None = 1.0
    learning_rate: float = traced(1e-3)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    horizon_s: float | None = traced(None, absent=inf)
    discount_s: float | None = traced(None, absent=inf)
    exploration: float = traced(0.0)
    relative: float = traced(0.0)
    clip: float | None = traced(None, absent=inf)
    temperature: float = traced(1.0)
    entropy_weight: float = traced(0.0)

    def __post_init__(self) -> None:
        """Check sizes and options."""
        check_positive(self, "total_updates", "capacity", "gradient_steps", "batch_size")
        for name in ("horizon_s", "discount_s", "clip", "temperature"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise JaxschedError(f"BranchingConfig.{name} is {value}; it must be above 0")
        for name in ("exploration", "relative"):
            if not 0 <= getattr(self, name) <= 1:
                raise JaxschedError(
                    f"BranchingConfig.{name} is {getattr(self, name)}; it must be in 0..1"
                )
        _ = self.look_ahead

    @property
    def look_ahead(self) -> LookAhead:
        """What of the plays is compiled."""
        return LookAhead(self.futures, self.alternatives, self.max_steps)


class BranchingState(NamedTuple):
    """Everything that the learner remembers."""

    params: PyTree
    optimiser: optax.OptState
    kept: Branches  # leaves [R, ...]
    next: Array  # int32, where the next states go
    filled: Array  # int32, states kept so far
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``


class Improvable(NamedTuple):
    """A policy as it is improved on.

    Attributes:
      init: ``(key, specs) -> params``.
      greedy: ``(params, observation, mask) -> action`` over a batch, leaves ``[B, ...]``.
      draw: ``(params, observation, mask, key) -> action``, the same of exploration.
      scores: ``(params, observation, action) -> float32 [R, C]``, how much the policy is for each
        of the candidates, leaves ``[R, C, ...]``.
    """

    init: Callable[[PRNGKey, Specs], PyTree]
    greedy: Callable[[PyTree, PyTree, PyTree], PyTree]
    draw: Callable[[PyTree, PyTree, PyTree, PRNGKey], PyTree]
    scores: Callable[[PyTree, PyTree, PyTree], Array]


def branching(network: nn.Module, config: BranchingConfig) -> Learner:
    """A learner by policy iteration on branches, for one choice among several.

    Args:
      network: flax module, ``apply(params, observation) -> scores`` of float32 ``[B, A]``.
      config: settings.

    Returns:
      The learner. Its ``act`` takes the legal action of the highest score (but for
      ``exploration``); no extras.
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
        config,
        Branching(config.look_ahead, _knobs),
    )


def branching_of_agents(
    agents: Agents,
    config: BranchingConfig,
    losses: tuple[AgentLoss, ...],
    *,
    scale: float = 1.0,
    rivals: tuple[Policy, ...] = (),
    draws: int = 0,
    plays: Policy | None = None,
) -> Learner:
    """A learner by policy iteration on branches, for actions of several agents.

    The score of a candidate is minus the agents' losses on it, as if it were a teacher's
    (:mod:`jaxsched.algorithms.regression`).

    Args:
      agents: what learns; every action is legal.
      config: settings; ``alternatives`` has no effect.
      losses: how each agent is compared with a candidate.
      scale: of differences in losses of rankings.
      rivals: policies without weights, whose actions are candidates beside the agents' own.
      draws: candidates beside these that are drawn from the agents.
      plays: the agents' greedy policy for a single environment, without memory, if there is a
        faster one than theirs; its weights are their parameters.

    Returns:
      The learner. Its ``act`` takes the most likely action, or with the probability
      ``exploration`` draws one; no extras.

    Raises:
      JaxschedError: there is no candidate but the agents' own.
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
        seen, mask = jax.tree.map(lambda x: x[None], (view.observation, view.mask))
        return jax.tree.map(lambda x: x[0], drawn(state.params, seen, mask, key)), memory

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
        config,
        Branching(config.look_ahead, _knobs, tried, None if plays is None else _of_state(plays)),
    )


def _of_state(policy: Policy) -> Policy:
    """The policy with the learner's state as its weights."""
    return policy._replace(
        act=lambda state, memory, view, key: policy.act(state.params, memory, view, key)
    )


def _improving(policy: Improvable, config: BranchingConfig, tries: Branching) -> Learner:
    """The learner of a policy."""
    optimiser = clipped_adam(config.max_gradient_norm)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> BranchingState:
        if params is None:
            params = policy.init(key, specs)
        kept, zero = _nothing(specs, config), jnp.int32(0)
        moments = optimiser.init(params)
        return BranchingState(params, moments, kept, zero, zero, traced_values(config), zero)

    def act(
        state: BranchingState, observation: PyTree, mask: PyTree, key: PRNGKey, greedy: bool
    ) -> tuple[PyTree, tuple[()]]:
        best = policy.greedy(state.params, observation, mask)
        if greedy:
            return best, ()
        coin_key, draw_key = jax.random.split(key)
        drawn = policy.draw(state.params, observation, mask, draw_key)
        batch = jax.tree.leaves(best)[0].shape[0]
        explores = jax.random.uniform(coin_key, (batch,)) < state.hyper.exploration
        return jax.vmap(select)(explores, drawn, best), ()

    def update(
        state: BranchingState, rollout: Rollout, key: PRNGKey
    ) -> tuple[BranchingState, Metrics]:
        found: Branches = rollout.branches
        num = found.value.shape[0]
        rows = (state.next + jnp.arange(num, dtype=jnp.int32)) % config.capacity
        kept = jax.tree.map(lambda old, new: old.at[rows].set(new), state.kept, found)
        filled = jnp.minimum(state.filled + num, config.capacity)
        drawn = jax.random.randint(key, (config.gradient_steps, config.batch_size), 0, filled)
        progress = state.updates / config.total_updates
        rate = linear(state.hyper.learning_rate, state.hyper.final_learning_rate, progress)

        def step(
            carry: tuple[PyTree, optax.OptState], rows: Array
        ) -> tuple[tuple[PyTree, optax.OptState], Metrics]:
            params, adam = carry
            batch = split(whole(jax.tree.map(lambda x: x[rows], kept)))
            (_, metrics), gradient = jax.value_and_grad(loss_of, has_aux=True)(
                params, state.hyper, batch
            )
            return descend(optimiser, params, adam, gradient, rate), metrics

        carry, metrics = jax.lax.scan(step, (state.params, state.optimiser), drawn)
        metrics = jax.tree.map(jnp.mean, metrics) | {"learning_rate": rate} | _facts(found)
        following = BranchingState(
            *carry, kept, (rows[-1] + 1) % config.capacity, filled, state.hyper, state.updates + 1
        )
        return following, metrics

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
        policy_params=lambda state: state.params,
        needs=Needs(sizes=(Size("num_envs", "at most", config.capacity, "the states kept"),)),
        branching=tries,
        layout=_layout,
    )


def _layout(state: BranchingState) -> BranchingState:
    layout: BranchingState = whole_layout(state)
    return layout._replace(kept=split_layout(state.kept, 0))


def advantage(found: Branches, relative: float | Array, clip: float | Array) -> Array:
    """Scaled and clipped gain of each candidate over the policy's own, float32 ``[..., C]``."""
    own = found.value[..., :1]
    scale = jnp.maximum(jnp.abs(own), 1e-6) ** relative
    return jnp.where(found.legal, jnp.clip((found.value - own) / scale, -clip, clip), 0.0)


def _knobs(state: BranchingState) -> Knobs:
    return Knobs(state.hyper.horizon_s, jnp.float32(0), state.hyper.discount_s)


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
    """How much the alternatives of the newest states differ from the policy's own action."""
    gain = jnp.where(found.legal, found.value - found.value[:, :1], 0.0)
    tried = jnp.sum(found.legal[:, 1:], dtype=jnp.float32)
    better = jnp.sum((gain > 0) & found.legal, dtype=jnp.float32)
    return {
        "informative": jnp.mean(jnp.any(gain != 0, axis=-1), dtype=jnp.float32),
        "better": better / jnp.maximum(tried, 1.0),
        "gain": jnp.mean(jnp.max(gain, axis=-1)),
    }
