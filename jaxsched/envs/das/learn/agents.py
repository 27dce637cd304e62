"""The agents of DAS, ordering and placement (section 10), and those of its learned rivals.

Observations are ``Remembered`` where the network remembers
(:class:`jaxsched.wrappers.history.WithHistory` as :func:`with_history` builds it), plain
``Observation`` otherwise. What a decision contributes to later posteriors depends on that decision
alone, so it is computed once per decision of a sequence and added up by one matrix product,
whichever decisions each posterior looks at.

The rivals (section 9): DL2 orders jobs, RIFLING places them. Each learns one part of the action and
leaves the other to a heuristic: DL2 places by load balance, RIFLING takes jobs first come first
served. Both are one hidden layer of 64 to a Gaussian per unit.

Axes: ``T`` time, ``B`` batch, ``N`` positions, ``M`` machines; ``S`` = tau + T decisions of a
sequence, those remembered at its first step first.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms import gaussian
from jaxsched.algorithms.agents import Agents, ByAgent, Likelihood, Normal, gaussian_agents
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import loadbalance
from jaxsched.envs.das.learn import (
    SMALL,
    STD_FLOOR,
    DASNetwork,
    Outlook,
    Trunk,
    noise_of,
    outlook_by_width,
)
from jaxsched.envs.das.rules.observation import Observation, recover
from jaxsched.envs.das.rules.placement import (
    Demand,
    Free,
    can_place,
    fitting,
    inverse_of,
    place,
    rank_of,
    rows_in_turn,
    take,
)
from jaxsched.networks import walk_process as wp
from jaxsched.networks.exportable import Precision
from jaxsched.networks.mlp import mlp
from jaxsched.types import NO_JOB, Array, PRNGKey, PyTree, Specs
from jaxsched.wrappers.history import Remembered, WithHistory

ORDERING, PLACEMENT = "ordering", "placement"

Action = dict[str, Array]


class DiagonalRows(NamedTuple):
    """Rows of independent affinities.

    Attributes:
      mean: ``[..., N, M]``.
      std: ``[..., N, M]``.
    """

    mean: Array
    std: Array

    def sample(self, key: PRNGKey) -> Array:
        """One draw of each row, ``[..., N, M]``."""
        return gaussian.sample(key, self.mean, self.std)

    def drawn(self, weights: Array, noise: Array) -> Array:
        """The rows that standard normal numbers ``noise [..., N, M]`` stand for."""
        del weights
        return self.mean + self.std * noise

    def log_density(self, action: Array) -> tuple[Array, Array]:
        """Log density and entropy of whole rows, ``[..., N]`` each."""
        density = gaussian.log_density(action, self.mean, self.std)
        return jnp.sum(density, axis=-1), jnp.sum(gaussian.entropy(self.std), axis=-1)


class WalkRows(NamedTuple):
    """Rows that the walk process predicts.

    Attributes:
      mean: ``[..., N, M]``.
      given: the posterior.
      features: ``[..., N, m, F]``.
    """

    mean: Array
    given: wp.Posterior
    features: Array

    def sample(self, key: PRNGKey) -> Array:
        """One draw of each row, ``[..., N, M]``."""
        return wp.sample(self.given, self.features, self.mean, key)

    def drawn(self, weights: Array, noise: Array) -> Array:
        """The same of standard normal numbers ``weights [..., N, F]``, ``noise [..., N, M]``."""
        return wp.drawn(self.given, self.features, self.mean, weights, noise)

    def log_density(self, action: Array) -> tuple[Array, Array]:
        """Log density and entropy of whole rows, ``[..., N]`` each."""
        return wp.log_density(self.given, self.features, self.mean, action)


class Prediction(NamedTuple):
    """Both agents' distributions; ``outlook`` is of the decisions to take."""

    outlook: Outlook
    rows: DiagonalRows | WalkRows


class Sequence(NamedTuple):
    """Decisions that follow each other, the remembered ones first; batch axis first.

    Attributes:
      observation: leaves ``[B, S, ...]``, finite.
      affinity: ``[B, S, N, M]``, what was executed; finite.
      weight: ``[B, T, S]``, 1 where the posterior of step t looks at decision s, else 0.
    """

    observation: Observation
    affinity: Array
    weight: Array


def is_decision(observation: Observation) -> Array:
    """Whether a decision is due (some position is real), bool scalar."""
    return jnp.any(observation.real)


def affinity_of(action: Action) -> Array:
    """What the walk process remembers of an action."""
    return action["affinity"]


def with_history(env: DAS, options: DASNetwork) -> DAS | WithHistory:
    """The environment that the network learns in: ``env``, with its history if it remembers."""
    options.check(env)
    if not options.remembers:
        return env
    return WithHistory(env, options.history, affinity_of)


def das_agents(
    env: DAS, options: DASNetwork | None = None, precision: Precision = "float32"
) -> Agents:
    """Ordering (units: positions, ``priority``) and placement (the same, ``affinity``).

    ``sample`` and ``greedy`` take observations of leaves ``[B, ...]``, ``evaluate`` sequences
    ``[T, B, ...]`` in which each environment remembers every decision (episodes may end inside).
    ``greedy`` is the mean. A row's log density is of the whole row; its entropy is per machine.

    Args:
      env: the environment, for its sizes.
      options: of the networks; the defaults if absent.
      precision: of their products.
    """
    options = DASNetwork() if options is None else options
    options.check(env)
    trunk = Trunk(env, options, precision)

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        spec = specs.observation
        spec = spec.observation if isinstance(spec, Remembered) else spec
        return trunk.init(key, jax.tree.map(lambda x: x.zeros(), spec))

    def predict(params: PyTree, observation: PyTree, affinity: Array | None) -> Prediction:
        """Over leaves ``[T, B, ...]``; results ``[B, T, ...]``."""
        if not options.remembers:
            outlook = outlook_by_width(trunk, params, finite(batch_first(observation)))
            return Prediction(outlook, DiagonalRows(outlook.affinity_mean, outlook.affinity_std))
        sequence = sequence_of(observation, affinity)
        outlook = outlook_by_width(trunk, params, sequence.observation, sequence.affinity)
        seen = evidence_of(sequence, outlook.evidence, options.follows == "job")
        given = wp.posterior(seen, noise_of(trunk, params, sequence.observation))
        outlook = jax.tree.map(lambda x: x[:, options.history :], outlook)
        mean = wp.predict(given, outlook.features, outlook.affinity_mean)
        return Prediction(outlook, WalkRows(mean, given, outlook.features))

    def likelihood(prediction: Prediction, action: Action, real: Array) -> Likelihood:
        """Over leaves ``[B, T, ...]``."""
        outlook = prediction.outlook
        priority = jnp.where(real, action["priority"], 0.0)
        affinity = jnp.where(real[..., None], action["affinity"], 0.0)
        rows, spread = prediction.rows.log_density(affinity)
        by_position = gaussian.log_density(priority, outlook.priority_mean, outlook.priority_std)
        entropy = gaussian.entropy(outlook.priority_std)
        return Likelihood(
            log_prob={
                ORDERING: jnp.where(real, by_position, 0.0),
                PLACEMENT: jnp.where(real, rows, 0.0),
            },
            entropy={
                ORDERING: jnp.where(real, entropy, 0.0),
                PLACEMENT: jnp.where(real, spread / env.num_servers, 0.0),
            },
            active={ORDERING: real, PLACEMENT: real},
        )

    def sample(
        params: PyTree, observation: PyTree, mask: PyTree, key: PRNGKey
    ) -> tuple[Action, dict[str, Array]]:
        del mask
        prediction = predict(params, add_time(observation), None)
        outlook = prediction.outlook
        order_key, row_key = jax.random.split(key)
        priority = gaussian.sample(order_key, outlook.priority_mean, outlook.priority_std)
        affinity = prediction.rows.sample(row_key)
        action = {"priority": priority, "affinity": affinity}
        real = current(observation).real[:, None]
        log_prob = likelihood(prediction, action, real).log_prob
        return drop_time(action), drop_time(log_prob)

    def greedy(params: PyTree, observation: PyTree, mask: PyTree) -> Action:
        del mask
        prediction = predict(params, add_time(observation), None)
        priority = prediction.outlook.priority_mean
        return drop_time({"priority": priority, "affinity": prediction.rows.mean})

    def evaluate(params: PyTree, observation: PyTree, mask: PyTree, action: Action) -> Likelihood:
        del mask
        prediction = predict(params, observation, action["affinity"])
        real = current(observation).real.swapaxes(0, 1)
        return batch_first(likelihood(prediction, batch_first(action), real))

    def means(params: PyTree, observation: PyTree, mask: PyTree, action: Action) -> Action:
        del mask
        prediction = predict(params, observation, action["affinity"])
        priority = prediction.outlook.priority_mean
        found: Action = batch_first({"priority": priority, "affinity": prediction.rows.mean})
        return found

    return Agents(init, sample, greedy, evaluate, means)


def sequence_of(observation: Remembered, affinity: Array | None) -> Sequence:
    """The decisions that a sequence's posteriors look at, and which looks at which.

    Args:
      observation: leaves ``[T, B, ...]``; of the histories only the first step's is read in full,
        of the others how long they are.
      affinity: ``[T, B, N, M]``, executed at these steps; absent where T = 1 and nothing was yet.
    """
    history, now = observation.history, observation.observation
    length = history.valid.shape[-1]
    steps = now.real.shape[0]
    past = jax.tree.map(lambda x: x[0], history)  # [B, tau, ...]
    now = batch_first(now)
    if affinity is None:
        shape = (steps, *past.action.shape[:1], *past.action.shape[2:])
        affinity = jnp.zeros(shape, past.action.dtype)

    def join(earlier: Array, later: Array) -> Array:
        return jnp.concatenate([earlier, later], axis=1)

    happened = join(past.valid, is_any(now.real))
    joined = finite(jax.tree.map(join, past.observation, now), happened)
    executed = join(past.action, batch_first(affinity))
    executed = jax.lax.stop_gradient(jnp.where(joined.real[..., None], executed, 0.0))

    # A step looks at the last decisions before it, as many as its history holds.
    before = (
        jnp.cumsum(happened, axis=-1, dtype=jnp.int32) - happened
    )  # [B, S], decisions before each
    index = jnp.arange(happened.shape[-1], dtype=jnp.int32)
    age = before[:, length:, None] - before[:, None, :]
    held = jnp.sum(batch_first(history.valid), axis=-1)[..., None]
    earlier = index[None, :] < index[length:, None]
    looks = happened[:, None, :] & earlier & (age <= held)
    return Sequence(joined, executed, looks.astype(jnp.float32))


def evidence_of(sequence: Sequence, evidence: PyTree, follows_jobs: bool) -> PyTree:
    """What each step knows, leaves ``[B, T, N, ...]``, of what decisions tell, ``[B, S, N, ...]``.

    Position by position, or job by job wherever the jobs were.
    """
    if not follows_jobs:
        return jax.tree.map(lambda x: weighted_sum(sequence.weight, x), evidence)
    number, real = sequence.observation.number, sequence.observation.real
    assert number is not None
    steps = sequence.weight.shape[1]
    number = jnp.where(real, number, NO_JOB)
    same = same_job(number[:, -steps:, None], number[:, None])  # [B, T, S, N, N]
    same = same * sequence.weight[..., None, None]

    def summed(values: Array) -> Array:
        flat = values.reshape(*values.shape[:3], -1)
        return wp.einsum("btsnp,bspx->btnx", same, flat).reshape(
            flat.shape[0], steps, *values.shape[2:]
        )

    return jax.tree.map(summed, evidence)


def same_job(number: Array, earlier: Array) -> Array:
    """1 where jobs ``[..., N]`` are jobs ``[..., N]`` of another decision, ``[..., N, N]``."""
    now = jnp.where(number == NO_JOB, NO_JOB - 1, number)  # dummies are nobody's
    return (now[..., :, None] == earlier[..., None, :]).astype(jnp.float32)


def weighted_sum(weight: Array, values: Array) -> Array:
    """``[B, T, ...]`` sums over S of ``values [B, S, ...]`` by ``weight [B, T, S]``."""
    flat = values.reshape(*values.shape[:2], -1)
    summed = wp.einsum("bts,bsx->btx", weight, flat)
    return summed.reshape(*summed.shape[:2], *values.shape[2:])


def finite(observation: Observation, happened: Array | None = None) -> Observation:
    """Zeros in rows of dummy positions, and everywhere where no decision ``happened``."""
    jobs, machines, real, number = observation
    if happened is not None:
        real = real & happened[..., None]
        machines = jnp.where(happened[..., None, None], machines, 0.0)
    return Observation(jnp.where(real[..., None], jobs, 0.0), machines, real, number)


def current(observation: PyTree) -> Observation:
    """The observation of the decision to take."""
    return observation.observation if isinstance(observation, Remembered) else observation


def is_any(real: Array) -> Array:
    """Whether any position is real, bool ``[...]`` of ``[..., N]``."""
    return jnp.any(real, axis=-1)


def batch_first(tree: PyTree) -> PyTree:
    """Leaves ``[T, B, ...]`` as ``[B, T, ...]``, and back."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree)


def add_time(tree: PyTree) -> PyTree:
    """Leaves ``[B, ...]`` as a sequence of one step, ``[1, B, ...]``."""
    return jax.tree.map(lambda x: x[None], tree)


def drop_time(tree: PyTree) -> PyTree:
    """Leaves ``[B, 1, ...]`` as ``[B, ...]``."""
    return jax.tree.map(lambda x: x[:, 0], tree)


def effective_only(agents: Agents, env: DAS) -> Agents:
    """The same agents, of whose units only those with an effect are active.

    Most positions of a decision hold jobs that do not fit, whatever their priority; most rows of
    affinities belong to jobs that are not placed, or to jobs that take what there is. Such units
    may leave the loss, its normalisation and the entropy: their log-ratios are nothing but noise.
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
    seen = recover(env, Observation(jobs, machines, real))
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
