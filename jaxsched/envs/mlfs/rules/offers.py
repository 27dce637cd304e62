"""Which task is offered next, and what placing it does (specification, sections 2, 3 and 3.4).

Loads only grow while a slot's tasks are placed, so a task that no server can take stays so until
the slot ends: the next offer is the first in the order among the tasks that some server can take.
Tasks of a job differ in their estimated demand alone, so that counting the servers with room for
each class of demand is enough.

Axes: ``A`` jobs, ``K`` places for tasks, ``C`` classes of demand, ``S`` servers, ``G`` GPUs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.jobs import MAX_TASKS, MAX_WIDTH
from jaxsched.envs.mlfs.rules import (
    FULL,
    LATE,
    Demand,
    Loads,
    Room,
    Rules,
    Servers,
    div,
    first_least,
)
from jaxsched.envs.mlfs.rules.state import (
    MIGRANT,
    NOMINAL,
    NONE,
    OFFERED,
    RUNNING,
    Active,
    Offers,
    Running,
    State,
    Tasks,
    layer_of,
    measured_pm,
    num_layers,
    number_of,
    on_offer,
    part_of,
    split,
)
from jaxsched.envs.mlfs.rules.tables import Job, Params, as_columns, jobs_at
from jaxsched.ops.batching import apply_if
from jaxsched.ops.reductions import over_rows
from jaxsched.types import Array

LOWEST = -(2**31)
"""In place of a priority where no task is on offer."""


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
    job, measured = active.job[:, None], tasks.measured
    classes = class_of(rules, columns, job, tasks.state, slot, place, measured)
    best = best_of(rules, tasks.state, tasks.priority, classes)
    room = room_of(rules, cl.all_servers(rules.cluster, loads))
    count = jnp.sum(servers_with_room(rules, active, room), axis=-1, dtype=jnp.int32)
    return Offers(jnp.int32(NONE), jnp.int32(0), best, count, jnp.int32(0))


def class_of(
    rules: Rules,
    jobs: Job,
    job: Array,
    state: Array,
    slot: Array,
    place: Array,
    measured: Array | None,
) -> Array:
    """Class of the estimated demand of tasks; waiting ones are estimated at the nominal demand.

    Args:
      rules: static options.
      jobs: rows of the jobs.
      job: their places in the episode.
      state: of their tasks.
      slot: t.
      place: of the tasks.
      measured: ``Tasks.measured`` of the tasks.
    """
    nominal = rules.classes.index(NOMINAL)
    if len(rules.classes) == 1:
        return jnp.full(jnp.broadcast_shapes(state.shape, place.shape), nominal, jnp.int32)
    given = state == MIGRANT, measured, slot, job, number_of(jobs, place)
    if state.ndim == 1:
        return _with_migrants(rules, jnp.int32(nominal), given)
    # Only the few migrants differ; apart from what follows, which reads class by class.
    classes = jnp.full(state.shape, nominal, jnp.int32)
    return apply_if(jnp.any(given[0]), lambda *x: _with_migrants(rules, *x), classes, given)


def _with_migrants(rules: Rules, classes: Array, given: tuple[Any, ...]) -> Array:
    """Classes, of migrants by their measured demand; ``given``: which they are, see below."""
    migrates, *of = given
    found = div(measured_pm(*of) - rules.classes[0], 100)
    return jnp.where(migrates, found, classes)


def best_of(rules: Rules, state: Array, priority: Array, classes: Array) -> Array:
    """Highest priority of the tasks on offer by class, int32 ``[C, ...]`` of ``[..., K]``."""
    asked = on_offer(state)
    best = [
        jnp.max(jnp.where(asked & (classes == index), priority, LOWEST), axis=-1)
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


class ServerStatus(NamedTuple):
    """Use, overload and room of all servers, which the choice of a server depends on.

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


def status_of(rules: Rules, servers: Servers) -> ServerStatus:
    """Use, overload and room of servers."""
    cluster = rules.cluster
    used, strained = cl.used_by_resource(cluster, servers), cl.overloaded(cluster, servers)
    return ServerStatus(used, strained, room_of(rules, servers))


def status_after(rules: Rules, before: ServerStatus, loads: Loads, server: Array) -> ServerStatus:
    """``before`` after the loads of one server changed: nothing else is computed anew."""
    one = status_of(rules, cl.one_server(rules.cluster, loads, server))
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
    by_class = jnp.where(offers.servers > 0, offers.highest, LOWEST)
    by_job = over_rows(jnp.maximum, by_class)
    highest = jnp.max(by_job)
    candidates = (by_job == highest) & (active.job >= 0)
    first = jnp.min(jnp.where(candidates, active.job, LATE))
    window = jnp.arange(rules.window, dtype=jnp.int32)
    place = jnp.sum(jnp.where(active.job == first, window, 0), dtype=jnp.int32)
    job = jobs(place)
    state, priority = tasks.state[place], tasks.priority[place]
    index = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    classes = class_of(rules, job, first, state, slot, index, tasks.measured_at(place))
    room = jnp.any(
        (classes[:, None] == np.arange(len(rules.classes), dtype=np.int32))
        & (offers.servers[:, place] > 0),
        axis=-1,
    )
    asked = on_offer(state) & room & (priority == highest)
    turn = index + (MAX_TASKS * layer_of(job, index) if rules.order == "graphene" else 0)
    task = split(jnp.min(jnp.where(asked, turn, LATE)))[1]
    there = (highest > LOWEST) & (offers.made < rules.max_offers)
    return offers._replace(place=jnp.where(there, place, NONE), task=jnp.where(there, task, 0))


class Communication(NamedTuple):
    """What an instance sends and receives (section 2).

    Attributes:
      layer: int32, of the task.
      layers: int32, of its job.
      total_mb: int32.
      local_mb: int32 ``[S]``, of it inside each server.
    """

    layer: Array
    layers: Array
    total_mb: Array
    local_mb: Array

    @property
    def local_share(self) -> Array:
        """Communication inside each server, pm of all; int32 ``[S]``."""
        return div(FULL * self.local_mb, jnp.maximum(self.total_mb, 1))


class Offered(NamedTuple):
    """The task on offer; where there is none, fields without meaning and an empty ``valid``.

    Attributes:
      there: bool, there is an offer.
      place: int32, of the job in the window.
      task: int32, place of the task.
      which: int32, job of the episode.
      number: int32, k.
      job: its row.
      migrant: bool, it was running until now.
      pm: int32, estimated demand over the nominal one.
      talk: its communication.
      last: int32, server it ran on last, -1 before.
      left: int32, mmin of a started instance, 0 of others.
      status: use, overload and room of the servers.
      valid: bool ``[S]``, servers that can take it.
    """

    there: Array
    place: Array
    task: Array
    which: Array
    number: Array
    job: Job
    migrant: Array
    pm: Array
    talk: Communication
    last: Array
    left: Array
    status: ServerStatus
    valid: Array

    @property
    def work(self) -> Array:
        """Mmin of one instance at full speed."""
        return self.job.work[part_of(self.task)]

    @property
    def moves(self) -> Array:
        """Servers on which it would have to be moved, bool ``[S]``."""
        servers = jnp.arange(self.valid.shape[0], dtype=jnp.int32)
        return (self.last >= 0) & (servers != self.last)

    @property
    def estimate(self) -> Demand:
        """Estimated demand."""
        return demand_of(self.job, self.pm)


def demand_of(job: Job, pm: Array) -> Demand:
    """Demand of a task at ``pm`` of the nominal one."""
    return Demand(div(job.gpu_demand * pm, NOMINAL), job.cpus * pm, job.mem)


def offered(
    rules: Rules, params: Params, state: State, status: ServerStatus | None = None
) -> Offered:
    """The task that a state offers; ``status`` is that of its servers where it is known already."""
    if status is None:
        status = status_of(rules, cl.all_servers(rules.cluster, state.loads))
    offers, active = state.offers, state.active
    there = offers.place != NONE
    place, task = jnp.maximum(offers.place, 0), offers.task
    index = active.job[place]
    job = jobs_at(params, state.episode, jnp.where(there, index, NONE))
    phase = state.tasks.state[place, task]
    migrant = phase == MIGRANT
    number = number_of(job, task)
    measured = measured_pm(state.tasks.measured_at(place, task), state.slot, index, number)
    pm = jnp.where(migrant, measured, NOMINAL)
    talk = communication(rules, state, job, place, task)
    valid = fits(status.room, Demand(job.gpu_demand, job.cpus, job.mem), pm)
    return Offered(
        there=there,
        place=place,
        task=task,
        which=index,
        number=number,
        job=job,
        migrant=migrant,
        pm=pm,
        talk=talk,
        last=state.tasks.server[place, task].astype(jnp.int32),
        left=state.tasks.left[place, task],
        status=status,
        valid=valid & there,
    )


def communication(rules: Rules, state: State, job: Job, place: Array, task: Array) -> Communication:
    """Communication of the task at ``task`` of the job ``job`` at ``place`` of the window."""
    layer = layer_of(job, task)
    layers = num_layers(job)
    root, sink = layer == 0, layer == layers - 1
    ends_mb = job.server_mb * (root.astype(jnp.int32) + sink)
    column = np.arange(MAX_WIDTH, dtype=np.int32)
    parents = task - part_of(task) + (layer - 1) * job.width + column
    real = (column < job.width) & ~root
    ran_on = jnp.where(real, state.tasks.server[place][split(parents)[1]], NONE)
    servers = np.arange(rules.cluster.num_servers, dtype=np.int32)
    there_too = jnp.sum(ran_on == servers[:, None], axis=-1, dtype=jnp.int32)
    home = state.active.home[place]
    at_home = (home == NONE) | (home == servers)
    return Communication(
        layer,
        layers,
        job.worker_mb * jnp.where(root, 0, job.width) + ends_mb,
        job.worker_mb * there_too + jnp.where(at_home, ends_mb, 0),
    )


def link_load(rules: Rules, work: Array, cross_mb: Array) -> Array:
    """MB per minute of a task that sends ``cross_mb`` to other servers."""
    return div(cross_mb * FULL, work + sent_minutes(rules, cross_mb))


def sent_minutes(rules: Rules, cross_mb: Array) -> Array:
    """Mmin that it takes to send ``cross_mb``."""
    return div(cross_mb * FULL, rules.cluster.flow_rate)


def answer(rules: Rules, params: Params, state: State, action: Array) -> State:
    """Take the answer to the offer: a valid server, or anything else to leave the task waiting."""
    offer = offered(rules, params, state)
    inside = jnp.clip(action, 0, rules.cluster.num_servers - 1)
    placed = (action == inside) & offer.valid[inside]
    return settled(rules, params, state, offer, inside, placed)


def settled(
    rules: Rules,
    params: Params,
    state: State,
    offer: Offered,
    server: Array,
    placed: Array,
    again: Array | None = None,
) -> State:
    """The state after an offer, with the next one.

    Args:
      rules: static options.
      params: of the episode.
      state: that makes the offer.
      offer: the task on offer.
      server: int32, a server.
      placed: bool, the task runs there from now on.
      again: int32, priority at which a task that is not placed stays on offer; if absent, it is not
        offered again in this slot.
    """
    state = _placed(rules, state, offer, server, placed)
    place, task, tasks = offer.place, offer.task, state.tasks
    target = jnp.where(offer.there, place, rules.window)
    before, priority = tasks.state[place, task], tasks.priority
    stays = before | OFFERED if again is None else before
    after = jnp.where(placed, RUNNING, stays).astype(jnp.int8)
    if rules.order == "fair":
        lowered = jnp.where(placed, offer.job.gpu_demand, 0)
        priority = priority.at[place].add(-lowered)
    if again is not None:
        lowered = jnp.where(placed, priority[place, task], again)
        priority = priority.at[target, task].set(lowered, mode="drop")
    tasks = tasks._replace(
        state=tasks.state.at[target, task].set(after, mode="drop"), priority=priority
    )
    classes = class_of(
        rules,
        offer.job,
        offer.which,
        tasks.state[place],
        state.slot,
        jnp.arange(MAX_TASKS, dtype=jnp.int32),
        tasks.measured_at(place),
    )
    best = best_of(rules, tasks.state[place], priority[place], classes)
    answered = offer.there if again is None else offer.there & placed
    offers = state.offers._replace(
        highest=state.offers.highest.at[:, target].set(best, mode="drop"),
        made=state.offers.made + answered,
    )
    state = state._replace(tasks=tasks, offers=offers)
    return with_next_offer(rules, params, state)


def with_next_offer(rules: Rules, params: Params, state: State) -> State:
    """The state with its next offer, if there is one."""

    def job_at(place: Array) -> Job:
        return jobs_at(params, state.episode, state.active.job[place])

    offers = next_offer(rules, job_at, state.active, state.tasks, state.offers, state.slot)
    return state._replace(offers=offers)


def _placed(rules: Rules, state: State, offer: Offered, server: Array, placed: Array) -> State:
    """The state after the offer is placed on a server, if it is; the task's state is not set."""
    active, tasks, loads = state.active, state.tasks, state.loads
    cluster = rules.cluster
    there = np.arange(cluster.max_gpus, dtype=np.int32) < jnp.asarray(cluster.num_gpus)[server]
    gpu = first_least(there, loads.gpu[server])
    cross = offer.talk.total_mb - offer.talk.local_mb[server]
    fresh = offer.left == 0
    moved = (offer.last >= 0) & (server != offer.last)
    left = jnp.where(fresh, offer.work + sent_minutes(rules, cross), offer.left)
    left = left + jnp.where(moved, rules.move_work, 0)
    sent = jnp.where(fresh, cross, 0) + jnp.where(moved, rules.move_mb, 0)
    bandwidth = link_load(rules, offer.work, cross)

    nowhere = jnp.where(placed, server, cluster.num_servers)
    running = state.running
    rows = np.arange(running.task.shape[0], dtype=np.int32)
    row = jnp.min(jnp.where(running.task == NONE, rows, cl.NO_GPU))
    row = jnp.where(placed, row, cl.NO_GPU)
    taken = Running(
        task=offer.place * MAX_TASKS + offer.task,
        server=server,
        gpu=gpu,
        left=left,
        bandwidth=bandwidth,
        local=offer.talk.local_share[server],
    )
    running = jax.tree.map(lambda old, new: old.at[row].set(new, mode="drop"), running, taken)

    grown = cl.with_task(loads, nowhere, gpu, offer.estimate, bandwidth)
    before = offer.status.room_of(server)
    after = room_of(rules, cl.one_server(cluster, grown, server))
    could, can = (servers_with_room(rules, active, x)[..., 0] for x in (before, after))
    given = tasks.measured_at(offer.place, offer.task)
    pm = measured_pm(given, state.slot, offer.which, offer.number)
    measured = demand_of(offer.job, pm)
    used_gpu, used_cpu = state.measured
    home = jnp.where(active.home[offer.place] == NONE, server, active.home[offer.place])
    place = jnp.where(placed, offer.place, rules.window)
    return state._replace(
        active=active._replace(home=active.home.at[place].set(home, mode="drop")),
        tasks=tasks._replace(
            server=tasks.server.at[place, offer.task].set(server.astype(jnp.int16), mode="drop")
        ),
        running=running,
        loads=grown,
        measured=(
            used_gpu.at[nowhere, gpu].add(measured.gpu, mode="drop"),
            used_cpu.at[nowhere].add(measured.cpu, mode="drop"),
        ),
        offers=state.offers._replace(
            servers=state.offers.servers - (could & ~can).astype(jnp.int32)
        ),
        waiting=state.waiting - (placed & ~offer.migrant),
        migrants=state.migrants - (placed & offer.migrant),
        sent=state.sent + jnp.where(placed, sent, 0),
        migrations=state.migrations + (placed & offer.migrant & moved),
    )
