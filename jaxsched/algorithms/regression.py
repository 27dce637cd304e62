"""Supervised learning of a teacher's continuous actions, such as priorities and affinities.

The counterpart of :mod:`jaxsched.algorithms.imitation` for continuous actions of several agents.
The environment's observation is a :class:`~jaxsched.wrappers.teacher.Taught`:
what the agents observe and the teacher's action. One call of ``update`` is

    gradient_steps times:
        take batch_size sequences of the rollout, each as often as any other
        one Adam step on the weighted sum of the agents' losses

The student acts in ``student_share`` of the steps, and the teacher labels the states it gets into
(DAgger: Ross et al., 2011).

Axes: ``T`` time, ``B`` batch of environments, ``U`` units of an agent, ``D`` numbers of a unit,
``S`` steps of a sequence, ``C`` sequences.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms.agents import (
    Agents,
    ByAgent,
    Likelihood,
    any_active,
    parts_of,
    sequence_means,
    sequence_needs,
    sequences,
    unit_mean,
)
from jaxsched.algorithms.ranking import ranking
from jaxsched.algorithms.settings import linear, traced, traced_values
from jaxsched.algorithms.softmax import (
    clipped_adam,
    descend,
    minibatches,
    weighted_mean,
)
from jaxsched.core.learner import Learner, Metrics, Needs
from jaxsched.core.sharding import split, whole
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.options import Count, Positive, Share, check
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs
from jaxsched.wrappers.teacher import Taught

Loss = Literal["squared", "nll", "ranking"]


@dataclass(frozen=True)
class AgentLoss:
    """How one agent is compared with the teacher.

    Attributes:
      agent: its name.
      loss: ``"squared"``, of the most likely action against the label; ``"nll"``, minus the log
        density of the label; ``"ranking"``, of pairs, for actions of which only the order counts
        (:func:`~jaxsched.algorithms.ranking.ranking`).
      weight: of the agent's loss in the sum.
    """

    agent: str
    loss: Loss = "squared"
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the name of the loss."""
        check(self)


@dataclass(frozen=True)
class RegressionConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which the learning rate moves.
      losses: one per agent that is to learn.
      gradient_steps: minibatches per call of ``update``.
      batch_size: sequences per minibatch.
      sequence_length: consecutive steps of one environment that form a sequence; divides the
        rollout's length; single decisions if absent.
      max_gradient_norm: global norm to which the gradient is clipped, if given.
      learning_rate: of Adam, at the start.
      final_learning_rate: at the end; linear in between; constant if absent.
      student_share: probability that a step's action is the student's (sampled), not the
        teacher's.
      ranking_scale: what differences are multiplied by in the ranking loss; above 1 for actions
        that cannot move far apart.
    """

    total_updates: Count
    losses: tuple[AgentLoss, ...]
    gradient_steps: Count = 1
    batch_size: Count = 256
    sequence_length: Count | None = None
    max_gradient_norm: float | None = None
    learning_rate: float = traced(1e-3)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    student_share: Share = traced(0.5)
    ranking_scale: Positive = traced(1.0)

    def __post_init__(self) -> None:
        """Check sizes and options."""
        check(self)
        names = [loss.agent for loss in self.losses]
        if not names or len(set(names)) < len(names):
            raise JaxschedError(
                f"RegressionConfig.losses is for the agents {names}; it must name one or more, "
                "each once"
            )


class RegressionState(NamedTuple):
    """The learner's state."""

    params: PyTree
    optimiser: optax.OptState
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``


def regression(agents: Agents, config: RegressionConfig) -> Learner:
    """A learner of a teacher's actions.

    Args:
      agents: the student; it never sees the label.
      config: settings.

    Returns:
      The learner. Its ``act`` executes the label (or the student's action, see
      ``student_share``), or where ``greedy`` the student's most likely one; no extras.
    """
    optimiser = clipped_adam(config.max_gradient_norm)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> RegressionState:
        if params is None:
            params = agents.init(key, specs._replace(observation=specs.observation.observation))
        moments = optimiser.init(params)
        return RegressionState(params, moments, traced_values(config), jnp.int32(0))

    def act(
        state: RegressionState, observation: Taught, mask: PyTree, key: PRNGKey, greedy: bool
    ) -> tuple[PyTree, tuple[()]]:
        seen, label = observation
        if greedy:
            return agents.greedy(state.params, seen, mask), ()
        if config.student_share == 0:
            return label, ()
        coin_key, student_key = jax.random.split(key)
        student, _ = agents.sample(state.params, seen, mask, student_key)
        size = len(jax.tree.leaves(label)[0])
        acts = jax.random.uniform(coin_key, (size,), jnp.float32) < state.hyper.student_share
        return jax.vmap(select)(acts, student, label), ()

    def update(
        state: RegressionState, rollout: Rollout, key: PRNGKey
    ) -> tuple[RegressionState, Metrics]:
        steps = (rollout.observation, rollout.mask, rollout.action)
        batch = whole(sequences(steps, config.sequence_length))
        columns = minibatches(
            key,
            rollout.reward.size // (config.sequence_length or 1),
            config.gradient_steps,
            config.batch_size,
        )
        progress = state.updates / config.total_updates
        rate = linear(state.hyper.learning_rate, state.hyper.final_learning_rate, progress)

        def step(
            carry: tuple[PyTree, optax.OptState], columns: Array
        ) -> tuple[tuple[PyTree, optax.OptState], Metrics]:
            params, adam = carry
            part = split(jax.tree.map(lambda x: x[:, columns], batch), 1)
            (_, metrics), gradient = jax.value_and_grad(loss_of, has_aux=True)(
                params, *part, state.hyper.ranking_scale
            )
            params, adam = descend(optimiser, params, adam, gradient, rate)
            metrics["gradient_norm"] = optax.global_norm(gradient)
            return (params, adam), metrics

        carry, metrics = jax.lax.scan(step, (state.params, state.optimiser), columns)
        metrics = jax.tree.map(jnp.mean, metrics) | {"learning_rate": rate}
        return RegressionState(*carry, state.hyper, state.updates + 1), metrics

    def loss_of(
        params: PyTree, taught: Taught, mask: PyTree, action: PyTree, scale: Array
    ) -> tuple[Array, Metrics]:
        seen, label = taught
        likelihood = agents.evaluate(params, seen, mask, label)
        found = parts_of(agents, sequence_means(agents, params, seen, mask, action))
        wanted = parts_of(agents, label)
        apart = departures(config.losses, found, wanted, likelihood, scale)
        total, metrics = jnp.float32(0), {}
        for choice in config.losses:
            name, each = choice.agent, apart[choice.agent]
            weight = each.active.astype(jnp.float32)
            loss = weighted_mean(each.loss, weight)
            if each.agreement is not None:
                metrics[f"{name}_agreement"] = weighted_mean(each.agreement, weight)
            metrics[f"{name}_loss"] = loss
            total = total + choice.weight * loss
        return total, metrics | {"loss": total}

    needs = Needs(sizes=sequence_needs(config.sequence_length))
    return Learner(init, act, update, lambda state: state.params, needs)


class Departure(NamedTuple):
    """Distance of an agent's actions from the wanted ones, for each step.

    Attributes:
      loss: float32 ``[...]``, mean over its active units; 0 without any.
      active: bool ``[...]``, steps with any.
      agreement: float32 ``[...]``, of rankings: share of the pairs in the right order.
    """

    loss: Array
    active: Array
    agreement: Array | None


def departures(
    losses: tuple[AgentLoss, ...],
    found: ByAgent,
    wanted: ByAgent,
    likelihood: Likelihood,
    scale: float | Array,
) -> dict[str, Departure]:
    """Distances of each agent's actions from the wanted ones, unweighted.

    Args:
      losses: one per agent that is compared.
      found: the most likely numbers, ``[..., U]`` or ``[..., U, D]``.
      wanted: as ``found``.
      likelihood: of what is wanted; leaves ``[..., U]``.
      scale: of differences in losses of rankings.

    Raises:
      JaxschedError: there is no agent of that name.
    """
    apart = {}
    for name, kind in ((loss.agent, loss.loss) for loss in losses):
        if name not in likelihood.active:
            raise JaxschedError(
                f"losses name the agent {name!r}; accepted: {', '.join(sorted(likelihood.active))}"
            )
        active, agreement = likelihood.active[name], None
        if kind == "nll":
            values = -likelihood.log_prob[name]
        elif kind == "squared":
            values = unit_error(found[name], wanted[name], active)
        else:
            pairs = ranking(found[name], wanted[name], active, scale)
            values, active = pairs.loss, pairs.active
            agreement = _by_step(pairs.agreement, active)
        apart[name] = Departure(_by_step(values, active), any_active({"": active}), agreement)
    return apart


def unit_error(found: Array, wanted: Array, active: Array) -> Array:
    """Mean squared error of each active unit, ``[..., U]`` from ``[..., U]`` or ``[..., U, D]``."""
    acts = active.reshape(*active.shape, *[1] * (found.ndim - active.ndim))
    error = (found - jnp.where(acts, wanted, 0.0)) ** 2
    return jnp.mean(error.reshape(*active.shape, -1), axis=-1)


def _by_step(values: Array, active: Array) -> Array:
    """Mean over active units of each step, ``[...]`` of ``[..., U]``; 0 where there are none."""
    return unit_mean({"": values}, {"": active})
