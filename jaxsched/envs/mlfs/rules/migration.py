"""Tasks that leave overloaded servers or GPUs (specification, sections 3.2 and 9).

Axes: ``R`` rows of running tasks, ``S`` servers, ``G`` GPUs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.rules import FULL, LATE, Demand, Loads, Rules, div, first_least, per_mille
from jaxsched.envs.mlfs.rules.offers import communication, demand_of, link_load
from jaxsched.envs.mlfs.rules.state import (
    MIGRANT,
    NOMINAL,
    NONE,
    Active,
    Running,
    State,
    Tasks,
    measured_pm,
    number_of,
    part_of,
    split,
)
from jaxsched.envs.mlfs.rules.tables import Job, scalars_at
from jaxsched.ops import target
from jaxsched.types import Array

FARTHEST = 20000  # pm; five squares of it fit in int32


class Rows(NamedTuple):
    """What running tasks need, ``[R]`` each.

    Attributes:
      busy: bool, the row is taken.
      demand: measured.
      nominal: demand.
      key: int32, job times 32 plus place of the task: the order of ties.
    """

    busy: Array
    demand: Demand
    nominal: Demand
    key: Array


def rows_of(jobs: Job, active: Active, tasks: Tasks, running: Running, slot: Array) -> Rows:
    """Demands of the running tasks in a slot, zero in free rows."""
    busy = running.task != NONE
    place, task = split(running.task)
    job = scalars_at(jobs, place)
    index = active.job[place]
    pm = measured_pm(tasks.measured_at(place, task), slot, index, number_of(job, task))

    def kept(demand: Demand) -> Demand:
        return Demand(*(jnp.where(busy, x, 0) for x in demand))

    measured, nominal = (kept(demand_of(job, x)) for x in (pm, jnp.int32(NOMINAL)))
    return Rows(busy, measured, nominal, index * MAX_TASKS + task)


def total(rules: Rules, running: Running, rows: Rows, demand: Demand) -> Loads:
    """Loads of the running tasks with these demands."""
    none = cl.no_loads(rules.cluster)
    server = jnp.where(rows.busy, running.server, rules.cluster.num_servers)
    of_server = jnp.stack([demand.cpu, demand.mem, running.bandwidth], axis=-1)
    sums = jnp.zeros((rules.cluster.num_servers, 3), jnp.int32)
    sums = sums.at[server].add(of_server, mode="drop")
    gpu = none.gpu.at[server, running.gpu].add(demand.gpu, mode="drop")
    return Loads(gpu, sums[:, 0], sums[:, 1], sums[:, 2])


class Leaving(NamedTuple):
    """Where the choice of migrants stands.

    Attributes:
      running: rows, those of migrants free.
      tasks: migrants marked; their ``since`` counts them, from 1.
      loads: without the migrants'.
      strained: bool ``[S]``, overloaded and with tasks left.
      chosen: int32, migrants so far.
    """

    running: Running
    tasks: Tasks
    loads: Loads
    strained: Array
    chosen: Array

    @property
    def server(self) -> Array:
        """The first strained server, int32; 0 if there is none."""
        return jnp.argmax(self.strained).astype(jnp.int32)


def leave_overload(rules: Rules, state: State, rows: Rows, loads: Loads) -> tuple[State, Loads]:
    """Mark the migrants of overloaded servers; their loads leave ``loads`` (section 3.2).

    Migrants free their rows: what they have done is kept with the task. They are taken server by
    server, on each until it is not overloaded.

    Args:
      rules: static options.
      state: at the start of a slot, priorities known.
      rows: of its running tasks.
      loads: measured.

    Returns:
      The state with the migrants, without setting its loads, and the loads without theirs.
    """
    cluster = rules.cluster
    priority = state.tasks.priority.reshape(-1)[state.running.task]
    on = jnp.where(rows.busy, state.running.server, cluster.num_servers)
    here = jnp.zeros(cluster.num_servers, bool).at[on].set(True, mode="drop")
    strained = here & cl.overloaded(cluster, cl.all_servers(cluster, loads))

    def one_leaves(at: Leaving) -> Leaving:
        running, tasks, loads, strained, count = at
        server = at.server
        row = _migrant(rules, running, rows, priority, loads, server)
        task = running.task[row]
        place, inside = split(task)
        tasks = tasks._replace(
            state=tasks.state.at[place, inside].set(MIGRANT),
            left=tasks.left.at[place, inside].set(running.left[row]),
            since=tasks.since.at[place, inside].set(count + 1),
        )
        less = Demand(*(-x[row] for x in rows.demand))
        loads = cl.with_task(loads, server, running.gpu[row], less, -running.bandwidth[row])
        running = running._replace(task=running.task.at[row].set(NONE))
        left = jnp.any((running.task != NONE) & (running.server == server))
        still = left & cl.overloaded(cluster, cl.one_server(cluster, loads, server))[0]
        return Leaving(running, tasks, loads, strained.at[server].set(still), count + 1)

    at = Leaving(state.running, state.tasks, loads, strained, jnp.int32(0))
    at = jax.lax.while_loop(lambda at: jnp.any(at.strained), one_leaves, at)
    return state._replace(running=at.running, tasks=at.tasks, migrants=at.chosen), at.loads


def _migrant(
    rules: Rules, running: Running, rows: Rows, priority: Array, loads: Loads, server: Array
) -> Array:
    """Row of the task that leaves an overloaded server first."""
    cluster = rules.cluster
    view = cl.one_server(cluster, loads, server)
    hot = view.loads.gpu[0] > cluster.overload
    here = (running.task != NONE) & (running.server == server)
    on_hot = here & hot[running.gpu]
    pool = jnp.where(jnp.any(hot), _first_share(rules, on_hot, priority, rows.key), here)
    parts = jnp.stack(
        [
            div(rows.demand.gpu, view.num_gpus),
            div(rows.demand.cpu, cluster.cpus),
            per_mille(rows.demand.mem, cluster.mem),
            per_mille(running.bandwidth, cluster.bandwidth),
        ]
    )
    strained = jnp.concatenate(cl.strained_by_resource(cluster, view))
    strained = strained.at[0].set(strained[0] | jnp.any(hot))
    most = jnp.max(jnp.where(here, parts, 0), axis=-1)
    least = jnp.min(jnp.where(here, parts, LATE), axis=-1)
    ideal = jnp.where(strained, most, least)[:, None]
    gap = jnp.minimum(jnp.abs(parts - ideal), FARTHEST)
    distance = jnp.int32(rules.use_bandwidth) * running.local * running.local
    distance = distance + jnp.sum(gap * gap, axis=0, dtype=jnp.int32)
    return first_least(pool, distance, rows.key)


def _first_share(rules: Rules, among: Array, priority: Array, key: Array) -> Array:
    """Rows of the tasks of lowest priority among some, ``migrant_share`` per cent and one."""
    count = jnp.sum(among, dtype=jnp.int32)
    share = jnp.maximum(1, div(rules.migrant_share * count + 99, 100))

    if not target.on_cpu():  # there a loop of so many rounds is as many trips to the host
        same, before = priority == priority[:, None], priority < priority[:, None]
        before |= same & (key < key[:, None])
        return among & (jnp.sum(among & before, axis=-1, dtype=jnp.int32) < share)

    def take(_: Array, taken: Array) -> Array:
        return taken.at[first_least(among & ~taken, priority, key)].set(True)

    return jax.lax.fori_loop(0, share, take, jnp.zeros_like(among))


class Moving(NamedTuple):
    """Where Gandiva's moves stand.

    Attributes:
      state: tasks moved so far.
      loads: measured.
      nominal: loads.
      gpu: int32, the overloaded GPU at work, server times G plus its place; S G at the end.
    """

    state: State
    loads: Loads
    nominal: Loads
    gpu: Array


def gandiva_moves(
    rules: Rules, state: State, jobs: Job, rows: Rows, loads: Loads, nominal: Loads
) -> tuple[State, Loads, Loads]:
    """Move the smallest task of each overloaded GPU to the least loaded one (section 9).

    Args:
      rules: static options.
      state: at the start of a slot.
      jobs: of the window.
      rows: of the running tasks.
      loads: measured.
      nominal: the same tasks at their nominal demand.

    Returns:
      The state, and both loads, after the moves.
    """
    cluster = rules.cluster
    num_gpus = cluster.num_servers * cluster.max_gpus
    index = np.arange(num_gpus, dtype=np.int32)
    there = jnp.asarray(np.arange(cluster.max_gpus, dtype=np.int32) < cluster.num_gpus[:, None])

    def following(loads: Loads, start: Array) -> Array:
        hot = (loads.gpu.reshape(-1) > cluster.overload) & (index >= start)
        return jnp.min(jnp.where(hot, index, num_gpus))

    def move(at: Moving) -> Moving:
        running, active, tasks = at.state.running, at.state.active, at.state.tasks
        server, gpu = at.gpu // cluster.max_gpus, at.gpu % cluster.max_gpus
        here = (running.task != NONE) & (running.server == server) & (running.gpu == gpu)
        row = first_least(here, rows.demand.gpu, rows.key)
        flat = jnp.where(there, at.loads.gpu, cl.NO_GPU).reshape(-1)
        target = first_least(flat < cl.NO_GPU, flat)
        to, to_gpu = target // cluster.max_gpus, target % cluster.max_gpus
        measured, wanted = (Demand(*(x[row] for x in d)) for d in (rows.demand, rows.nominal))
        moved = to != server
        room = (at.nominal.cpu[to] + wanted.cpu <= FULL * cluster.cpus) & (
            at.nominal.mem[to] + wanted.mem <= cluster.mem
        )
        goes = (
            (target != at.gpu)
            & (flat[target] + measured.gpu <= cluster.overload)
            & (at.nominal.gpu[to, to_gpu] + wanted.gpu <= FULL)
            & (room | ~moved)
        )
        task = running.task[row]
        place, inside = split(task)
        job = jax.tree.map(lambda field: field[place], jobs)
        talk = communication(rules, at.state, job, place, inside)
        work = job.work[part_of(inside)]
        bandwidth = link_load(rules, work, talk.total_mb - talk.local_mb[to])
        changes = goes & moved
        link = jnp.where(changes, bandwidth, running.bandwidth[row])
        loads, nominal = (
            _moved(x, d, (server, gpu), (to, to_gpu), (running.bandwidth[row], link), goes)
            for x, d in ((at.loads, measured), (at.nominal, wanted))
        )
        running = running._replace(
            server=running.server.at[row].set(jnp.where(goes, to, server)),
            gpu=running.gpu.at[row].set(jnp.where(goes, to_gpu, gpu)),
            left=running.left.at[row].add(jnp.where(changes, rules.move_work, 0)),
            bandwidth=running.bandwidth.at[row].set(link),
        )
        last = jnp.where(goes, to, server).astype(jnp.int16)
        state = at.state._replace(
            active=active,
            running=running,
            tasks=tasks._replace(server=tasks.server.at[place, inside].set(last)),
            sent=at.state.sent + jnp.where(changes, rules.move_mb, 0),
            migrations=at.state.migrations + changes,
        )
        return Moving(state, loads, nominal, following(loads, at.gpu + 1))

    at = Moving(state, loads, nominal, following(loads, jnp.int32(0)))
    at = jax.lax.while_loop(lambda at: at.gpu < num_gpus, move, at)
    return at.state, at.loads, at.nominal


def _moved(
    loads: Loads,
    demand: Demand,
    source: tuple[Array, Array],
    target: tuple[Array, Array],
    link: tuple[Array, Array],
    goes: Array,
) -> Loads:
    """Loads after a task leaves ``source`` for ``target`` (server, GPU), if it goes."""
    more = Demand(*(jnp.where(goes, x, 0) for x in demand))
    less = Demand(*(-x for x in more))
    before, after = (jnp.where(goes, x, 0) for x in link)
    return cl.with_task(cl.with_task(loads, *source, less, -before), *target, more, after)
