"""What happens after a slot's decisions: tasks run, iterations and jobs end (section 3, steps 5-7).

Axes: ``A`` jobs, ``K`` places for tasks, ``R`` running tasks, ``S`` servers.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.simulator import cluster as cl
from jaxsched.envs.mlfs.simulator import graph
from jaxsched.envs.mlfs.simulator.cluster import FULL, Loads, div
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.state import (
    ABSENT,
    DONE,
    MIGRANT,
    NOBODY,
    NOT_READY,
    OFFERED,
    WAITING,
    Active,
    State,
    Tasks,
    part_of,
    running_tasks,
    split,
)
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
    runs = running.task != NOBODY
    rate = speed(rules, loads, used)[running.server, running.gpu]
    left = running.left - jnp.where(runs, rate, 0)
    finished = runs & (left <= 0)

    counts = running_tasks(running, rules.window)
    active = state.active
    started = (active.start == NOBODY) & (counts > 0)
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
        lambda _, given: given[0] & graph.ready(given[1], given[2]),
        jnp.zeros_like(not_ready),
        (not_ready, jobs, done),
    )
    phase = jnp.where(woken, jnp.int8(WAITING), phase)
    since = jnp.where(woken, slot, since)

    complete = (active.job != NOBODY) & jnp.all(done | (phase == ABSENT), axis=-1)
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
    is_root = graph.roots(jobs)
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
        active=active._replace(job=jnp.where(over, NOBODY, active.job)),
        tasks=Tasks(phase, state.tasks.server, task_left, since, state.tasks.priority),
        running=running._replace(left=left, task=jnp.where(finished, NOBODY, running.task)),
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
