"""Plans of a slot as they are learnt: which tasks are placed, where, and in what order.

A plan follows from weights of jobs, tasks and pairs of task and server (``heuristics``): the pair
of the highest score goes next. While plans are learnt they are drawn, in one of two ways:

* by their weights: those of each slot are a draw from a normal distribution around the mean;
* pair by pair (Plackett, The Analysis of Permutations, 1975; Luce, Individual Choice Behavior,
  1959): each choice is a draw among the pairs that are left and have room, with probabilities in
  proportion to ``score ** (1 / temperature)``.

Policies play without draws, by the means.

A gradient of the second kind needs the features of all pairs at each choice. They are not kept:
the logarithm of a score is linear in the weights, up to bounds of exponents, so that the gradient
of a plan's log-probability is known when the plan is drawn and has the size of the weights. The
learner is shown that gradient, and a plan's log-probability is linear in the weights around those
that it was drawn with. Tasks that leave overloaded servers are those of least worth, by the mean
weights; that is no draw, and nothing is learnt from it.

Axes: ``B`` batch, ``W`` weights, ``A`` jobs, ``K`` places for tasks, ``S`` servers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.algorithms.agents import (
    Agents,
    ByAgent,
    Likelihood,
    Normal,
    gaussian_agents,
    over_time,
)
from jaxsched.algorithms.critics import Critic, state_value
from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.environment import MLFS, nothing_yet
from jaxsched.envs.mlfs.heuristics import (
    WEIGHTS,
    all_scores,
    order_by_weights,
    pair_classes,
    pairing_of,
    with_room,
    worth_of,
)
from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.rules import Rules, dynamics
from jaxsched.envs.mlfs.rules import offers as off
from jaxsched.envs.mlfs.rules.state import NONE, State
from jaxsched.envs.mlfs.rules.tables import Params, jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.networks.mlp import ValueMLP
from jaxsched.ops.batching import any_across_batch, select
from jaxsched.ops.reductions import over_rows
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, Specs, TimeStep
from jaxsched.wrappers.privileged_state import Reads, Whole, everything
from jaxsched.wrappers.wrapper import Wrapper

PAIRS = "pairs"  # the weights of slots
DRAWN_WEIGHTS, DRAWN_PAIRS = "plans", "plans_by_pair"  # the same while plans are drawn
KINDS = (PAIRS, DRAWN_WEIGHTS, DRAWN_PAIRS)
"""Kinds of network whose outputs are weights."""
PLAN = "plan"  # the agent that draws the plan of a slot
PLAN_STD = 0.12  # of each weight, as the search begins with
TEMPERATURE = 0.1  # of scores: pairs are about as uncertain as under ``PLAN_STD``
PLAN_VALUE = (64, 64)
OF_SLOTS = (
    f"mlfs: weights of slots are learned by search ({PAIRS}) or by PPO ({DRAWN_WEIGHTS}, "
    f"{DRAWN_PAIRS}) alone"
)


class PairWeights(ExportableModule):
    """The same weights of jobs, tasks and pairs in every slot, ``[..., W]``; 0 at the start."""

    def describe(self) -> list[nd.Step]:
        """A layer that reads nothing: its bias."""
        return [
            nd.take(nd.OBSERVATION, "nothing", stop=0),
            nd.dense("nothing", "weights", len(WEIGHTS), activation="linear", output=nd.SCORES),
        ]

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """There is nothing to draw."""
        del layer
        return nn.initializers.zeros_init()


class DrawnWeights(NamedTuple):
    """A normal distribution of each weight of a slot, of fixed width: the plan is drawn.

    Attributes:
      network: of the means; the parameters are the network's.
      start_std: deviation of the means at the start; 0: they are 0.
    """

    network: PairWeights
    start_std: float = 0.0

    def init(self, key: PRNGKey, observation: Array) -> Any:
        """The network's parameters."""
        params = self.network.init(key, observation)
        if not self.start_std:
            return params
        return jax.tree.map(
            lambda x: self.start_std * jax.random.normal(key, x.shape, x.dtype), params
        )

    def apply(self, params: PyTree, observation: Array) -> dict[str, Normal]:
        """The weights of a slot as one agent of one unit, ``[B, 1, W]``."""
        mean: Any = self.network.apply(params, observation)
        mean = mean[..., None, :]
        return {PLAN: Normal(mean, jnp.full_like(mean, PLAN_STD))}


class Plan(NamedTuple):
    """What of a slot's plan is shown while plans are learnt.

    Attributes:
      before: float32 ``[8]``, the cluster before the plan.
      gradient: float32 ``[W]``, of the logarithm of the plan's probability, by the weights; 0 where
        there is no plan yet.
    """

    before: Array
    gradient: Array


class PlannedState(NamedTuple):
    """State of a :class:`PlannedByPair`.

    Attributes:
      inner: of the cluster; the slot's tasks are placed where there is a plan.
      plan: of the slot.
      planned: bool, there is one.
    """

    inner: State
    plan: Plan
    planned: Array


@dataclass(frozen=True)
class PlannedByPair(Wrapper):
    """A cluster whose plans are drawn pair by pair.

    A step ends the slot, if it has a plan, and draws the plan of the next with the action's
    weights: its observation tells the gradient of a plan whose reward is still to come.

    Attributes:
      temperature: of scores.
    """

    temperature: float = TEMPERATURE

    name = "planned_by_pair"
    behaviour_version = 1
    reset_on_demand = True

    def __post_init__(self) -> None:
        """Check the attributes.

        Raises:
          JaxschedError: another environment, or a temperature that is not above 0.
        """
        if not isinstance(self.env, MLFS) or self.env.decide != "slot":
            raise JaxschedError(f"{self.env.name}: plans are drawn where mlfs' decide is 'slot'")
        if not self.temperature > 0:
            raise JaxschedError(f"mlfs: temperature is {self.temperature:g}; it must be above 0")

    @property
    def has_privileged_state(self) -> bool:
        """No: it would tell what the plan did before the plan is rewarded."""
        return False

    def max_steps(self, params: Params) -> int:
        """A step more: the first one draws a plan only."""
        return self.env.max_steps(params) + 1

    def observation_spec(self, params: Params) -> Any:
        """The cluster's, and the gradient."""
        gradient: Any = ArraySpec((len(WEIGHTS),), jnp.float32)
        return Plan(self.env.observation_spec(params), gradient)

    def observe(self, state: PlannedState, params: Params) -> tuple[Plan, Array]:
        """The slot's plan."""
        del params
        return state.plan, jnp.ones(1, bool)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[PlannedState, TimeStep]:
        """The idle cluster, no plan drawn."""
        inner, timestep = self.env.reset(key, params, episode)
        plan = Plan(timestep.observation, jnp.zeros(len(WEIGHTS), jnp.float32))
        return PlannedState(inner, plan, jnp.bool_(False)), timestep._replace(observation=plan)

    def step(
        self, key: PRNGKey, state: PlannedState, action: Array, params: Params
    ) -> tuple[PlannedState, TimeStep]:
        """End the slot and draw the next plan.

        Args:
          key: of the draws.
          state: the state.
          action: float32 ``[W]``.
          params: of the environment.
        """
        env = cast(MLFS, self.env)
        before = state.inner
        waits, nothing = ~state.planned | env.done(before, params), nothing_yet(before)
        after, since = select(waits, (before, nothing), env.next_slot((before, nothing), params))
        made = jnp.where(waits, 0, before.offers.made)
        timestep = env.told(before, after, since, made, params)
        planned, gradient = drawn(
            env.rules_of(params), params, after, action, key, self.temperature
        )
        stops = env.done(after, params)
        inner = select(stops, after, planned)
        plan = Plan(timestep.observation, jnp.where(stops, 0.0, gradient))
        return PlannedState(inner, plan, ~stops), timestep._replace(observation=plan)


def drawn(
    rules: Rules, params: Params, state: State, weights: Array, key: PRNGKey, temperature: float
) -> tuple[State, Array]:
    """A slot whose tasks are placed by draws of pairs, and the gradient of its log-probability.

    Scores are those of the beginning of the slot; as servers fill, pairs lose their room.

    Args:
      rules: static options.
      params: of the episode.
      state: at the beginning of a slot, jobs admitted.
      weights: float32 ``[W]``.
      key: of the draws.
      temperature: of scores.

    Returns:
      The state, and float32 ``[W]``.
    """
    order = partial(order_by_weights, weights)
    opened = dynamics.open_slot(rules, params, state, _nothing_placed, order)
    jobs = jobs_at(params, opened.episode, opened.active.job)
    worth = jax.lax.bitcast_convert_type(opened.tasks.priority, jnp.float32)
    scores = all_scores(rules, jobs, opened, pairing_of(rules, opened, worth, weights))
    possible = scores > 0
    logits = jnp.log(jnp.where(possible, scores, 1.0)) / temperature
    raced = logits + jax.random.gumbel(key, logits.shape)
    classes = pair_classes(rules, jobs, opened)
    pairs = np.arange(logits.size, dtype=np.int32).reshape(logits.shape)

    def chosen(state: State, left: Array) -> tuple[State, Array]:
        """The state that offers the task of the next of the pairs that are left, and its server."""
        times = jnp.where(left, raced, -jnp.inf)
        best = _over_all(jnp.maximum, jnp.max, times)
        pair = _over_all(jnp.minimum, jnp.min, jnp.where(left & (times == best), pairs, pairs.size))
        there = (pair < pairs.size) & (state.offers.made < rules.max_offers)
        server, task = pair // pairs[0].size, pair % pairs[0].size
        place = jnp.where(there, task // MAX_TASKS, NONE)
        offers = state.offers._replace(place=place, task=jnp.where(there, task % MAX_TASKS, 0))
        return state._replace(offers=offers), server

    def step(at: _Drawing) -> _Drawing:
        state, server, left, surprise = at
        offer = off.offered(rules, params, state)
        most = _over_all(jnp.maximum, jnp.max, jnp.where(left, logits, -jnp.inf))
        share = jnp.where(left & offer.there, jnp.exp(logits - most), 0.0)
        total = _over_all(jnp.add, jnp.sum, share)
        pair = jnp.where(offer.there, server, len(pairs)), offer.place, offer.task
        surprise = surprise - share / jnp.maximum(total, 1.0)  # the likeliest has share 1
        surprise = surprise.at[pair].add(1.0, mode="drop")
        state = off.settled(rules, params, state, offer, server, offer.there)
        left = left.at[:, offer.place, offer.task].set(False)
        filled = cl.one_server(rules.cluster, state.loads, server)
        room = off.servers_with_room(rules, state.active, off.room_of(rules, filled))[..., 0]
        left = left.at[server].set(left[server] & with_room(classes, room))
        return _Drawing(*chosen(state, left), left, surprise)

    begin = _Drawing(*chosen(opened, possible), possible, jnp.zeros_like(logits))
    end = jax.lax.while_loop(
        lambda at: any_across_batch(at.state.offers.place != NONE), step, begin
    )

    def told(weights: Array) -> Array:
        """What has the gradient of the log-probability, at these weights."""
        own = worth_of(weights, jobs, state, jnp.ones_like(opened.tasks.priority))
        found = all_scores(rules, jobs, opened, pairing_of(rules, opened, own, weights))
        return jnp.sum(end.surprise * jnp.log(jnp.where(possible, found, 1.0))) / temperature

    return end.state, jax.grad(told)(weights)


class _Drawing(NamedTuple):
    """A slot whose tasks are being placed.

    Attributes:
      state: offers the task of the next pair.
      server: int32, of the next pair.
      left: bool ``[S, A, K]``, pairs that are left and have room.
      surprise: float32 ``[S, A, K]``, how often pairs were chosen, less how often that was
        expected.
    """

    state: State
    server: Array
    left: Array
    surprise: Array


def _over_all(
    combine: Callable[[Array, Array], Array], last: Callable[[Array], Array], values: Array
) -> Array:
    """All of ``[S, A, K]`` combined, rows first: processors do several of their entries at once."""
    return last(over_rows(combine, values.reshape(MAX_TASKS, -1)))


def _nothing_placed(rules: Rules, params: Params, state: State) -> State:
    del rules, params
    return state


def policy_model(
    env: MLFS,
    kind: str,
    *,
    start_std: float = 0.0,
    temperature: float = TEMPERATURE,
    **options: Any,
) -> PolicyModel | None:
    """Plans are drawn while they are learnt; other policies are scores or outputs.

    Args:
      env: the environment.
      kind: of network.
      start_std: deviation of the weights of plans at the start. At 0 they are MLF-H's, at 1 each
        is about as much as what is known of jobs and tasks differs: schedules at random.
      temperature: of scores, where plans are drawn pair by pair.
      options: of other kinds of network.

    Raises:
      JaxschedError: ``start_std`` is below 0, or ``temperature`` is not above 0.
    """
    del env, options
    if kind not in (DRAWN_WEIGHTS, DRAWN_PAIRS):
        return None
    if start_std < 0:
        raise JaxschedError(f"mlfs: start_std is {start_std:g}; it must be 0 or more")
    network = DrawnWeights(PairWeights(), start_std)
    if kind == DRAWN_PAIRS:
        agents = pair_agents(network)
        return PolicyModel(
            agents=agents,
            critic=_plan_critic,
            learns_in=partial(PlannedByPair, temperature=temperature),
        )
    drawn = gaussian_agents(cast(Any, network))
    agents = drawn._replace(
        sample=lambda *given: _of_plan(*drawn.sample(*given)),
        greedy=lambda *given: drawn.greedy(*given)[PLAN][..., 0, :],
        evaluate=lambda params, observation, mask, action: drawn.evaluate(
            params, observation, mask, _by_agent(action)
        ),
        parts=_by_agent,
    )
    return PolicyModel(agents=agents, critic=_plan_critic)


def pair_agents(network: "DrawnWeights") -> Agents:
    """One agent whose action is the weights, and whose density is that of the slot's plan.

    Args:
      network: of the weights, which reads what is known before the plan.
    """

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        seen = jax.tree.map(lambda spec: spec.zeros()[None], specs.observation)
        return network.init(key, seen.before)

    def weights_of(params: PyTree, observation: Plan) -> Array:
        return cast(Array, network.network.apply(params, observation.before))

    def log_prob(params: PyTree, observation: Plan) -> ByAgent:
        told = observation.gradient * weights_of(params, observation)
        return {PLAN: jnp.sum(told, axis=-1, keepdims=True)}

    def sample(
        params: PyTree, observation: Plan, mask: PyTree, key: PRNGKey
    ) -> tuple[Array, ByAgent]:
        del mask, key
        return weights_of(params, observation), log_prob(params, observation)

    def greedy(params: PyTree, observation: Plan, mask: PyTree) -> Array:
        del mask
        return weights_of(params, observation)

    def evaluate(params: PyTree, observation: Plan, mask: PyTree, action: Array) -> Likelihood:
        del mask, action
        found = over_time(lambda seen: log_prob(params, seen), observation)
        drawn = jnp.any(observation.gradient != 0, axis=-1, keepdims=True)
        nothing = jax.tree.map(jnp.zeros_like, found)
        return Likelihood(found, nothing, {PLAN: drawn})

    return Agents(init, sample, greedy, evaluate, parts=_by_agent)


def _plan_critic(kind: str, agents: Agents) -> Critic:
    """Of what is observed, or of the whole state where the observation has it."""
    del agents
    if kind:
        raise JaxschedError(f"mlfs: value_network is {kind!r}; accepted for plans: none")
    return state_value(cast(Any, Reads(ValueMLP(PLAN_VALUE), _all_told)))


def _all_told(observation: Any) -> Array:
    if isinstance(observation, Plan):
        return observation.before
    return everything(observation) if isinstance(observation, Whole) else observation


def _by_agent(action: Array) -> ByAgent:
    return {PLAN: action[..., None, :]}


def _of_plan(action: ByAgent, log_prob: ByAgent) -> tuple[Array, ByAgent]:
    return action[PLAN][..., 0, :], log_prob
