"""Decisions where running jobs may be suspended: scores order waiting and running jobs.

The jobs that run at an instant are chosen as in the replay engine
(``jaxsched.trace_replay.suspension``): waiting jobs are chosen in order of the scores, running jobs
with lower scores are suspended for them, and those whose GPUs are not needed run on. A step
chooses, suspends or starts one job, or goes on to the next instant; moves that are planned but not
done stay in the state. Ties go to the job submitted first. A job that started at this instant is
not suspended, so that an instant ends whatever the scores are. The engine's orders do not
need that rule: a job that could not run before another one cannot run after it either.

Axes: ``S`` servers, ``M`` GPUs per server, ``W`` positions, ``n`` jobs, as in ``dynamics``; ``K``
numbers of GPUs.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.dynamics import Rules, State
from jaxsched.envs.cluster.rules.tables import Jobs
from jaxsched.ops.ordered import ordered
from jaxsched.trace_replay.cluster import FREE_WEIGHT
from jaxsched.trace_replay.suspension import Contenders, Holders, cut_run, is_open, next_move
from jaxsched.trace_replay.tables import NEVER
from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array

FIRST = jnp.iinfo(jnp.int32).min
"""The value of a job that is not suspended for any other."""


class Decision(NamedTuple):
    """Positions, int32 scalars; W stands for no job."""

    starts: Array
    suspended: Array
    chosen: Array


def read(rules: Rules, state: State, jobs: Jobs) -> Array:
    """Which scores are read, bool ``[W + 1]``; the last one with ``may_wait`` or at the end."""
    last = dynamics.all_started(state, jobs) | rules.may_wait
    return jnp.append(state.window < jobs.empty_row, last)


def decide(rules: Rules, state: State, jobs: Jobs, scores: Array) -> tuple[State, Decision]:
    """The next move by the scores of the positions and of waiting.

    Args:
      rules: the rules.
      state: the cluster.
      jobs: the table.
      scores: float32 ``[W + 1]``. A waiting job with a lower score than the last entry does not
        start, if another event will come (and ``rules.may_wait``).

    Returns:
      The state with its plan, and the jobs that start, are suspended or chosen.
    """
    window, empty = state.window, jobs.empty_row
    value = ~ordered(scores)  # the highest score first
    assert state.plan is not None
    contends = dynamics.waits(state, jobs) & ~chosen(state, jobs)
    if rules.may_wait:
        happens = (dynamics.upcoming(state, jobs) < NEVER) | is_open(state.plan, empty)
        contends &= (value[:-1] <= value[-1]) | ~happens
    of_job = jnp.full(empty + 1, FIRST).at[window].set(value[:-1])
    busy = (state.free_from > state.time) & (state.job < empty)
    holders = Holders(
        jnp.where(dynamics.ran_before(state), of_job[state.job], FIRST), state.job, busy
    )

    heads = first_of_sizes(state, jobs, value[:-1], contends)
    weight = jnp.int32(FREE_WEIGHT[rules.placement])
    move, plan = next_move(rules.cluster, rules.locality, weight, heads, holders, state.plan, empty)

    def position(row: Array) -> Array:
        here = (window == row) & (row < empty)
        return jnp.where(jnp.any(here), jnp.argmax(here), rules.window).astype(jnp.int32)

    return state._replace(plan=plan), Decision(*(position(row) for row in move))


def chosen(state: State, jobs: Jobs) -> Array:
    """Which positions hold a job that is chosen to start at this instant, bool ``[W]``."""
    assert state.plan is not None
    rows = jnp.zeros(jobs.empty_row + 1, bool).at[state.plan.coming].set(True)
    return rows[state.window] & (state.window < jobs.empty_row)


def first_of_sizes(state: State, jobs: Jobs, value: Array, contends: Array) -> Contenders:
    """The first contender of each number of GPUs: later ones need as many and may suspend fewer.

    Args:
      state: the cluster.
      jobs: the table.
      value: int32 ``[W]``, lowest first.
      contends: bool ``[W]``.
    """
    of_size = contends & (jobs.num_gpus[state.window] == jobs.sizes[:, None])  # [K, W]
    values = jnp.where(of_size, value, NONE)
    least = jnp.min(values, axis=1)
    rows = jnp.where(of_size & (values == least[:, None]), state.window, jobs.empty_row)
    return Contenders(least, jnp.min(rows, axis=1), jobs.sizes, jnp.any(of_size, axis=1))


def suspend_job(state: State, jobs: Jobs, position: Array, restart_s: Array) -> State:
    """Suspend the running job at a position; at position W, no job."""
    assert state.accounts is not None and state.plan is not None
    row = jnp.append(state.window, jobs.empty_row)[position]
    account = cut_run(dynamics.account_of(state, row), state.time, restart_s)
    account = account._replace(end=jnp.zeros_like(account.end))
    after, hit = dynamics.stopped(state, jobs, row)
    return after._replace(
        accounts=state.accounts.at[row].set(
            jnp.where(row < jobs.empty_row, jnp.stack(account), state.accounts[row])
        ),
        plan=state.plan._replace(leaving=state.plan.leaving & ~hit),
    )
