"""Which units of an action have an effect: jobs that could start, rows that decide where.

Most positions of a decision hold jobs that do not fit, whatever their priority; most rows of
affinities belong to jobs that are not placed, or to jobs that take what there is. Such units may
leave the loss, its normalisation and the entropy: their log-ratios are nothing but noise.

Axes: ``...`` any batch axes, ``N`` positions, ``M`` machines.
"""

from functools import partial

import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, ByAgent, Likelihood
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.agents import ORDERING, PLACEMENT, Action, current
from jaxsched.envs.das.learning.decoded_observation import recover
from jaxsched.envs.das.observation import Observation
from jaxsched.envs.das.simulator.placement import (
    Demand,
    Free,
    can_place,
    fitting,
    inverse_of,
    place,
    rank_of,
    take,
)
from jaxsched.types import Array, PyTree


def effective_only(agents: Agents, env: DAS) -> Agents:
    """The same agents, of whose units only those with an effect are active.

    Sampling is as before, and so are the log densities that it gives.
    """

    def evaluate(params: PyTree, observation: PyTree, mask: PyTree, action: Action) -> Likelihood:
        found = agents.evaluate(params, observation, mask, action)
        counts = effective_units(env, current(observation), action)
        active = {name: units & counts[name] for name, units in found.active.items()}

        def kept(values: ByAgent) -> ByAgent:
            return {name: jnp.where(active[name], x, 0.0) for name, x in values.items()}

        return Likelihood(kept(found.log_prob), kept(found.entropy), active)

    return agents._replace(evaluate=evaluate)


def effective_units(env: DAS, observation: Observation, action: Action) -> ByAgent:
    """Units whose part of an action can change the schedule, bool ``[..., N]`` by agent.

    Priorities count where two jobs or more could be placed (with ``block``: are pending). A row of
    affinities counts where its job is placed by this action and, when its turn comes, more of its
    instances would fit than it has, on two machines or more.
    """
    lead = observation.real.shape[:-1]
    seen = (observation.jobs, observation.machines, observation.real)
    parts = (*seen, action["priority"], action["affinity"])
    flat = [x.reshape(-1, *x.shape[len(lead) :]) for x in parts]
    found = jax.vmap(partial(_of_one, env))(*flat)
    return {name: units.reshape(*lead, -1) for name, units in found.items()}


def _of_one(
    env: DAS, jobs: Array, machines: Array, real: Array, priority: Array, affinity: Array
) -> ByAgent:
    """The units of one decision, bool ``[N]`` by agent."""
    seen = recover(env.cluster, Observation(jobs, machines, real))
    gpus, cpus, mem = seen.free.T
    demand = Demand(jnp.where(real, seen.instances, 0.0), *seen.requests.T)
    blocks = env.on_no_fit == "block"
    counts = real if blocks else real & can_place((gpus, cpus, mem), demand)
    rank = rank_of(priority, counts)
    order = inverse_of(rank)
    rows = jnp.where(jnp.isnan(affinity), -jnp.inf, affinity)[order]

    def turn(
        carry: tuple[Free, Array], job: tuple[Demand, Array]
    ) -> tuple[tuple[Free, Array], Array]:
        free, open_ = carry
        demand, row = job
        fit = fitting(free, demand)
        placed = open_ & (demand.instances > 0) & (jnp.sum(fit) >= demand.instances)
        choice = placed & (jnp.sum(fit) > demand.instances) & (jnp.sum(fit >= 1) >= 2)
        wanted = demand._replace(instances=jnp.where(placed, demand.instances, 0.0))
        goes_on = placed if blocks else open_
        return (take(free, wanted, place(free, wanted, row)), goes_on), choice

    in_turn = jax.tree.map(lambda x: x[order], demand)
    start = ((gpus, cpus, mem), jnp.bool_(True))
    _, choice = jax.lax.scan(turn, start, (in_turn, rows))
    several = jnp.sum(counts) >= 2
    return {ORDERING: counts & several, PLACEMENT: choice[rank] & real}
