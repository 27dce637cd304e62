"""Decisions of replays in which running jobs may be suspended, by the rules of ``suspension``.

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
from jaxsched.trace_replay.accounts import Options, Rules, State
from jaxsched.trace_replay.cluster import available, largest_fit
from jaxsched.trace_replay.policies import MOST_SERVICE
from jaxsched.trace_replay.suspension import (
    Account,
    Contenders,
    Holders,
    Move,
    Plan,
    gpu_seconds,
    is_open,
    left_over,
    lowest,
    next_move,
    no_move,
)
from jaxsched.trace_replay.tables import Jobs
from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array


class Decision(NamedTuple):
    """What a step does; n stands for nobody."""

    move: Move
    account: Account  # of the job that starts, is suspended or chosen; read here, since XLA copies
    # a ledger that a step reads and writes
    levels: Array  # int32 [Q + 1], likewise, with a history; else none
    plan: Plan | None  # what is settled then


def decide(rules: Rules, options: Options, jobs: Jobs, state: State, free: Array) -> Decision:
    """What the instant settles next: the first waiting job in order starts, if it just fits."""
    nobody = rules.shape.num_jobs
    least = wt.least_values(state.waiting, jobs.block_class, rules.shape.num_classes)
    found = wt.first_up_to(state.waiting, jobs.block_class, jnp.minimum(least, NONE - 1))
    job = jnp.where(found.exists, jobs.job_at[found.place], nobody)
    heads = Contenders(least, job, jobs.class_gpus, found.exists)
    begun = jnp.bool_(False)
    if state.plan is not None:
        begun = is_open(state.plan, nobody)
    if rules.headroom or rules.forecasts:
        assert state.plan is not None
        is_free = available(rules.cluster, state.running.free_from <= state.time)
        open_ = left_over(state.plan, is_free, nobody)
        left, kept = jnp.sum(open_), _kept_free(rules, options, state)
        anyhow = (kept == 0) | (left == rules.cluster.num_gpus)
        keeps = (least == 0) | (left - jobs.class_gpus >= kept) | anyhow
        heads = heads._replace(exists=heads.exists & keeps)
    first = lowest(heads, heads.exists, nobody)
    room = largest_fit(rules.cluster, rules.locality, free)

    def otherwise() -> Decision:
        if rules.suspends:
            return _suspending(rules, options, jobs, state, heads)
        return _skipping(rules, jobs, state, free, heads)

    return jax.lax.cond(
        (jobs.num_gpus[first] <= room) & ~begun,
        lambda: decision_about(state, no_move(nobody)._replace(starts=first)),
        otherwise,
    )


def _kept_free(rules: Rules, options: Options, state: State) -> Array:
    """GPUs that jobs of a value above 0 leave free, int32 scalar."""
    if state.demand is None:
        return jnp.int32(rules.headroom)
    return dm.to_come(state.demand, options.forecast, state.time)


def _skipping(rules: Rules, jobs: Jobs, state: State, free: Array, heads: Contenders) -> Decision:
    """The first that fits starts, where the first in order does not and nobody is suspended."""
    nobody = rules.shape.num_jobs
    move = no_move(nobody)
    if rules.mode == "skip":
        fits = jobs.class_gpus <= largest_fit(rules.cluster, rules.locality, free)
        move = move._replace(starts=lowest(heads, heads.exists & fits, nobody))
    return decision_about(state, move)


def _suspending(
    rules: Rules, options: Options, jobs: Jobs, state: State, heads: Contenders
) -> Decision:
    """The decision where the first waiting job in order does not fit, or a plan is open."""
    running = state.running
    assert state.plan is not None
    holders = Holders(
        running_values(rules, jobs, state),
        running.job,
        running.free_from > state.time,
        _waste(rules, options, jobs, state) if rules.victims == "waste" else None,
    )
    move, plan = next_move(
        rules.cluster,
        rules.locality,
        options.free_weight,
        heads,
        holders,
        state.plan,
        rules.shape.num_jobs,
        equals=not rules.by_priority,
        block=rules.mode == "block",
    )
    return decision_about(state, move)._replace(plan=plan)


def decision_about(state: State, move: Move) -> Decision:
    """A decision with the account of the job that it is about."""
    about = jnp.minimum(jnp.minimum(move.starts, move.suspended), move.chosen)
    row = state.ledger[about]
    count = len(Account._fields)
    return Decision(move, Account(*row[:count]), row[count:], state.plan)


def _waste(rules: Rules, options: Options, jobs: Jobs, state: State) -> Array:
    """GPU-seconds that the suspension of each GPU's job costs, int32 ``[M, S]``.

    Cut so that the sum over a server cannot overflow.
    """
    running = state.running
    assert running.since is not None
    seconds = options.restart_s + lost_s(options, state.time - running.since)
    most = MOST_SERVICE // rules.cluster.gpus_per_server
    return gpu_seconds(seconds, jobs.num_gpus[running.job], most)


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
    levels = jnp.sum(jnp.where(passed == number, running.levels, 0), axis=0, dtype=jnp.int32)
    return levels if running.standing is None else levels + running.standing


def worth_of(rules: Rules, left: Array, num_gpus: Array) -> Array:
    """What remains of jobs in the unit of their order, cut at ``MOST_SERVICE``; int32."""
    if rules.worth == "remaining":
        return left
    return gpu_seconds(left, num_gpus)
