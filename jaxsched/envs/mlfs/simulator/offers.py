"""Which task is offered next (specification, section 3.4).

Loads only grow while a slot's tasks are placed, so a task that no server can take stays so until
the slot ends: the next offer is the first in the order among the tasks that some server can take.
Tasks of a job differ in their estimated demand alone, so that counting the servers with room for
each class of demand is enough. Axes: ``A`` jobs, ``K`` places for tasks, ``C`` classes of demand,
``S`` servers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.simulator import cluster as cl
from jaxsched.envs.mlfs.simulator.cluster import FULL, Demand, Loads, Room, Servers, div
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.selection import LATE
from jaxsched.envs.mlfs.simulator.state import (
    MIGRANT,
    NOBODY,
    NOMINAL,
    WAITING,
    Active,
    Offers,
    Tasks,
    layer_of,
    number_of,
    split,
    wave,
)
from jaxsched.envs.mlfs.simulator.tables import as_columns
from jaxsched.ops.batching import apply_if
from jaxsched.ops.reductions import over_rows
from jaxsched.types import Array

NONE = -(2**31)


def open_offers(
    rules: Rules, jobs: Job, active: Active, tasks: Tasks, loads: Loads, slot: Array
) -> Offers:
    """The offers of a slot whose loads, priorities and migrants are known.

    Args:
      rules: static options.
      jobs: of the window, ``[A]``.
      active: the same.
      tasks: nothing is offered yet.
      loads: without the migrants'.
      slot: t.
    """
    place = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    columns = as_columns(jobs)
    classes = class_of(rules, columns, active.job[:, None], tasks.state, slot, place)
    best = best_of(rules, tasks.state, tasks.priority, classes)
    room = room_of(rules, cl.all_servers(rules.cluster, loads))
    count = jnp.sum(servers_with_room(rules, active, room), axis=-1, dtype=jnp.int32)
    return Offers(jnp.int32(NOBODY), jnp.int32(0), best, count, jnp.int32(0))


def class_of(rules: Rules, jobs: Job, job: Array, state: Array, slot: Array, place: Array) -> Array:
    """Class of the estimated demand of tasks; waiting ones are estimated at the nominal demand."""
    nominal = rules.classes.index(NOMINAL)
    if len(rules.classes) == 1:
        return jnp.full(jnp.broadcast_shapes(state.shape, place.shape), nominal, jnp.int32)
    given = state == MIGRANT, slot, job, number_of(jobs, place)
    if state.ndim == 1:
        return _with_migrants(rules, jnp.int32(nominal), given)
    # Only the few migrants differ; apart from what follows, which reads class by class.
    classes = jnp.full(state.shape, nominal, jnp.int32)
    return apply_if(jnp.any(given[0]), lambda *x: _with_migrants(rules, *x), classes, given)


def _with_migrants(rules: Rules, classes: Array, given: tuple[Array, Array, Array, Array]) -> Array:
    """Classes, of migrants by what is measured; ``given``: migrants, slot, jobs, task numbers."""
    migrates, slot, job, number = given
    found = div(wave(slot, job, number) - rules.classes[0], 100)
    return jnp.where(migrates, found, classes)


def best_of(rules: Rules, state: Array, priority: Array, classes: Array) -> Array:
    """Highest priority of the tasks on offer by class, int32 ``[C, ...]`` of ``[..., K]``."""
    on_offer = (state == WAITING) | (state == MIGRANT)
    best = [
        jnp.max(jnp.where(on_offer & (classes == index), priority, NONE), axis=-1)
        for index in range(len(rules.classes))
    ]
    return jnp.stack(best)


def servers_with_room(rules: Rules, active: Active, room: Room) -> Array:
    """Which servers could take a task of each class and job, bool ``[C, A, S]``."""
    pm = np.array(rules.classes, np.int32)[:, None, None]
    nominal = Demand(*(x[:, None] for x in (active.gpu, active.cpus, active.mem)))
    return fits(room, nominal, pm)


def room_of(rules: Rules, servers: Servers) -> Room:
    """What servers have room for."""
    room = cl.room_below_threshold if rules.measures else cl.nominal_room
    return room(rules.cluster, servers)


class Standing(NamedTuple):
    """What the choice of a server asks about all of them.

    Attributes:
      used: pm of GPU, CPU, memory and bandwidth, int32 ``[S]`` each.
      overloaded: bool ``[S]``.
      room: of the servers.
    """

    used: tuple[Array, ...]
    overloaded: Array
    room: Room

    def room_of(self, server: Array) -> Room:
        """Room of one server, axes ``[1]``."""
        return Room(*(jax.lax.dynamic_index_in_dim(x, server) for x in self.room))


def standing(rules: Rules, servers: Servers) -> Standing:
    """How servers stand."""
    cluster = rules.cluster
    used, strained = cl.used_by_resource(cluster, servers), cl.overloaded(cluster, servers)
    return Standing(used, strained, room_of(rules, servers))


def standing_after(rules: Rules, before: Standing, loads: Loads, server: Array) -> Standing:
    """How servers stand after the loads of one of them changed: nothing else is computed anew."""
    one = standing(rules, cl.one_server(rules.cluster, loads, server))
    return jax.tree.map(lambda every, now: every.at[server].set(now[0]), before, one)


def fits(room: Room, nominal: Demand, pm: Any) -> Array:
    """Servers that can take tasks at ``pm`` of a nominal demand, bool ``[..., S]``.

    Args:
      room: of the servers.
      nominal: int32 ``[..., 1]``.
      pm: int32, likewise.
    """
    return (
        (nominal.gpu * pm < room.gpu)
        & (nominal.cpu * pm < room.cpu)
        & (nominal.mem * FULL < room.mem)
    )


def next_offer(
    rules: Rules,
    jobs: Callable[[Array], Job],
    active: Active,
    tasks: Tasks,
    offers: Offers,
    slot: Array,
) -> Offers:
    """``offers`` with the first task of the order that some server can take, if there is one.

    Order: priority descending, then job, then task (graphene: then layer, then task).

    Args:
      rules: static options.
      jobs: function of a place in the window that gives the job there.
      active: jobs of the window.
      tasks: their tasks.
      offers: to be continued.
      slot: t.
    """
    by_class = jnp.where(offers.servers > 0, offers.highest, NONE)
    by_job = over_rows(jnp.maximum, by_class)
    highest = jnp.max(by_job)
    candidates = (by_job == highest) & (active.job >= 0)
    first = jnp.min(jnp.where(candidates, active.job, LATE))
    window = jnp.arange(rules.window, dtype=jnp.int32)
    place = jnp.sum(jnp.where(active.job == first, window, 0), dtype=jnp.int32)
    job = jobs(place)
    state, priority = tasks.state[place], tasks.priority[place]
    index = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    classes = class_of(rules, job, first, state, slot, index)
    room = jnp.any(
        (classes[:, None] == np.arange(len(rules.classes), dtype=np.int32))
        & (offers.servers[:, place] > 0),
        axis=-1,
    )
    on_offer = ((state == WAITING) | (state == MIGRANT)) & room & (priority == highest)
    turn = index + (MAX_TASKS * layer_of(job, index) if rules.order == "graphene" else 0)
    task = split(jnp.min(jnp.where(on_offer, turn, LATE)))[1]
    there = (highest > NONE) & (offers.made < rules.max_offers)
    return offers._replace(place=jnp.where(there, place, NOBODY), task=jnp.where(there, task, 0))
