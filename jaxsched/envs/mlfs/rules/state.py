"""What MLFS remembers of an episode: active jobs, their tasks, what runs, and who is offered.

The tasks of a job fill 32 places: SVM's tasks one after the other, those of other models from
place ``16 d`` on for replica ``d``, so that the order of places is that of the tasks. Which tasks
are ready follows from their parents.

Axes: ``A`` places for active jobs, ``K`` = 32 places for tasks, ``R`` rows of running tasks, ``S``
servers, ``G`` GPUs, ``C`` classes of demand.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, SVM
from jaxsched.envs.mlfs.rules import Cluster, Loads, div, no_loads
from jaxsched.envs.mlfs.rules.tables import Job, as_columns
from jaxsched.types import Array

NONE = -1
"""In place of a job, a task or a server where there is none."""
ABSENT, NOT_READY, WAITING, RUNNING, DONE, MIGRANT = range(6)
"""States of a task; a migrant runs, but is to be placed anew or evicted in this slot."""
OFFERED = 8  # added to the state of a task that was offered in this slot
NOMINAL = 1000  # pm
WAVE = 8  # slots
JOB_BITS, PART_BITS = MAX_TASKS.bit_length() - 1, MAX_PARTITIONS.bit_length() - 1


class Active(NamedTuple):
    """Jobs in the window, int32 ``[A]`` each.

    Attributes:
      job: place in the episode, -1 where there is none.
      iterations: completed.
      by_deadline: of these, up to the deadline.
      limit: iterations after which the job ends.
      home: server of its parameters, -1 before the first placement.
      start: first slot with a running task, -1 before.
      run_slots: slots with a running task.
      attained: running tasks summed over slots.
      gpu: pm, demand of each task.
      cpus: of each task.
      mem: GB of each task.
    """

    job: Array
    iterations: Array
    by_deadline: Array
    limit: Array
    home: Array
    start: Array
    run_slots: Array
    attained: Array
    gpu: Array
    cpus: Array
    mem: Array


class Tasks(NamedTuple):
    """Instances of the running iteration, ``[A, K]`` each.

    Attributes:
      state: int8, one of the states above, and ``OFFERED``.
      server: int16, where the task ran last (kept across iterations), -1 before.
      left: int32, mmin of a started instance that does not run; 0 of one that has not started.
      since: int32, slot since which the instance waits.
      priority: int32, of this slot; only the order matters.
      measured: int32, pm of the nominal demand that each task needs in this slot, of a cluster that
        was measured; None: they follow ``wave``.
    """

    state: Array
    server: Array
    left: Array
    since: Array
    priority: Array
    measured: Array | None = None

    def measured_at(self, *where: Array) -> Array | None:
        """``measured`` of the jobs, and tasks, at these places."""
        return None if self.measured is None else self.measured[where]


class Running(NamedTuple):
    """Tasks that run, ``[R]`` each.

    Attributes:
      task: int32, place of the job times 32 plus place of the task; -1 in free rows.
      server: int32.
      gpu: int32, of the server.
      left: int32, mmin.
      bandwidth: int32, MB per minute.
      local: int32, pm of its communication that stays on the server.
    """

    task: Array
    server: Array
    gpu: Array
    left: Array
    bandwidth: Array
    local: Array


class Offers(NamedTuple):
    """Who is next to be placed in this slot.

    Attributes:
      place: int32, of the job in the window; ``NONE``: no offer is left.
      task: int32, place of the task.
      highest: int32 ``[C, A]``, priority of the job's first task still to be offered.
      servers: int32 ``[C, A]``, how many could take such a task.
      made: int32, offers so far.
    """

    place: Array
    task: Array
    highest: Array
    servers: Array
    made: Array

    @property
    def best(self) -> Array:
        """``highest`` by job, int32 ``[A, C]``."""
        return self.highest.swapaxes(-1, -2)

    @property
    def room(self) -> Array:
        """``servers`` by job, int32 ``[A, C]``."""
        return self.servers.swapaxes(-1, -2)


class State(NamedTuple):
    """One episode.

    Attributes:
      slot: int32, t.
      admitted: int32, jobs admitted so far.
      submitted: int32, jobs submitted by now.
      finished: int32.
      active: jobs.
      tasks: their tasks.
      running: rows.
      loads: of the decisions: measured and estimated demand, or the nominal one.
      measured: gpu and cpu loads of the running tasks in this slot.
      offers: of this slot.
      waiting: int32, tasks in state WAITING.
      migrants: int32, tasks that ran when the slot began and are not placed again yet.
      sent: int32, MB sent in this slot.
      migrations: int32, moves to another server in this slot.
      busy: bool, the over_flag of the last slot.
      cut: bool, the episode was ended before its jobs were.
      pace: int32, steps since a multiple of ``slot_every``.
      episode: int32.
    """

    slot: Array
    admitted: Array
    submitted: Array
    finished: Array
    active: Active
    tasks: Tasks
    running: Running
    loads: Loads
    measured: tuple[Array, Array]
    offers: Offers
    waiting: Array
    migrants: Array
    sent: Array
    migrations: Array
    busy: Array
    cut: Array
    pace: Array
    episode: Array


def empty_state(
    cluster: Cluster, window: int, classes: int, max_running: int, episode: Array
) -> State:
    """An idle cluster in slot 0, no job admitted."""
    zero = jnp.int32(0)
    jobs = jnp.zeros(window, jnp.int32)
    none = jnp.full(window, NONE, jnp.int32)
    tasks = jnp.zeros((window, MAX_TASKS), jnp.int32)
    rows = jnp.zeros(max_running, jnp.int32)
    by_class = jnp.zeros((classes, window), jnp.int32)
    loads = no_loads(cluster)
    return State(
        slot=zero,
        admitted=zero,
        submitted=zero,
        finished=zero,
        active=Active(none, jobs, jobs, jobs, none, none, jobs, jobs, jobs, jobs, jobs),
        tasks=Tasks(tasks.astype(jnp.int8), (tasks - 1).astype(jnp.int16), tasks, tasks, tasks),
        running=Running(rows - 1, *[rows] * 5),
        loads=loads,
        measured=(loads.gpu, loads.cpu),
        offers=Offers(jnp.int32(NONE), zero, by_class, by_class, zero),
        waiting=zero,
        migrants=zero,
        sent=zero,
        migrations=zero,
        busy=jnp.bool_(False),
        cut=jnp.bool_(False),
        pace=zero,
        episode=episode,
    )


def split(task: Array) -> tuple[Array, Array]:
    """Place of the job and place inside it, of 32 times the first plus the second; (-1, 31) of -1.

    Bits, as are those of ``part_of`` and ``wave``: division that rounds down is nine operations.
    """
    return task >> JOB_BITS, task & (MAX_TASKS - 1)


def part_of(place: Array) -> Array:
    """Place in its replica of the task at a place."""
    return place & (MAX_PARTITIONS - 1)


def partition_of(jobs: Job, place: Array) -> Array:
    """Partition of the task at a place; ``jobs`` and ``place`` broadcast."""
    return jnp.where(jobs.model == SVM, 0, part_of(place))


def number_of(jobs: Job, place: Array) -> Array:
    """The task's number k = d P + p; ``jobs`` and ``place`` broadcast."""
    number = (place >> PART_BITS) * jobs.partitions + part_of(place)
    return jnp.where(jobs.model == SVM, place, number)


def exists(jobs: Job, place: Array) -> Array:
    """Whether the job has a task at a place; ``jobs`` and ``place`` broadcast."""
    inside = part_of(place) < jobs.partitions
    there = inside & (number_of(jobs, place) < jobs.num_gpus)
    return jnp.where(jobs.model == SVM, place < jobs.num_gpus, there)


def layer_of(jobs: Job, place: Array) -> Array:
    """Layer of the task at a place; ``jobs`` and ``place`` broadcast."""
    return div(partition_of(jobs, place), jnp.maximum(jobs.width, 1))


def running_tasks(running: Running, window: int) -> Array:
    """Running tasks of each job of the window, int32 ``[A]``."""
    place = jnp.where(running.task == NONE, window, split(running.task)[0])
    return jnp.zeros(window, jnp.int32).at[place].add(1, mode="drop")


def num_layers(jobs: Job) -> Array:
    """Layers of the jobs' graphs."""
    layers = div(jobs.partitions, jnp.maximum(jobs.width, 1))
    return jnp.where(jobs.model == SVM, 1, layers)


def measured_pm(measured: Array | None, slot: Array, job: Array, number: Array) -> Array:
    """Measured demand of tasks over the nominal one, pm: as given, or by ``wave`` if None."""
    return wave(slot, job, number) if measured is None else measured


def wave(slot: Array, job: Array, number: Array) -> Array:
    """W of section 2, pm: the measured demand of task ``number`` of a job over the nominal one."""
    phase = (slot + 3 * job + 5 * number) & (WAVE - 1)
    return 1200 - 100 * jnp.abs(phase - 4)


WIDTHS = (1, 2, 4)  # parts that a layer may have
_LAYER = [np.arange(MAX_PARTITIONS) // width for width in WIDTHS]
_PARENTS = np.concatenate([x[:, None] + 1 == x for x in _LAYER], axis=1).astype(np.float32)
"""Float32 ``[P, 3 P]``: for each width, whether the row's partition is a parent of the column's."""


def ready(jobs: Job, done: Array) -> Array:
    """Whether all parents are done; bool ``[A, K]`` of bool ``[A, K]``."""
    replicas = done.reshape(-1, MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    result = jnp.ones_like(replicas)
    for width in WIDTHS:
        blocks = replicas.reshape(*replicas.shape[:2], -1, width)
        whole = jnp.all(blocks, axis=-1)
        before = jnp.concatenate([jnp.ones_like(whole[..., :1]), whole[..., :-1]], axis=-1)
        chosen = (jobs.width == width)[:, None, None]
        result = jnp.where(chosen, jnp.repeat(before, width, axis=-1), result)
    return result.reshape(-1, MAX_TASKS) | (jobs.model == SVM)[:, None]


def parents_that(jobs: Job, holds: Array) -> Array:
    """How many of each task's parents hold, int32 ``[..., A, K]`` of bool ``[..., A, K]``."""
    replicas = holds.reshape(*holds.shape[:-1], MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    sums = replicas.astype(jnp.float32) @ _PARENTS  # small whole numbers: exact
    result = jnp.zeros(holds.shape, jnp.int32)
    for index, width in enumerate(WIDTHS):
        of_width = sums[..., MAX_PARTITIONS * index : MAX_PARTITIONS * (index + 1)]
        counts = of_width.reshape(holds.shape).astype(jnp.int32)
        chosen = (jobs.width == width) & (jobs.model != SVM)
        result = jnp.where(chosen[:, None], counts, result)
    return result


def roots(jobs: Job) -> Array:
    """Tasks without parents that exist, bool ``[A, K]``."""
    return ready(jobs, jnp.zeros((jobs.width.shape[0], MAX_TASKS), bool)) & present(jobs)


def on_offer(state: Array) -> Array:
    """Which tasks wait or are migrants and were not offered in this slot, bool, by their states."""
    return (state == WAITING) | (state == MIGRANT)


def present(jobs: Job) -> Array:
    """Places with a task, bool ``[A, K]``."""
    return exists(as_columns(jobs), jnp.arange(MAX_TASKS, dtype=jnp.int32))
