"""The rules of DL2's cluster (specification, section 3), with no word of learning in them.

Time passes in slots. Within a slot nothing but tasks are added, one increment after another; whose
turn it is, ``turns`` says.

Axes: ``N`` rows of the job table, ``J`` rows of the window, ``S`` servers.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.dl2.rules import (
    BUNDLE,
    KINDS,
    MAX_TASKS,
    PS,
    TASK_BITS,
    WORKER,
    Rules,
    Servers,
    empty_servers,
    feasible_when_empty,
    place_tasks,
    tables,
)
from jaxsched.envs.dl2.rules import feasible as feasible_tasks
from jaxsched.envs.dl2.rules.tables import NEVER, JobTables, SpeedTables, lookup, whole
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.batching import select
from jaxsched.types import Array

ONE_WORKER, ONE_PS = 1, 1 << TASK_BITS
FINISHED = -1  # the slot after the last job


class ClusterState(NamedTuple):
    """Everything the future depends on."""

    servers: Servers
    tasks: Array  # int32 [N], workers and PS of each job, see ``workers``
    rate: Array  # float [N], speed with these tasks alone in the cluster, epochs per second
    progress: Array  # float [N], epochs trained
    active: Array  # uint32 [V], the slot's jobs: submitted and not finished; see ``bits``
    rows: Array  # int32 [J], the batch's jobs, the empty row's index where there is none
    fits: Array  # int32, which tasks fit, see ``rules.feasible``
    slot: Array  # int32, FINISHED once all jobs have finished
    batch: Array  # int32
    episode: Array  # int32, which job table
    earlier: Array | None = None  # int32 [N], tasks of the slot before, where resizing takes time


class Increment(NamedTuple):
    """What an action did."""

    placed: Array  # bool
    job: Array  # int32, index in the table, the empty row if there is none
    kind: Array  # int32, WORKER, PS or BUNDLE
    servers: Array  # int32 [2], where the worker and the PS went; S for none
    failed: Array  # bool, it was possible by the mask, but did not fit


class SlotReport(NamedTuple):
    """What happened in the slots that ended during a step (seldom more than one).

    Attributes:
      slots: int32, how many ended.
      present: int32, jobs of each, summed over them.
      last: int32, the last of them; -1: none.
      gpus: int32, GPUs allocated, summed over them.
      cpus: int32, CPU cores likewise.
      trained: float ``[N]``, epochs trained.
      started: int32 ``[N]``, first of them in which the job trained; -1: in none.
      finished: int32 ``[N]``, the one in which the job finished; -1: in none.
      finish_share: float ``[N]``, share of that slot after which it finished.
      pace: float ``[N]``, epochs per second while it trained in the last of them (0: it did not).
    """

    slots: Array
    present: Array
    last: Array
    gpus: Array
    cpus: Array
    trained: Array
    started: Array
    finished: Array
    finish_share: Array
    pace: Array


def workers(tasks: Array) -> Array:
    """Workers in words of ``ClusterState.tasks``."""
    return tasks & MAX_TASKS


def parameter_servers(tasks: Array) -> Array:
    """Parameter servers in words of ``ClusterState.tasks``."""
    return tasks >> TASK_BITS


def is_active(state: ClusterState) -> Array:
    """Which jobs are this slot's, bool ``[N]``."""
    return bits.to_flags(state.active)


def is_long(state: ClusterState) -> bool:
    """The table has so many jobs that a step had better leave most of them alone (static)."""
    return not bits.are_few(state.active)


def is_open(state: ClusterState) -> Array:
    """The episode goes on: the slot has jobs, bool scalar."""
    return jnp.any(state.active != 0)


def options(rules: Rules, tasks: Array, info: Array, fits: Array) -> Array:
    """Which increments a job may get, bit ``kind`` for each; int32.

    Args:
      rules: the rules.
      tasks: what the jobs hold, int32 ``[...]``.
      info: of the same jobs, int32 ``[...]``.
      fits: int32 scalar, which tasks fit.
    """
    kinds = fits >> (KINDS * tables.model_of(info))
    worker = workers(tasks) < rules.max_workers
    server = parameter_servers(tasks) < rules.max_ps
    allowed = jnp.where(worker, 1 << WORKER, 0) | jnp.where(server, 1 << PS, 0)
    allowed |= jnp.where(worker & server, 1 << BUNDLE, 0)
    return kinds & allowed


def is_finished(state: ClusterState) -> Array:
    """Every job has finished, bool scalar."""
    return state.slot == FINISHED


def is_cut(rules: Rules, state: ClusterState) -> Array:
    """The episode ended with unfinished jobs, bool scalar."""
    return state.slot >= rules.max_slots


def seconds_passed(
    rules: Rules, before: ClusterState, after: ClusterState, report: SlotReport
) -> Array:
    """Time from the slot of one state to that of another; float scalar, 0 if no slot ended."""
    slot = jnp.where(is_finished(after), report.last + 1, after.slot)
    slots = jnp.where(report.slots > 0, slot - before.slot, 0)
    return slots.astype(after.progress.dtype) * rules.slot_seconds


def new_cluster(rules: Rules, jobs: JobTables, speed: SpeedTables, episode: Array) -> ClusterState:
    """The first slot that has jobs."""
    episode = jnp.asarray(episode, jnp.int32)
    size = jobs.info.shape[-1]
    tasks = jnp.zeros((size,), jnp.int32)
    return ClusterState(
        servers=empty_servers(rules.cluster),
        tasks=tasks,
        rate=jnp.zeros((size,), jobs.epochs.dtype),
        progress=jnp.zeros((size,), jobs.epochs.dtype),
        active=whole(jobs.first_active, episode),
        rows=whole(jobs.first_rows, episode),
        fits=_fits_when_empty(rules),
        slot=whole(jobs.first_slot, episode),
        batch=jnp.int32(0),
        episode=episode,
        earlier=tasks if speed.resizing is not None else None,
    )


def _fits_when_empty(rules: Rules) -> Array:
    return jnp.int32(_possible(rules) or feasible_when_empty(rules.cluster, bundles=rules.bundles))


def _possible(rules: Rules) -> int:
    """``fits`` where everything may be tried; 0 where what does not fit is masked."""
    if rules.misfit == "mask":
        return 0
    kinds = 1 << WORKER | (rules.cluster.needs_ps and 1 << PS | rules.bundles << BUNDLE)
    return sum(kinds << KINDS * model for model in range(tables.NUM_MODELS))


def apply_action(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, action: Array
) -> tuple[ClusterState, Increment]:
    """Give the job of a row a worker, a PS or both (section 5).

    Args:
      rules: the rules.
      state: before the action.
      jobs: job tables.
      speed: how fast they train.
      action: int32, ``3 * row + kind``; any other or infeasible value is void.

    Returns:
      The state with the tasks added (batch and ``fits`` are those before), and what was done.
    """
    inside = (action >= 0) & (action < KINDS * rules.window)
    action = jnp.where(inside, action, 0)
    row, kind = action // KINDS, action % KINDS
    job = jnp.where(inside, state.rows[row], jobs.empty_row)
    info = lookup(jobs.info, state.episode, job)
    allowed = options(rules, state.tasks[job], info, state.fits)
    wanted = (allowed >> kind) & 1 > 0
    return give(rules, state, speed, job, tables.model_of(info), kind, wanted)


def give(
    rules: Rules,
    state: ClusterState,
    speed: SpeedTables,
    job: Array,
    model: Array,
    kind: Array,
    wanted: Array,
) -> tuple[ClusterState, Increment]:
    """Place tasks of a job and count them, where ``wanted`` and where they fit."""
    servers, where, placed = place_tasks(rules.cluster, state.servers, model, kind, wanted)
    more = jnp.where(placed, _tasks_of(kind), 0)
    tasks = state.tasks.at[job].get(mode="promise_in_bounds") + more
    rate = rates(speed, model, tasks)
    if not is_long(state):
        here = jnp.arange(state.tasks.shape[-1], dtype=jnp.int32) == job
        tasks, rate = jnp.where(here, tasks, state.tasks), jnp.where(here, rate, state.rate)
    else:
        tasks = state.tasks.at[job].set(tasks, mode="promise_in_bounds")
        rate = state.rate.at[job].set(rate, mode="promise_in_bounds")
    state = state._replace(servers=servers, tasks=tasks, rate=rate)
    return state, Increment(placed, job, kind, where, wanted & ~placed)


def held_after(tasks: Array, increment: Increment) -> Array:
    """What the jobs hold after an increment, int32 ``[N]``, before any slot ended."""
    more = jnp.where(increment.placed, _tasks_of(increment.kind), 0)
    return tasks.at[increment.job].add(more)


def _tasks_of(kind: Array) -> Array:
    return jnp.where(kind != PS, ONE_WORKER, 0) + jnp.where(kind != WORKER, ONE_PS, 0)


def rates(speed: SpeedTables, model: Array, tasks: Array) -> Array:
    """Epochs per second of jobs alone in the cluster, without noise; float ``[...]``."""
    _, width, height = speed.rate.shape
    index = (model * width + workers(tasks)) * height + parameter_servers(tasks)
    return speed.rate.reshape(-1).at[index].get(mode="clip")


def refit(rules: Rules, state: ClusterState) -> Array:
    """Which tasks can be chosen now, int32 scalar."""
    if possible := _possible(rules):
        return jnp.int32(possible)
    return feasible_tasks(rules.cluster, state.servers, bundles=rules.bundles)


def train_slot(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, ends: Array
) -> tuple[Array, SlotReport]:
    """Train all jobs for the slot with what they hold, where ``ends`` (section 3, ``end_slot``).

    Returns:
      The progress then, float ``[N]``, and the report.
    """
    info = whole(jobs.info, state.episode)
    w, p = workers(state.tasks), parameter_servers(state.tasks)
    cpus = w * tables.worker_cpus(info) + p * tables.ps_cpus(info)
    total = jnp.sum(cpus, dtype=jnp.int32)
    # Quotients, not products, enter sums: these are rounded alike however they are compiled.
    alone = state.rate * _factor(jobs, state) * rules.slot_seconds
    whole_slot = jnp.where(ends, alone / delay(speed, total - cpus), 0.0)
    lost = _share_lost(rules, state, speed)
    possible = whole_slot if lost is None else whole_slot * (1.0 - lost)
    true_epochs = whole(jobs.true_epochs, state.episode)
    left = true_epochs - state.progress
    # The second condition holds where rounding closes a gap that is smaller than any epoch.
    reaches = (possible >= left) | (state.progress + possible >= true_epochs)
    finishes = (possible > 0) & reaches
    progress = jnp.where(finishes, true_epochs, state.progress + possible)
    share = jnp.minimum(left / jnp.where(finishes, possible, 1.0), 1.0)
    if lost is not None:
        share = lost + (1.0 - lost) * share
    gpus = jnp.sum(w * tables.worker_gpus(info), dtype=jnp.int32)
    report = SlotReport(
        slots=ends.astype(jnp.int32),
        present=jnp.where(ends, jnp.sum(bits.count(state.active)), 0),
        last=jnp.where(ends, state.slot, -1),
        gpus=jnp.where(ends, gpus, 0),
        cpus=jnp.where(ends, total, 0),
        trained=jnp.where(finishes, left, possible),
        started=jnp.where(possible > 0, state.slot, -1),
        finished=jnp.where(finishes, state.slot, -1),
        finish_share=jnp.where(finishes, share, 0.0),
        pace=whole_slot / rules.slot_seconds,
    )
    return progress, report


def _share_lost(rules: Rules, state: ClusterState, speed: SpeedTables) -> Array | None:
    """Share of the slot in which a job does not train since its tasks are new, float ``[N]``.

    A job's first tasks cost nothing; those after a slot without any do. None: resizing is free.
    """
    if speed.resizing is None or state.earlier is None:
        return None
    resized = (state.progress > 0) & (state.tasks != state.earlier)
    return jnp.where(resized, speed.resizing / rules.slot_seconds, 0.0)


def delay(speed: SpeedTables, other_cpus: Array) -> Array:
    """Factor on a job's time while the others use so many CPU cores (core, section 6)."""
    return 1.0 + other_cpus.astype(speed.doubling.dtype) / speed.doubling


def _factor(jobs: JobTables, state: ClusterState) -> Array:
    """The jobs' speed factors in this slot, float ``[N]``."""
    length = jobs.factor.shape[1]
    flat = jobs.factor.reshape(-1, jobs.factor.shape[-1])
    row = state.episode * length + state.slot % length
    return flat.at[row].get(mode="promise_in_bounds")


def next_slot(
    rules: Rules, state: ClusterState, jobs: JobTables, progress: Array, ends: Array
) -> ClusterState:
    """Open the next slot that has jobs, with nothing allocated, where ``ends``.

    Slots without jobs are passed over; after the last job (the slot is ``FINISHED`` then) and from
    ``max_slots`` on no job is active.
    """
    info = whole(jobs.info, state.episode)
    unfinished = progress < whole(jobs.true_epochs, state.episode)
    soonest = jnp.min(jnp.where(unfinished, tables.arrival(info), NEVER))
    following = jnp.where(soonest < NEVER, jnp.maximum(state.slot + 1, soonest), FINISHED)
    slot = jnp.where(ends, following, state.slot)
    seen = unfinished & (tables.arrival(info) <= slot) & (slot < rules.max_slots)
    fresh = empty_servers(rules.cluster)
    return state._replace(
        servers=select(ends, fresh, state.servers),
        tasks=jnp.where(ends, 0, state.tasks),
        rate=jnp.where(ends, 0.0, state.rate),
        progress=progress,
        active=jnp.where(ends, bits.to_words(seen), state.active),
        fits=jnp.where(ends, _fits_when_empty(rules), state.fits),
        slot=slot,
        batch=jnp.where(ends, 0, state.batch),
        earlier=None if state.earlier is None else jnp.where(ends, state.tasks, state.earlier),
    )


def end_slot(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, ends: Array
) -> tuple[ClusterState, SlotReport]:
    """Train, and open the next slot, where ``ends``; ``rows`` are left as they were."""
    progress, report = train_slot(rules, state, jobs, speed, ends)
    return next_slot(rules, state, jobs, progress, ends), report


def merge(earlier: SlotReport, later: SlotReport) -> SlotReport:
    """The report of both."""
    return SlotReport(
        slots=earlier.slots + later.slots,
        present=earlier.present + later.present,
        last=jnp.maximum(earlier.last, later.last),
        gpus=earlier.gpus + later.gpus,
        cpus=earlier.cpus + later.cpus,
        trained=earlier.trained + later.trained,
        started=jnp.where(earlier.started >= 0, earlier.started, later.started),
        finished=jnp.maximum(earlier.finished, later.finished),
        finish_share=jnp.maximum(earlier.finish_share, later.finish_share),
        pace=jnp.where(later.slots > 0, later.pace, earlier.pace),
    )
