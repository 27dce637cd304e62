"""The learned rivals of DAS (specification, section 9): DL2 orders jobs, RIFLING places them.

Each learns one part of the action and leaves the other to a heuristic: DL2 places by load balance,
RIFLING takes jobs first come first served. Both are one hidden layer of 64 to a Gaussian per unit.

Axes: ``...`` any batch axes, ``N`` positions, ``M`` machines, ``K`` groups of RIFLING.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, Likelihood, Normal, gaussian_agents
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import loadbalance
from jaxsched.envs.das.learn.agents import ORDERING, PLACEMENT, Action
from jaxsched.envs.das.learn.networks import SMALL, STD_FLOOR
from jaxsched.envs.das.rules.observation import Observation, recover
from jaxsched.envs.das.rules.placement import Demand, inverse_of, rows_in_turn
from jaxsched.networks.mlp import mlp
from jaxsched.types import Array, PRNGKey, PyTree

HIDDEN = 64
ROUNDS = 10  # of Lloyd's algorithm


class GaussianHead(nn.Module):
    """One hidden layer to the mean (tanh) and deviation (sigmoid) of one number per row."""

    @nn.compact
    def __call__(self, rows: Array) -> Normal:
        """Of ``[...]``, for rows ``[..., D]``."""
        out = nn.Dense(2, kernel_init=SMALL, name="head")(mlp(rows, "hidden", (HIDDEN,)))
        return Normal(jnp.tanh(out[..., 0]), jnp.maximum(nn.sigmoid(out[..., 1]), STD_FLOOR))


class JobPriority(nn.Module):
    """DL2: a priority for each job, from its row and the mean machine."""

    @nn.compact
    def __call__(self, observation: Observation) -> dict[str, Normal]:
        """Priorities ``[..., N]``."""
        jobs = jnp.where(observation.real[..., None], observation.jobs, 0.0)
        mean = jnp.mean(observation.machines, axis=-2, keepdims=True)
        rows = jnp.concatenate([jobs, jnp.broadcast_to(mean, jobs.shape)], axis=-1)
        return {ORDERING: GaussianHead(name="score")(rows)}


class GroupAffinity(nn.Module):
    """RIFLING: affinities of each job's group, from its centroid, the machine, the mean machine.

    Attributes:
      env: for the sizes.
    """

    env: DAS

    @nn.compact
    def __call__(self, observation: Observation) -> dict[str, Normal]:
        """Affinities ``[..., N, M]``."""
        lead = observation.real.shape[:-1]
        single = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(lead) :]), observation)
        centroids, member = jax.vmap(partial(job_groups, self.env))(single)
        machines = single.machines
        mean = jnp.mean(machines, axis=-2, keepdims=True)
        machines = jnp.concatenate([machines, jnp.broadcast_to(mean, machines.shape)], axis=-1)
        shape = (centroids.shape[0], centroids.shape[1], machines.shape[1])
        rows = jnp.concatenate(
            [
                jnp.broadcast_to(centroids[:, :, None], (*shape, centroids.shape[-1])),
                jnp.broadcast_to(machines[:, None], (*shape, machines.shape[-1])),
            ],
            axis=-1,
        )
        of_groups = GaussianHead(name="score")(rows)
        of_jobs = jax.tree.map(
            lambda x: jnp.take_along_axis(x, member[:, :, None], axis=1).reshape(
                *lead, member.shape[-1], -1
            ),
            of_groups,
        )
        return {PLACEMENT: of_jobs}


class Rival(NamedTuple):
    """One agent that gives one part of the action, and what gives the other.

    Attributes:
      network: ``apply(weights, observation) -> {agent: Normal}``, any batch axes.
      agent: its name.
      part: of the action that it gives.
      complete: ``(observation, part) -> action`` over leaves ``[B, ...]``.
    """

    network: nn.Module
    agent: str
    part: str
    complete: Callable[[Observation, Array], Action]


def dl2_agents(env: DAS) -> Agents:
    """DL2: the agent ``ordering`` (units: positions); placement is load balance.

    Leaves of ``sample`` and ``greedy`` are ``[B, ...]``, of ``evaluate`` ``[T, B, ...]``.
    """
    return _one_agent(dl2_rival(env))


def dl2_rival(env: DAS) -> Rival:
    """The parts of DL2."""

    def complete(observation: Observation, priority: Array) -> Action:
        rows = jax.vmap(partial(load_balance_rows, env))(observation, priority)
        return {"priority": priority, "affinity": rows}

    return Rival(JobPriority(), ORDERING, "priority", complete)


def rifling_agents(env: DAS) -> Agents:
    """RIFLING: the agent ``placement`` (units: positions, rows of affinities); the order is FIFO.

    Leaves of ``sample`` and ``greedy`` are ``[B, ...]``, of ``evaluate`` ``[T, B, ...]``. A row's
    log density is of the whole row; its entropy is per machine.
    """
    return _one_agent(rifling_rival(env))


def rifling_rival(env: DAS) -> Rival:
    """The parts of RIFLING."""

    def complete(observation: Observation, affinity: Array) -> Action:
        priority = jnp.broadcast_to(fifo_priority(env), observation.real.shape)
        return {"priority": priority, "affinity": affinity}

    return Rival(GroupAffinity(env), PLACEMENT, "affinity", complete)


def fifo_priority(env: DAS) -> Array:
    """Priorities ``-i / N`` of first come first served, float32 ``[N]``."""
    return -jnp.arange(env.window, dtype=jnp.float32) / env.window


def load_balance_rows(env: DAS, observation: Observation, priority: Array) -> Array:
    """Affinities that place jobs in order of priority on the machines then most free.

    The decision is played on what the observation says is free, each job on what the earlier ones
    leave.

    Args:
      env: the environment.
      observation: one observation (no batch axes).
      priority: float ``[N]``.

    Returns:
      float32 ``[N, M]``, free GPUs of each machine when the job's turn comes.
    """
    known = recover(env, observation)
    rank = rank_by_comparison(priority, observation.real)
    demand = Demand(known.instances, *known.requests.T)
    gpus, cpus, mem = known.free.T
    return rows_in_turn((gpus, cpus, mem), demand, rank, loadbalance)


def rank_by_comparison(priority: Array, member: Array) -> Array:
    """The same as ``placement.rank_of`` by operations that exported policies have.

    Every pair is compared, which windows of policies are small enough for.
    """
    index = jnp.arange(priority.shape[0], dtype=jnp.int32)
    key = jnp.where(member & ~jnp.isnan(priority), priority, -jnp.inf)
    earlier = index[None, :] < index[:, None]
    ahead = (key[None, :] > key[:, None]) | ((key[None, :] == key[:, None]) & earlier)
    first = member[None, :] & ~member[:, None]
    return jnp.sum(first | ((member[None, :] == member[:, None]) & ahead), axis=-1, dtype=jnp.int32)


def job_groups(env: DAS, observation: Observation) -> tuple[Array, Array]:
    """RIFLING's k-means of the real rows of jobs.

    The first centroids are the rows at the quantiles ``(2q + 1) / (2K)`` of the order by number of
    GPUs; ties go to the lower position and the lower group, an empty group keeps its centroid.

    Args:
      env: for the sizes; K = round(sqrt(N / 2)).
      observation: one observation (no batch axes).

    Returns:
      Centroids float32 ``[K, 5]`` and the group of each position, int32 ``[N]``.
    """
    groups = max(1, round((env.window / 2) ** 0.5))
    real = observation.real
    rows = jnp.where(real[:, None], observation.jobs, 0.0)
    gpus = recover(env, observation).num_gpus
    order = inverse_of(rank_by_comparison(-gpus, real))
    odd = 2 * jnp.arange(groups, dtype=jnp.int32) + 1
    quantiles = odd * jnp.sum(real, dtype=jnp.int32) // (2 * groups)
    centroids = rows[order[quantiles]]

    def nearest(centroids: Array) -> Array:
        distance = jnp.sum((rows[:, None] - centroids[None]) ** 2, axis=-1)
        return jnp.argmin(distance, axis=-1).astype(jnp.int32)

    def body(_: int, centroids: Array) -> Array:
        member = (nearest(centroids)[:, None] == jnp.arange(groups)) & real[:, None]
        count = jnp.sum(member, axis=0, dtype=jnp.float32)[:, None]
        total = jnp.sum(jnp.where(member[:, :, None], rows[:, None], 0.0), axis=0)
        return jnp.where(count > 0, total / jnp.maximum(count, 1.0), centroids)

    centroids = jax.lax.fori_loop(0, ROUNDS, body, centroids)
    return centroids, nearest(centroids)


def _one_agent(rival: Rival) -> Agents:
    """The network's only agent, which gives one part of the action, with the other part."""
    network, name, part, complete = rival
    alone = gaussian_agents(network, lambda observation, mask: {name: observation.real})

    def sample(
        params: PyTree, observation: Observation, mask: PyTree, key: PRNGKey
    ) -> tuple[Action, dict[str, Array]]:
        value, log_prob = alone.sample(params, observation, mask, key)
        return complete(observation, value[name]), log_prob

    def greedy(params: PyTree, observation: Observation, mask: PyTree) -> Action:
        return complete(observation, alone.greedy(params, observation, mask)[name])

    def evaluate(
        params: PyTree, observation: Observation, mask: PyTree, action: Action
    ) -> Likelihood:
        return alone.evaluate(params, observation, mask, {name: action[part]})

    return Agents(alone.init, sample, greedy, evaluate)
