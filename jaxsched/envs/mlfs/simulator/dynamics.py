"""The rules of MLFS' cluster (specification, section 3): admit, order, migrate, offer, run.

A slot begins with ``begin_slot``, goes through its offers by ``answer``, and ends with
``execution.run_slot``. Axes: ``A`` jobs, ``K`` places for tasks.
"""

import jax.numpy as jnp

from jaxsched.envs.mlfs.simulator import graph, hosts, migration, pairs
from jaxsched.envs.mlfs.simulator.execution import Ended, run_slot, stop_limit
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.offers import open_offers
from jaxsched.envs.mlfs.simulator.orders import job_priority
from jaxsched.envs.mlfs.simulator.placing import with_next_offer
from jaxsched.envs.mlfs.simulator.priority import mlf_priority
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.state import (
    ABSENT,
    NOBODY,
    NOT_READY,
    WAITING,
    Active,
    State,
    Tasks,
    empty_state,
    running_tasks,
)
from jaxsched.envs.mlfs.simulator.tables import NEVER, Params, jobs_at, submit_slot, submitted_by
from jaxsched.types import Array


def first_slot(rules: Rules, params: Params, episode: Array) -> State:
    """The idle cluster at the first submission, offers open."""
    state = admit(rules, params, _idle(rules, params, episode))
    return open_slot(rules, params, state, idle=True)


def first_jobs(rules: Rules, params: Params, episode: Array) -> State:
    """The idle cluster at the first submission, the jobs admitted, nothing offered."""
    return admit(rules, params, _idle(rules, params, episode))


def before_first(rules: Rules, params: Params, episode: Array) -> State:
    """An empty slot before the first: its end begins the first, as ``first_slot`` does.

    Who steps an environment anyway compiles no second program for the beginning.
    """
    return _idle(rules, params, episode)._replace(slot=jnp.int32(-1))


def _idle(rules: Rules, params: Params, episode: Array) -> State:
    classes = len(rules.classes)
    return empty_state(rules.cluster, rules.window, classes, params.max_running, episode)


def begin_slot(rules: Rules, params: Params, state: State) -> State:
    """Steps 1-4 up to the first offer; idle slots are skipped."""
    return open_slot(rules, params, admit(rules, params, state))


def open_slot(
    rules: Rules,
    params: Params,
    state: State,
    weights: Array | None = None,
    *,
    by_rule: bool = False,
    idle: bool = False,
) -> State:
    """Steps 2-4 up to the first offer; with weights of pairs or by the order's rule all of step 4.

    Args:
      rules: static options.
      params: of the episode.
      state: jobs admitted.
      weights: float32 ``[W]``, of ``pairs.WEIGHTS``; the tasks are then placed by them.
      by_rule: the tasks are placed by the rule that goes with the order.
      idle: nothing runs, as is known before; then less has to be done, and compiled.
    """
    jobs = jobs_at(params, state.episode, state.active.job)
    rows = migration.rows_of(jobs, state.active, state.running, state.slot)
    measured = state.loads if idle else migration.total(rules, state.running, rows, rows.demand)
    if rules.measures:
        priority = mlf_priority(
            params,
            jobs,
            state.active,
            state.tasks,
            state.slot,
            use_urgency=rules.use_urgency,
            use_deadline=rules.use_deadline,
            waiting_min=rules.waiting_min,
        )
        if weights is not None:
            worth = pairs.worth(jobs, state, priority, weights)
            priority = pairs.ordered(worth)
        state = state._replace(tasks=state.tasks._replace(priority=priority))
        if rules.use_migration and not idle:
            state, measured = migration.leave_overload(rules, state, rows, measured)
        loads = measured
    else:
        loads = measured if idle else migration.total(rules, state.running, rows, rows.nominal)
        if rules.order == "gandiva" and not idle:
            state, measured, loads = migration.gandiva_moves(
                rules, state, jobs, rows, measured, loads
            )
        counts = running_tasks(state.running, rules.window)
        by_job = job_priority(rules, jobs, state.active, counts, state.slot)
        priority = jnp.broadcast_to(by_job[:, None], state.tasks.priority.shape)
        state = state._replace(tasks=state.tasks._replace(priority=priority))
    offers = open_offers(rules, jobs, state.active, state.tasks, loads, state.slot)
    state = state._replace(loads=loads, measured=(measured.gpu, measured.cpu), offers=offers)
    if weights is not None:
        return pairs.place_all(rules, params, state, jobs, worth, weights)
    return (hosts.place_all if by_rule else with_next_offer)(rules, params, state)


def admit(rules: Rules, params: Params, state: State) -> State:
    """Step 1: submitted jobs enter the window in the order of the table, while it has room."""
    following = submit_slot(params, state.episode, state.admitted)
    idle = jnp.all(state.active.job == NOBODY) & (following < NEVER)
    slot = jnp.where(idle, jnp.maximum(state.slot, following), state.slot)
    submitted = submitted_by(params, state.episode, slot, state.submitted)
    free = state.active.job == NOBODY
    rank = jnp.cumsum(free.astype(jnp.int32)) - 1
    job = state.admitted + rank
    enters = free & (job < submitted)
    jobs = jobs_at(params, state.episode, jnp.where(enters, job, NOBODY))
    limit = stop_limit(rules, jobs, jnp.int32(0), slot, jnp.bool_(False))
    limit = jnp.where(rules.use_mlfc, limit, jobs.iterations)
    old = state.active

    def new(values: Array | int, before: Array) -> Array:
        return jnp.where(enters, values, before)

    active = Active(
        job=new(job, old.job),
        iterations=new(0, old.iterations),
        by_deadline=new(0, old.by_deadline),
        limit=new(limit, old.limit),
        home=new(NOBODY, old.home),
        start=new(NOBODY, old.start),
        run_slots=new(0, old.run_slots),
        attained=new(0, old.attained),
        gpu=new(jobs.gpu_demand, old.gpu),
        cpus=new(jobs.cpus, old.cpus),
        mem=new(jobs.mem, old.mem),
    )
    starts = enters[:, None]
    is_root, there = graph.roots(jobs), graph.present(jobs)
    waiting, not_ready, absent = (jnp.int8(phase) for phase in (WAITING, NOT_READY, ABSENT))
    fresh = jnp.where(is_root, waiting, jnp.where(there, not_ready, absent))
    tasks = Tasks(
        state=jnp.where(starts, fresh, state.tasks.state),
        server=jnp.where(starts, jnp.int16(NOBODY), state.tasks.server),
        left=jnp.where(starts, 0, state.tasks.left),
        since=jnp.where(starts, slot, state.tasks.since),
        priority=state.tasks.priority,
    )
    entered = jnp.sum(enters, dtype=jnp.int32)
    woken = jnp.sum(starts & is_root, dtype=jnp.int32)
    return state._replace(
        slot=slot,
        admitted=state.admitted + entered,
        submitted=submitted,
        active=active,
        tasks=tasks,
        waiting=state.waiting + woken,
    )


def end_slot(rules: Rules, params: Params, state: State) -> tuple[State, Ended, Job]:
    """Steps 5-7, and the jobs of the window before them."""
    jobs = jobs_at(params, state.episode, state.active.job)
    after, happened = run_slot(rules, jobs, state)
    return after, happened, jobs


def over(params: Params, state: State) -> Array:
    """Whether every job has finished, bool scalar."""
    return state.finished >= params.num_jobs.at[state.episode].get(mode="promise_in_bounds")
