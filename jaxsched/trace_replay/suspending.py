"""Decisions where running jobs may be suspended: who starts, and who is suspended for whom.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``K`` classes of equal size. A job's rank is
``(value, job number)``, lower first, where the value is its remaining time (``srtf``), that times
its GPUs (``srsf``) or its **level** (``preemptive``). Of a class only the first waiting job
matters, since later ones need as much and may suspend fewer.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.trace_replay import demand as dm
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.accounts import Account, Options, Rules, State
from jaxsched.trace_replay.cluster import Cluster, largest_fit
from jaxsched.trace_replay.policies import MOST_SERVICE
from jaxsched.trace_replay.tables import Jobs
from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array


class Heads(NamedTuple):
    """The first waiting job of each class, ``[K]``."""

    value: Array  # int32, in its rank
    job: Array  # int32, n where none waits
    exists: Array  # bool


class Candidates(NamedTuple):
    """Who might be suspended: the jobs of the GPUs, ``[M, S]``.

    Those of the largest value go first, of these the ones that waste least, then the last ones.
    """

    allowed: Array  # bool
    value: Array  # int32, in their rank
    job: Array  # int32
    waste: Array  # int32, GPU-seconds that their suspension costs; 0 where that does not matter


class Decision(NamedTuple):
    """What a step does; n stands for nobody."""

    job: Array  # the one that starts, int32 scalar
    victim: Array  # the one that is suspended, int32 scalar
    account: Account  # of either; read here, since XLA copies a ledger that a step reads and writes
    levels: Array  # int32 [Q + 1], likewise, with a history; else none


def decide(rules: Rules, options: Options, jobs: Jobs, state: State, free: Array) -> Decision:
    """The first waiting job that can run starts, or somebody is suspended for it."""
    nobody = rules.shape.num_jobs
    least = wt.least_values(state.waiting, jobs.block_class, rules.shape.num_classes)
    found = wt.first_up_to(state.waiting, jobs.block_class, jnp.minimum(least, NONE - 1))
    job = jnp.where(found.exists, jobs.job_at[found.place], nobody)
    heads = Heads(least, job, found.exists)
    if rules.headroom or rules.forecasts:
        left, kept = jnp.sum(free), _kept_free(rules, options, state)
        anyhow = (kept == 0) | (left == rules.cluster.num_gpus)
        keeps = (least == 0) | (left - jobs.class_gpus >= kept) | anyhow
        heads = heads._replace(exists=heads.exists & keeps)
    first = _lowest(heads, heads.exists, nobody)
    room = largest_fit(rules.cluster, rules.locality, free)

    def otherwise() -> Decision:
        if rules.suspends:
            return _suspending(rules, options, jobs, state, free, heads)
        return _skipping(rules, jobs, state, free, heads)

    return jax.lax.cond(
        jobs.num_gpus[first] <= room,
        lambda: decision_about(state, first, jnp.int32(nobody)),
        otherwise,
    )


def _kept_free(rules: Rules, options: Options, state: State) -> Array:
    """GPUs that jobs of a value above 0 leave free, int32 scalar."""
    if state.demand is None:
        return jnp.int32(rules.headroom)
    return dm.to_come(state.demand, options.forecast, state.time)


def _skipping(rules: Rules, jobs: Jobs, state: State, free: Array, heads: Heads) -> Decision:
    """The first that fits starts, where the first in order does not and nobody is suspended."""
    nobody = jnp.int32(rules.shape.num_jobs)
    job = nobody
    if rules.mode == "skip":
        fits = jobs.class_gpus <= largest_fit(rules.cluster, rules.locality, free)
        job = _lowest(heads, heads.exists & fits, rules.shape.num_jobs)
    return decision_about(state, job, nobody)


def _suspending(
    rules: Rules, options: Options, jobs: Jobs, state: State, free: Array, heads: Heads
) -> Decision:
    """The decision where the first waiting job in order does not fit."""
    nobody, running = rules.shape.num_jobs, state.running
    busy = running.free_from > state.time
    value = running_values(rules, jobs, state)

    def available(value_: Array, job: Array) -> Array:
        after = value > value_
        if not rules.by_priority:
            after |= (value == value_) & (running.job > job)
        return ~busy | after

    counts = jax.vmap(lambda value_, job: jnp.sum(available(value_, job), axis=0, dtype=jnp.int32))(
        heads.value, heads.job
    )
    can_run = jobs.class_gpus <= largest_fit(rules.cluster, rules.locality, counts)
    allowed = heads.exists & can_run
    considered = heads.exists if rules.mode == "block" else allowed
    job = _lowest(heads, considered, nobody)
    chosen = allowed & (heads.job == job)
    runs = jnp.any(chosen)
    fits = runs & (jobs.num_gpus[job] <= largest_fit(rules.cluster, rules.locality, free))

    rank = jnp.min(jnp.where(chosen, heads.value, NONE))
    open_ = available(rank, job)
    candidates = Candidates(busy & open_, value, running.job, jnp.zeros_like(value))
    if rules.victims == "waste":
        candidates = candidates._replace(waste=_waste(rules, options, jobs, state))
    servers = jnp.ones(free.shape, bool)
    if rules.locality == "strict":
        needed, suited = to_clear(rules.cluster, free, open_, jobs.num_gpus[job])
        if rules.victims == "waste":
            suited = _least(suited, cost_to_clear(candidates, needed - free))
        servers = suited & (free == jnp.max(jnp.where(suited, free, -1)))
        if rules.victims == "waste":  # one by one, so that what has begun is ended
            servers &= jnp.arange(servers.shape[0]) == jnp.argmax(servers)
    chosen = first_to_go(candidates._replace(allowed=candidates.allowed & servers))
    victim = jnp.where(runs & ~fits, chosen, nobody).astype(jnp.int32)
    return decision_about(state, jnp.where(fits, job, nobody), victim)


def decision_about(state: State, job: Array, victim: Array) -> Decision:
    """A decision with the account of the job that it is about."""
    row = state.ledger[jnp.minimum(job, victim)]
    count = len(Account._fields)
    return Decision(job, victim, Account(*row[:count]), row[count:])


def to_clear(
    cluster: Cluster, free: Array, available: Array, num_gpus: Array
) -> tuple[Array, Array]:
    """What a job that does not fit yet needs next, and the servers that can be cleared for it.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      available: bool ``[M, S]``, GPUs that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      Free GPUs of one server, int32 scalar, and which have fewer but could have as many, ``[S]``.
    """
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    count = jnp.sum(available, axis=0, dtype=jnp.int32)
    return needed, (free < needed) & (count >= needed)


def first_to_go(candidates: Candidates) -> Array:
    """The first of the candidates, int32 scalar; -1 if there is none."""
    found, value, job, waste = candidates
    found &= value == jnp.max(jnp.where(found, value, jnp.iinfo(jnp.int32).min))
    found = _least(found, waste)
    return jnp.max(jnp.where(found, job, -1))


def cost_to_clear(candidates: Candidates, more: Array) -> Array:
    """What it wastes to free so many more GPUs of each server, int32 ``[S]``.

    Jobs of a server go one after the other, each with all that it wastes, wherever it runs, until
    enough of the server is free.

    Args:
      candidates: the jobs.
      more: GPUs, int32 ``[S]``.
    """
    found, value, job, waste = candidates
    gpu = jnp.arange(found.shape[0])

    def compared(values: Array) -> tuple[Array, Array]:
        return values[:, None, :], values[None, :, :]

    (value, other), (cost, others), (own, its) = map(compared, (value, waste, job))
    sooner = (other > value) | (
        (other == value) & ((others < cost) | (others == cost) & (its > own))
    )
    freed = jnp.sum(found[None] & sooner, axis=1, dtype=jnp.int32)
    again = jnp.any(found[None] & (its == own) & (gpu[None, :] < gpu[:, None])[..., None], axis=1)
    goes = found & ~again & (freed < more)
    return jnp.sum(jnp.where(goes, waste, 0), axis=0, dtype=jnp.int32)


def _waste(rules: Rules, options: Options, jobs: Jobs, state: State) -> Array:
    """GPU-seconds that the suspension of each GPU's job costs, int32 ``[M, S]``.

    Cut so that the sum over a server cannot overflow.
    """
    running = state.running
    assert running.since is not None
    seconds = options.restart_s + lost_s(options, state.time - running.since)
    most = MOST_SERVICE // rules.cluster.gpus_per_server
    return _product(seconds, jobs.num_gpus[running.job], most)


def lost_s(options: Options, run_s: Array) -> Array:
    """What a run of so many seconds loses when it is suspended: all since its last checkpoint."""
    kept = jnp.maximum(options.checkpoint_s, 1)
    return jnp.where(options.checkpoint_s > 0, run_s % kept, 0)


def running_values(rules: Rules, jobs: Jobs, state: State) -> Array:
    """The value in the rank of each GPU's job, int32 ``[M, S]``."""
    running = state.running
    if rules.worth != "level":
        return worth_of(rules, running.free_from - state.time, jobs.num_gpus[running.job])
    passed = jnp.sum(running.crossing <= state.time, axis=0, dtype=jnp.int32)
    number = jnp.arange(rules.num_thresholds + 1)[:, None, None]
    return jnp.sum(jnp.where(passed == number, running.levels, 0), axis=0, dtype=jnp.int32)


def worth_of(rules: Rules, left: Array, num_gpus: Array) -> Array:
    """What remains of jobs in the unit of their order, cut at ``MOST_SERVICE``; int32."""
    if rules.worth == "remaining":
        return left
    return _product(left, num_gpus, MOST_SERVICE)


def _product(seconds: Array, num_gpus: Array, most: int) -> Array:
    """GPU-seconds, at most so many; int32."""
    return jnp.where(seconds > most // num_gpus, most, seconds * num_gpus)


def _least(allowed: Array, cost: Array) -> Array:
    """Those among the allowed whose cost is the least."""
    return allowed & (cost == jnp.min(jnp.where(allowed, cost, NONE)))


def _lowest(heads: Heads, allowed: Array, nobody: int) -> Array:
    """The head of the lowest rank among those allowed, int32 scalar; n if none is."""
    least = jnp.min(jnp.where(allowed, heads.value, NONE))
    return jnp.min(jnp.where(allowed & (heads.value == least), heads.job, nobody))
