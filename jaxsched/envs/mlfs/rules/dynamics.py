"""The rules of MLFS' cluster (specification, section 3): admit, order, migrate, offer, run.

A slot begins with ``begin_slot``, goes through its offers by ``offers.answer``, and ends with
``run_slot``: tasks run, iterations and jobs end (steps 5-7).

Axes: ``A`` jobs, ``K`` places for tasks, ``R`` running tasks, ``S`` servers.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.rules import FULL, Loads, Rules, div, migration
from jaxsched.envs.mlfs.rules.offers import open_offers, with_next_offer
from jaxsched.envs.mlfs.rules.priority import job_priority, mlf_priority
from jaxsched.envs.mlfs.rules.state import (
    ABSENT,
    DONE,
    MIGRANT,
    NONE,
    NOT_READY,
    OFFERED,
    WAITING,
    Active,
    State,
    Tasks,
    empty_state,
    part_of,
    present,
    ready,
    roots,
    running_tasks,
    split,
)
from jaxsched.envs.mlfs.rules.tables import NEVER, Job, Params, jobs_at, submit_slot, submitted_by
from jaxsched.ops.batching import apply_if
from jaxsched.types import Array


class Ended(NamedTuple):
    """What a slot brought.

    Attributes:
      active: jobs as they were when their iterations had been counted.
      over: bool ``[A]``, jobs that finished.
      overloads: int32, overloaded servers.
      evictions: int32, migrants that found no place.
      sent: int32, MB.
      migrations: int32.
      completed: int32 ``[A]``, iterations of each job, 0 or 1.
      work: int32 ``[A]``, mmin of the instances that ended.
    """

    active: Active
    over: Array
    overloads: Array
    evictions: Array
    sent: Array
    migrations: Array
    completed: Array
    work: Array


def run_slot(rules: Rules, jobs: Job, state: State) -> tuple[State, Ended]:
    """Steps 5-7: the slot ends, the clock moves on.

    Args:
      rules: static options.
      jobs: of the window.
      state: no offer is left, or none is to be taken.
    """
    phase = state.tasks.state & ~jnp.int8(OFFERED)
    evicted = phase == MIGRANT
    phase = jnp.where(evicted, jnp.int8(WAITING), phase)
    since = jnp.where(evicted, state.slot, state.tasks.since)
    waiting = state.waiting + state.migrants

    loads = Loads(*state.measured, state.loads.mem, state.loads.bandwidth)
    servers = cl.all_servers(rules.cluster, loads)
    used = cl.utilisation(rules.cluster, servers)
    strained = cl.overloaded(rules.cluster, servers)
    busy = (waiting > 0) | cl.is_busy(rules.cluster, used)
    running = state.running
    runs = running.task != NONE
    rate = speed(rules, loads, used)[running.server, running.gpu]
    left = running.left - jnp.where(runs, rate, 0)
    finished = runs & (left <= 0)

    counts = running_tasks(running, rules.window)
    active = state.active
    started = (active.start == NONE) & (counts > 0)
    active = active._replace(
        start=jnp.where(started, state.slot, active.start),
        run_slots=active.run_slots + (counts > 0),
        attained=active.attained + counts,
    )
    slot = state.slot + 1
    ended = jnp.where(finished, running.task, rules.window * MAX_TASKS)
    place, inside = split(running.task)
    phase = phase.reshape(-1).at[ended].set(DONE, mode="drop").reshape(phase.shape)
    done = phase == DONE
    not_ready = phase == NOT_READY
    woken = apply_if(  # held apart from what follows: compilers would repeat it for each reader
        jnp.any(not_ready),
        lambda _, given: given[0] & ready(given[1], given[2]),
        jnp.zeros_like(not_ready),
        (not_ready, jobs, done),
    )
    phase = jnp.where(woken, jnp.int8(WAITING), phase)
    since = jnp.where(woken, slot, since)

    complete = (active.job != NONE) & jnp.all(done | (phase == ABSENT), axis=-1)
    iterations = active.iterations + complete
    in_time = complete & (slot <= jobs.deadline_min)
    limit = stop_limit(rules, jobs, iterations, slot, busy)
    active = active._replace(
        iterations=iterations,
        by_deadline=jnp.where(in_time, iterations, active.by_deadline),
        limit=jnp.where(complete & rules.use_mlfc, limit, active.limit),
    )
    over = complete & (iterations >= active.limit)
    again = (complete & ~over)[:, None]
    is_root = roots(jobs)
    fresh = jnp.where(is_root, jnp.int8(WAITING), jnp.int8(NOT_READY))
    phase = jnp.where(again & (phase == DONE), fresh, phase)
    phase = jnp.where(over[:, None], jnp.int8(ABSENT), phase)
    since = jnp.where(again & is_root, slot, since)
    # What an instance had left is of no use to the next one.
    task_left = state.tasks.left.reshape(-1).at[ended].set(0, mode="drop").reshape(phase.shape)
    happened = Ended(
        active=active,
        over=over,
        overloads=jnp.sum(strained, dtype=jnp.int32),
        evictions=state.migrants,
        sent=state.sent,
        migrations=state.migrations,
        completed=complete.astype(jnp.int32),
        work=jnp.zeros(rules.window, jnp.int32)
        .at[jnp.where(finished, place, rules.window)]
        .add(jobs.work[place, part_of(inside)], mode="drop"),
    )
    state = state._replace(
        slot=slot,
        finished=state.finished + jnp.sum(over, dtype=jnp.int32),
        active=active._replace(job=jnp.where(over, NONE, active.job)),
        tasks=Tasks(phase, state.tasks.server, task_left, since, state.tasks.priority),
        running=running._replace(left=left, task=jnp.where(finished, NONE, running.task)),
        waiting=jnp.sum(phase == WAITING, dtype=jnp.int32),
        migrants=jnp.int32(0),
        sent=jnp.int32(0),
        migrations=jnp.int32(0),
        busy=busy,
    )
    return state, happened


def speed(rules: Rules, loads: Loads, used: Array) -> Array:
    """Mmin of work that a task does in a slot on each GPU, int32 ``[S, G]`` (step 6)."""
    worst = jnp.maximum(loads.gpu, jnp.max(used[:, 1:], axis=-1)[:, None])
    quotient = jnp.minimum(FULL, div(FULL * rules.cluster.overload, jnp.maximum(worst, 1)))
    quotient = jnp.where(worst == 0, FULL, quotient)
    return div(div(quotient * quotient, FULL) * quotient, FULL)


def stop_limit(rules: Rules, jobs: Job, iterations: Array, slot: Array, busy: Array) -> Array:
    """Iterations after which MLF-C ends a job (section 3.5), int32 ``[A]``.

    Args:
      rules: by what jobs are stopped.
      jobs: the jobs.
      iterations: that they have completed, ``[A]``.
      slot: that begins now.
      busy: the over_flag; a busy cluster moves a job's option up to ``allow``.
    """
    target = jnp.where(rules.stop_achieved, jobs.req_iter, jobs.stop_target)
    limits = jnp.stack([jobs.iterations, jnp.maximum(jobs.stop_optimal, target), target], axis=-1)
    option = jnp.arange(3, dtype=jnp.int32)
    own = option == jobs.option[:, None]
    up_to = (option >= jobs.option[:, None]) & (option <= jobs.allow[:, None])
    up_to &= busy | rules.stop_achieved
    limit = jnp.min(jnp.where(own | up_to, limits, 2**30), axis=-1)
    missing = jnp.maximum(jobs.req_iter - iterations, 0)
    least = div(missing * jobs.critical + FULL - 1, FULL)  # minutes at full speed
    late = (missing > 0) & (slot + least > jobs.deadline_min)
    hopeless = late & busy & rules.stop_hopeless
    return jnp.where(hopeless, jnp.minimum(limit, jnp.maximum(iterations, 1)), limit)


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
    place: Callable[[Rules, Params, State], State] = with_next_offer,
    order: Callable[[Job, State, Array], Array] | None = None,
    *,
    idle: bool = False,
) -> State:
    """Steps 2-4 up to the first offer, or all of step 4 where something places the slot's tasks.

    Args:
      rules: static options.
      params: of the episode.
      state: jobs admitted.
      place: ``place(rules, params, state)``, the state that follows one whose offers are open.
      order: ``order(jobs, state, priority)``, what tasks are ordered by in place of MLF-H's
        priorities, int32 ``[A, K]``.
      idle: nothing runs, as is known before; then less has to be done, and compiled.
    """
    jobs = jobs_at(params, state.episode, state.active.job)
    rows = migration.rows_of(jobs, state.active, state.tasks, state.running, state.slot)
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
        if order is not None:
            priority = order(jobs, state, priority)
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
    return place(rules, params, state)


def admit(rules: Rules, params: Params, state: State) -> State:
    """Step 1: submitted jobs enter the window in the order of the table, while it has room."""
    following = submit_slot(params, state.episode, state.admitted)
    idle = jnp.all(state.active.job == NONE) & (following < NEVER)
    slot = jnp.where(idle, jnp.maximum(state.slot, following), state.slot)
    submitted = submitted_by(params, state.episode, slot, state.submitted)
    free = state.active.job == NONE
    rank = jnp.cumsum(free.astype(jnp.int32)) - 1
    job = state.admitted + rank
    enters = free & (job < submitted)
    jobs = jobs_at(params, state.episode, jnp.where(enters, job, NONE))
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
        home=new(NONE, old.home),
        start=new(NONE, old.start),
        run_slots=new(0, old.run_slots),
        attained=new(0, old.attained),
        gpu=new(jobs.gpu_demand, old.gpu),
        cpus=new(jobs.cpus, old.cpus),
        mem=new(jobs.mem, old.mem),
    )
    starts = enters[:, None]
    is_root, there = roots(jobs), present(jobs)
    waiting, not_ready, absent = (jnp.int8(phase) for phase in (WAITING, NOT_READY, ABSENT))
    fresh = jnp.where(is_root, waiting, jnp.where(there, not_ready, absent))
    tasks = Tasks(
        state=jnp.where(starts, fresh, state.tasks.state),
        server=jnp.where(starts, jnp.int16(NONE), state.tasks.server),
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
