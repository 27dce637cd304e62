"""Replays of the orders that suspend running jobs, and of those that learn from the jobs before.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``K`` classes of equal size, ``Q``
thresholds. A step starts one job, suspends one, takes one ended job into the history (for orders
that have one), or goes on to the next instant and admits the job that arrives then, if one does. A
job's rank is ``(value, job number)``, lower first, where the value is its remaining time
(``srtf``), that times its GPUs (``srsf``) or its **level**: a row of ``Q + 1`` levels, given or,
with a history, scored when the job is submitted, has one for each number of thresholds that the
job's service has crossed (``spot``: its priority's rank). Of a class only the first waiting job
matters, since later ones need as much and may suspend fewer.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.batching import select
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.cluster import Cluster, largest_fit, place, take_gpus
from jaxsched.trace_replay.policies import Locality, Mode
from jaxsched.trace_replay.scorers import SCORERS, Scorer
from jaxsched.trace_replay.suspension import (
    Account,
    Contenders,
    Holders,
    begin_run,
    cut_run,
    lowest,
    new_accounts,
    next_decision,
    remaining_service,
)
from jaxsched.trace_replay.tables import NEVER, Jobs, Shape
from jaxsched.trace_replay.waiting import NONE, Waiting
from jaxsched.types import Array, PyTree

Worth = Literal["remaining", "service", "level"]


class Rules(NamedTuple):
    """Static options of a replay."""

    cluster: Cluster
    shape: Shape
    worth: Worth
    num_thresholds: int
    scorer: Scorer  # of rows of levels; none: they are given, and there is no history
    suspends: bool
    mode: Mode
    locality: Locality
    keeps_features: bool  # of every job, for those who train scorers
    by_priority: bool = False  # equals are never suspended
    headroom: int = 0  # GPUs that start no job of a value above 0, unless all are free


class Learnt(NamedTuple):
    """What replays with a history keep of each GPU, ``[M, S]``."""

    begun: Array  # int32, when the last job would have begun, had it run ever since
    is_known: Array  # bool, that job is in the history, or was suspended


class Running(NamedTuple):
    """What each GPU does, int32 ``[M, S]`` (``crossing``: ``[Q, M, S]``)."""

    job: Array  # the last job on it
    free_from: Array  # when that job ends, or has ended or was suspended
    crossing: Array  # when that job changes queue
    levels: Array  # [Q + 1, M, S], that job's row; without levels, no rows
    learnt: Learnt | None


class State(NamedTuple):
    """A replay between two steps."""

    time: Array  # int32 scalar, s
    arrived: Array  # int32 scalar, jobs admitted
    num_waiting: Array  # int32 scalar
    waiting: Waiting  # values as in ranks
    running: Running
    ledger: Array  # int32 [n + 1, 8], the account of each job (with a history, and its row of
    # levels, [n + 1, 8 + Q + 1]); the last row is of no job
    overflow: Array  # bool scalar, a job would end beyond int32
    history: Array  # int32 [R, C], see there; no rows without
    features: Array  # int32 [n + 1, F], where they are kept; else no rows


class Options(NamedTuple):
    """What a replay is told besides its jobs, none of it static."""

    free_weight: Array  # int32 scalar, of ``cluster.FREE_WEIGHT``
    restart_s: Array  # int32 scalar
    predictor: PyTree  # what the scorer takes


class Decision(NamedTuple):
    """What a step does; n stands for nobody."""

    job: Array  # the one that starts, int32 scalar
    victim: Array  # the one that is suspended, int32 scalar
    account: Account  # of either; read here, since XLA copies a ledger that a step reads and writes
    levels: Array  # int32 [Q + 1], likewise, with a history; else none


def opened(rules: Rules, jobs: Jobs) -> State:
    """The idle cluster at time 0."""
    shape, cluster = rules.shape, rules.cluster
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    zero, per_job = jnp.int32(0), jnp.zeros_like(jobs.duration)
    scored = rules.num_thresholds + 1 if rules.scorer else 0
    rows = rules.num_thresholds + 1 if rules.worth == "level" else 0
    kept = (shape.num_jobs + 1, hs.NUM_FEATURES) if rules.keeps_features else (0, 0)
    return State(
        time=zero,
        arrived=zero,
        num_waiting=zero,
        waiting=wt.nobody(shape.num_blocks, shape.width),
        running=Running(
            jnp.full(gpus, shape.num_jobs, jnp.int32),
            jnp.zeros(gpus, jnp.int32),
            jnp.full((rules.num_thresholds, *gpus), NEVER, jnp.int32),
            jnp.zeros((rows, *gpus), jnp.int32),
            Learnt(jnp.zeros(gpus, jnp.int32), jnp.ones(gpus, bool)) if rules.scorer else None,
        ),
        ledger=jnp.stack([*new_accounts(jobs.duration), *(per_job for _ in range(scored))], axis=1),
        overflow=jnp.bool_(False),
        history=hs.nothing_yet(shape.num_scopes),
        features=jnp.zeros(kept, jnp.int32),
    )


def unfinished(jobs: Jobs, state: State) -> Array:
    """Whether jobs wait or are still to come, bool scalar; without these, nobody is suspended."""
    more = (state.num_waiting > 0) | (jobs.submit[state.arrived] < NEVER)
    return more & ~state.overflow


def step(rules: Rules, options: Options, jobs: Jobs, state: State) -> State:
    """Do one thing (see above); nothing at the replay's end."""
    nobody, running = rules.shape.num_jobs, state.running
    is_free = running.free_from <= state.time
    free = jnp.sum(is_free, axis=0, dtype=jnp.int32)
    ended = _ended(rules, state, is_free)
    decides = (jobs.submit[state.arrived] > state.time) & (state.num_waiting > 0)
    decision = jax.lax.cond(
        decides & (ended == nobody) & ~state.overflow,
        lambda: decide(rules, jobs, state, free),
        lambda: _decision(rules, state, jnp.int32(nobody), jnp.int32(nobody)),
    )
    starts, suspends = decision.job < nobody, decision.victim < nobody
    time, admits = _clock(rules, jobs, state, is_free, starts | suspends | (ended < nobody))

    chosen = jnp.minimum(decision.job, decision.victim)
    moved = jnp.where(admits, state.arrived, chosen)
    account, scored = decision.account, decision.levels
    features = state.features
    if rules.scorer:
        account, scored, features = _scored(rules, options, jobs, state, time, admits, decision)
    placing = place(rules.cluster, rules.locality, options.free_weight, free, jobs.num_gpus[moved])
    started = begin_run(account, state.time, placing)
    late = (started.end < state.time) | (started.end == NEVER)
    rest = select(suspends, cut_run(account, state.time, options.restart_s), account)
    taken = take_gpus(placing, is_free) & starts
    stopped = suspends & ~is_free & (running.job == decision.victim)
    levels = scored if rules.scorer or rules.worth != "level" else jobs.levels[moved]
    if rules.worth == "level":
        passed = jnp.sum(jobs.crossing[moved] <= rest.served, dtype=jnp.int32)
        value = levels[jnp.where(admits, 0, passed)]
    else:
        left = jnp.where(admits, jobs.duration[moved], rest.remaining)
        value = _worth(rules, left, jobs.num_gpus[moved])
    written = moved if rules.scorer else chosen
    return State(
        time=time,
        arrived=state.arrived + admits,
        num_waiting=state.num_waiting + admits + suspends - starts,
        waiting=wt.put(state.waiting, jobs.place[moved], jnp.where(admits | suspends, value, NONE)),
        running=_running(jobs, state, moved, started, taken, stopped, ended, levels),
        ledger=state.ledger.at[written].set(jnp.stack([*select(starts, started, rest), *scored])),
        overflow=state.overflow | (starts & late),
        history=hs.completed(state.history, jobs.known, ended, jobs.duration[ended])
        if rules.scorer
        else state.history,
        features=features,
    )


def _ended(rules: Rules, state: State, is_free: Array) -> Array:
    """The lowest job that has ended and is not in the history, int32 scalar; n if there is none."""
    if state.running.learnt is None:
        return jnp.int32(rules.shape.num_jobs)
    new = is_free & ~state.running.learnt.is_known
    return jnp.min(jnp.where(new, state.running.job, rules.shape.num_jobs))


def _clock(
    rules: Rules, jobs: Jobs, state: State, is_free: Array, busy: Array
) -> tuple[Array, Array]:
    """The time after a step, and whether it admits a job; completions enter the history first."""
    running, submit = state.running, jobs.submit[state.arrived]
    changes = jnp.where(is_free, NEVER, running.free_from)
    later = jnp.where(~is_free & (running.crossing > state.time), running.crossing, NEVER)
    event = jnp.minimum(jnp.min(changes), jnp.min(later, initial=NEVER))
    upcoming = jnp.minimum(event, submit)
    goes_on = ~busy & (upcoming < NEVER) & ~state.overflow
    time = jnp.where(goes_on, jnp.maximum(state.time, upcoming), state.time)
    admits = goes_on & (submit <= time)
    if rules.scorer:
        admits &= jnp.min(changes) > time
    return time, admits


def _scored(
    rules: Rules,
    options: Options,
    jobs: Jobs,
    state: State,
    time: Array,
    admits: Array,
    decision: Decision,
) -> tuple[Account, Array, Array]:
    """The account and levels of the job that a step is about, and the features kept."""
    job, running, learnt = state.arrived, state.running, state.running.learnt
    assert learnt is not None and rules.scorer

    def score() -> tuple[Array, Array]:
        stream = jobs.known.scopes[:, -1]
        same = (running.free_from > time) & (stream[running.job] == stream[job])
        newest = jnp.max(jnp.where(same, running.job, -1))
        attained = jnp.where(same, time - learnt.begun, 0)
        siblings = hs.Siblings(
            jnp.sum(same, dtype=jnp.int32) // jobs.num_gpus[job],
            jnp.max(jnp.where(running.job == newest, attained, 0)),
            jnp.max(attained),
        )
        found = hs.features(state.history, jobs.known, job, siblings, state.num_waiting)
        seen = hs.Seen(jobs.num_gpus[job], jobs.submit[job], found)
        mean_s = hs.of_scopes(state.history, jobs.known, job).mean_s[-1]
        return found, SCORERS[rules.scorer](options.predictor, seen, mean_s)

    nothing = jnp.zeros(hs.NUM_FEATURES, jnp.int32), decision.levels
    found, levels = jax.lax.cond(admits, score, lambda: nothing)
    fresh = Account(*(jnp.int32(0) for _ in Account._fields))
    fresh = fresh._replace(remaining=jobs.duration[job])
    features = state.features
    if rules.keeps_features:
        features = features.at[jnp.where(admits, job, rules.shape.num_jobs)].set(found)
    return select(admits, fresh, decision.account), levels, features


def _running(
    jobs: Jobs,
    state: State,
    moved: Array,
    started: Account,
    taken: Array,
    stopped: Array,
    ended: Array,
    levels: Array,
) -> Running:
    """What GPUs do after a job has taken some, or was suspended on some."""
    running = state.running
    unserved = state.time - started.served
    crossing = unserved + jobs.crossing[moved]
    crossing = jnp.where(crossing < unserved, NEVER, crossing)[:, None, None]
    free_from = jnp.where(taken, started.end, running.free_from)
    learnt = running.learnt
    if learnt is not None:
        is_known = (learnt.is_known | stopped | (running.job == ended)) & ~taken
        learnt = Learnt(jnp.where(taken, unserved, learnt.begun), is_known)
    rows = running.levels
    return Running(
        jnp.where(taken, moved, running.job),
        jnp.where(stopped, state.time, free_from),
        jnp.where(taken, crossing, running.crossing),
        jnp.where(taken, levels[: rows.shape[0], None, None], rows),
        learnt,
    )


def decide(rules: Rules, jobs: Jobs, state: State, free: Array) -> Decision:
    """The first waiting job that can run starts, or somebody is suspended for it."""
    nobody = rules.shape.num_jobs
    least = wt.least_values(state.waiting, jobs.block_class, rules.shape.num_classes)
    found = wt.first_up_to(state.waiting, jobs.block_class, jnp.minimum(least, NONE - 1))
    job = jnp.where(found.exists, jobs.job_at[found.place], nobody)
    heads = Contenders(least, job, jobs.class_gpus, found.exists)
    if rules.headroom:
        left = jnp.sum(free)
        beside = left - jobs.class_gpus >= rules.headroom
        keeps = (least == 0) | beside | (left == rules.cluster.num_gpus)
        heads = heads._replace(exists=heads.exists & keeps)
    first = lowest(heads, heads.exists, nobody)
    room = largest_fit(rules.cluster, rules.locality, free)
    otherwise = _suspending if rules.suspends else _skipping
    return jax.lax.cond(
        jobs.num_gpus[first] <= room,
        lambda: _decision(rules, state, first, jnp.int32(nobody)),
        lambda: otherwise(rules, jobs, state, free, heads),
    )


def _skipping(rules: Rules, jobs: Jobs, state: State, free: Array, heads: Contenders) -> Decision:
    """The first that fits starts, where the first in order does not and nobody is suspended."""
    nobody = jnp.int32(rules.shape.num_jobs)
    job = nobody
    if rules.mode == "skip":
        fits = jobs.class_gpus <= largest_fit(rules.cluster, rules.locality, free)
        job = lowest(heads, heads.exists & fits, rules.shape.num_jobs)
    return _decision(rules, state, job, nobody)


def _suspending(rules: Rules, jobs: Jobs, state: State, free: Array, heads: Contenders) -> Decision:
    """The decision where the first waiting job in order does not fit."""
    running = state.running
    holders = Holders(
        running_values(rules, jobs, state), running.job, running.free_from > state.time
    )
    job, victim = next_decision(
        rules.cluster,
        rules.locality,
        free,
        heads,
        holders,
        rules.shape.num_jobs,
        equals=not rules.by_priority,
        block=rules.mode == "block",
    )
    return _decision(rules, state, job, victim)


def _decision(rules: Rules, state: State, job: Array, victim: Array) -> Decision:
    row = state.ledger[jnp.minimum(job, victim)]
    count = len(Account._fields)
    return Decision(job, victim, Account(*row[:count]), row[count:])


def running_values(rules: Rules, jobs: Jobs, state: State) -> Array:
    """The value in the rank of each GPU's job, int32 ``[M, S]``."""
    running = state.running
    if rules.worth != "level":
        return _worth(rules, running.free_from - state.time, jobs.num_gpus[running.job])
    passed = jnp.sum(running.crossing <= state.time, axis=0, dtype=jnp.int32)
    number = jnp.arange(rules.num_thresholds + 1)[:, None, None]
    return jnp.sum(jnp.where(passed == number, running.levels, 0), axis=0, dtype=jnp.int32)


def _worth(rules: Rules, left: Array, num_gpus: Array) -> Array:
    """What remains of jobs in the unit of their order, cut at ``MOST_SERVICE``; int32."""
    if rules.worth == "remaining":
        return left
    return remaining_service(left, num_gpus)
