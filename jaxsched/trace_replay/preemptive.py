"""Replays of the orders that suspend running jobs: ``srtf``, ``srsf``, ``las`` and ``spot``.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``K`` classes of equal size, ``Q``
thresholds. A step starts one job, suspends one, or goes on to the next instant and admits the job
that arrives then, if one does. A job's rank is ``(value, job number)``, lower first, where the
value is its remaining time (``srtf``), that times its GPUs (``srsf``), its queue (``las``) or its
priority's rank (``spot``); of a class only the first waiting job matters, since later ones need as
much and may suspend fewer.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.batching import select
from jaxsched.ops.packing import Packing
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.cluster import Cluster, first_server, largest_fit, place, take_gpus
from jaxsched.trace_replay.policies import MOST_SERVICE, Locality, Mode
from jaxsched.trace_replay.tables import NEVER, Jobs, Shape
from jaxsched.trace_replay.waiting import NONE, Waiting
from jaxsched.types import Array


class Rules(NamedTuple):
    """Static options of a replay."""

    cluster: Cluster
    shape: Shape
    num_thresholds: int  # 0: what remains counts
    by_service: bool  # what remains is GPU-seconds, not seconds
    mode: Mode
    locality: Locality
    by_priority: bool = False  # values are fixed keys, and equals are never suspended
    headroom: int = 0  # GPUs that start no job of a value above 0, unless all are free


class Running(NamedTuple):
    """What each GPU does, int32 ``[M, S]`` (``crossing``: ``[Q, M, S]``)."""

    job: Array  # the last job on it
    free_from: Array  # when that job ends, or has ended or was suspended
    crossing: Array  # when that job changes queue


class Account(NamedTuple):
    """What is known of a job: a row of the ledger, int32 ``[..., n + 1]`` in columns."""

    start: Array  # of the first run
    end: Array  # of the last run, unless suspended before
    num_servers: Array  # of the last run
    first_server: Array
    preemptions: Array
    last_start: Array  # of the last run
    remaining: Array  # seconds of work, restart included, when last suspended; at first all
    served: Array  # seconds for which GPUs were held before the last suspension


class State(NamedTuple):
    """A replay between two steps."""

    time: Array  # int32 scalar, s
    arrived: Array  # int32 scalar, jobs admitted
    num_waiting: Array  # int32 scalar
    waiting: Waiting  # values as in ranks
    running: Running
    ledger: Array  # int32 [n + 1, 8], the account of each job; the last row is of no job
    overflow: Array  # bool scalar, a job would end beyond int32


class Heads(NamedTuple):
    """The first waiting job of each class, ``[K]``."""

    value: Array  # int32, in its rank
    job: Array  # int32, n where none waits
    exists: Array  # bool


class Decision(NamedTuple):
    """What a step does; n stands for nobody."""

    job: Array  # the one that starts, int32 scalar
    victim: Array  # the one that is suspended, int32 scalar
    account: Account  # of either; read here, since XLA copies a ledger that a step reads and writes


def opened(rules: Rules, jobs: Jobs) -> State:
    """The idle cluster at time 0."""
    shape, cluster = rules.shape, rules.cluster
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    zero, per_job = jnp.int32(0), jnp.zeros_like(jobs.duration)
    unknown = Account(*(per_job for _ in Account._fields))
    return State(
        time=zero,
        arrived=zero,
        num_waiting=zero,
        waiting=wt.nobody(shape.num_blocks, shape.width),
        running=Running(
            jnp.full(gpus, shape.num_jobs, jnp.int32),
            jnp.zeros(gpus, jnp.int32),
            jnp.full((rules.num_thresholds, *gpus), NEVER, jnp.int32),
        ),
        ledger=jnp.stack(unknown._replace(remaining=jobs.duration), axis=1),
        overflow=jnp.bool_(False),
    )


def unfinished(jobs: Jobs, state: State) -> Array:
    """Whether jobs wait or are still to come, bool scalar; without these, nobody is suspended."""
    more = (state.num_waiting > 0) | (jobs.submit[state.arrived] < NEVER)
    return more & ~state.overflow


def step(rules: Rules, free_weight: Array, restart_s: Array, jobs: Jobs, state: State) -> State:
    """Start or suspend one job, or go on to the next instant; nothing at the replay's end."""
    nobody, running = rules.shape.num_jobs, state.running
    is_free = running.free_from <= state.time
    free = jnp.sum(is_free, axis=0, dtype=jnp.int32)
    decides = (jobs.submit[state.arrived] > state.time) & (state.num_waiting > 0)
    job, victim, account = jax.lax.cond(
        decides & ~state.overflow,
        lambda: decide(rules, jobs, state, free),
        lambda: _decision(state, jnp.int32(nobody), jnp.int32(nobody)),
    )
    starts, suspends = job < nobody, victim < nobody

    changes = jnp.where(is_free, NEVER, running.free_from)
    later = jnp.where(~is_free & (running.crossing > state.time), running.crossing, NEVER)
    event = jnp.minimum(jnp.min(changes), jnp.min(later, initial=NEVER))
    upcoming = jnp.minimum(event, jobs.submit[state.arrived])
    goes_on = ~starts & ~suspends & (upcoming < NEVER) & ~state.overflow
    time = jnp.where(goes_on, jnp.maximum(state.time, upcoming), state.time)
    admits = goes_on & (jobs.submit[state.arrived] <= time)

    chosen = jnp.minimum(job, victim)
    moved = jnp.where(admits, state.arrived, chosen)
    placing = place(rules.cluster, rules.locality, free_weight, free, jobs.num_gpus[moved])
    started = _started(account, state.time, placing)
    late = (started.end < state.time) | (started.end == NEVER)
    rest = select(suspends, _suspended(account, state.time, restart_s), account)
    taken = take_gpus(placing, is_free) & starts
    stopped = suspends & ~is_free & (running.job == victim)
    free_from = jnp.where(taken, started.end, running.free_from)
    unserved = state.time - account.served
    crossing = unserved + jobs.crossing[moved]
    crossing = jnp.where(crossing < unserved, NEVER, crossing)[:, None, None]
    left = jnp.where(admits, jobs.duration[moved], rest.remaining)
    value = _worth(rules, left, jobs.num_gpus[moved])
    if rules.num_thresholds > 0:
        passed = jnp.sum(jobs.crossing[moved] <= rest.served, dtype=jnp.int32)
        value = jnp.where(admits, 0, passed)
    if rules.by_priority:
        value = jobs.key[moved]
    return State(
        time=time,
        arrived=state.arrived + admits,
        num_waiting=state.num_waiting + admits + suspends - starts,
        waiting=wt.put(state.waiting, jobs.place[moved], jnp.where(admits | suspends, value, NONE)),
        running=Running(
            jnp.where(taken, moved, running.job),
            jnp.where(stopped, state.time, free_from),
            jnp.where(taken, crossing, running.crossing),
        ),
        ledger=state.ledger.at[chosen].set(jnp.stack(select(starts, started, rest))),
        overflow=state.overflow | (starts & late),
    )


def _started(account: Account, time: Array, placing: Packing) -> Account:
    """The account of a job that begins a run now."""
    return account._replace(
        start=jnp.where(account.preemptions > 0, account.start, time),
        end=time + account.remaining,
        num_servers=placing.num_servers,
        first_server=first_server(placing),
        last_start=time,
    )


def _suspended(account: Account, time: Array, restart_s: Array) -> Account:
    """The account of a running job that is suspended now; it will have to restart."""
    return account._replace(
        preemptions=account.preemptions + 1,
        remaining=account.end - time + restart_s,
        served=account.served + time - account.last_start,
    )


def decide(rules: Rules, jobs: Jobs, state: State, free: Array) -> Decision:
    """The first waiting job that can run starts, or somebody is suspended for it."""
    nobody = rules.shape.num_jobs
    least = wt.least_values(state.waiting, jobs.block_class, rules.shape.num_classes)
    found = wt.first_up_to(state.waiting, jobs.block_class, jnp.minimum(least, NONE - 1))
    job = jnp.where(found.exists, jobs.job_at[found.place], nobody)
    heads = Heads(least, job, found.exists)
    if rules.headroom:
        left = jnp.sum(free)
        beside = left - jobs.class_gpus >= rules.headroom
        keeps = (least == 0) | beside | (left == rules.cluster.num_gpus)
        heads = heads._replace(exists=heads.exists & keeps)
    first = _lowest(heads, heads.exists, nobody)
    room = largest_fit(rules.cluster, rules.locality, free)
    return jax.lax.cond(
        jobs.num_gpus[first] <= room,
        lambda: _decision(state, first, jnp.int32(nobody)),
        lambda: _suspending(rules, jobs, state, free, heads),
    )


def _suspending(rules: Rules, jobs: Jobs, state: State, free: Array, heads: Heads) -> Decision:
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
    servers = jnp.ones(free.shape, bool)
    if rules.locality == "strict":
        servers = to_clear(rules.cluster, free, open_, jobs.num_gpus[job])
    candidates = busy & open_ & servers
    largest = jnp.max(jnp.where(candidates, value, -1))
    last = jnp.max(jnp.where(candidates & (value == largest), running.job, -1))
    victim = jnp.where(runs & ~fits, last, nobody).astype(jnp.int32)
    return _decision(state, jnp.where(fits, job, nobody), victim)


def _decision(state: State, job: Array, victim: Array) -> Decision:
    return Decision(job, victim, Account(*state.ledger[jnp.minimum(job, victim)]))


def to_clear(cluster: Cluster, free: Array, available: Array, num_gpus: Array) -> Array:
    """The servers on which somebody is suspended for a job that does not fit yet.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      available: bool ``[M, S]``, GPUs that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      bool ``[S]``.
    """
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    count = jnp.sum(available, axis=0, dtype=jnp.int32)
    suited = (free < needed) & (count >= needed)
    most = jnp.max(jnp.where(suited, free, -1))
    return suited & (free == most)


def running_values(rules: Rules, jobs: Jobs, state: State) -> Array:
    """The value in the rank of each GPU's job, int32 ``[M, S]``."""
    running = state.running
    if rules.by_priority:
        return jobs.key[running.job]
    if rules.num_thresholds == 0:
        return _worth(rules, running.free_from - state.time, jobs.num_gpus[running.job])
    return jnp.sum(state.running.crossing <= state.time, axis=0, dtype=jnp.int32)


def _worth(rules: Rules, left: Array, num_gpus: Array) -> Array:
    """What remains of jobs in the unit of their order, cut at ``MOST_SERVICE``; int32."""
    if not rules.by_service:
        return left
    return jnp.where(left > MOST_SERVICE // num_gpus, MOST_SERVICE, left * num_gpus)


def _lowest(heads: Heads, allowed: Array, nobody: int) -> Array:
    """The head of the lowest rank among those allowed, int32 scalar; n if none is."""
    least = jnp.min(jnp.where(allowed, heads.value, NONE))
    return jnp.min(jnp.where(allowed & (heads.value == least), heads.job, nobody))
