"""The rules of the SCHED2 cluster (specification, section 3), with no word of learning in them.

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` window slots, ``C`` columns of a job row.
Times are whole seconds (int32).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched import placement
from jaxsched.envs.sched2 import tables as tb
from jaxsched.envs.sched2.slowdown import fewest_servers, level_of
from jaxsched.envs.sched2.tables import JobTables
from jaxsched.types import Array


class ClusterState(NamedTuple):
    """Everything the future depends on; the waiting jobs beyond the window are table rows
    ``head .. arrived - 1``, because jobs enter the window in order and leave only from it.
    """

    finish_time: Array  # int32 [S, G], when the last job on the GPU ends; free if <= time
    last_packed: Array  # bool [S, G], the last job put here was multi-GPU at level 0
    window: Array  # int32 [J, C], rows of the waiting jobs that can be chosen; zeros when empty
    time: Array  # int32
    head: Array  # int32, first job that has not entered the window
    arrived: Array  # int32, first job still to be submitted
    episode: Array  # int32, which job table


class Start(NamedTuple):
    """What starting one job did (all zero or false where no job started)."""

    started: Array  # bool
    job: Array  # int32, index in the table
    num_gpus: Array  # int32
    duration: Array  # int32
    wait: Array  # int32
    run: Array  # int32, actual run time
    level: Array  # int32, locality level
    gpus: Array  # uint32 [S], GPUs taken from each server as bit sets (GPU i in bit i)
    reused: Array  # bool, multi-GPU at level 0 on GPUs last used by such jobs


def new_cluster(
    jobs: JobTables, episode: Array, num_servers: int, gpus_per_server: int, window: int
) -> ClusterState:
    """An idle cluster at time 0 with every job submitted at 0 admitted."""
    shape = (num_servers, gpus_per_server)
    empty = ClusterState(
        finish_time=jnp.zeros(shape, jnp.int32),
        last_packed=jnp.zeros(shape, bool),
        window=jnp.zeros((window, tb.NUM_COLUMNS), jnp.int32),
        time=jnp.int32(0),
        head=jnp.int32(0),
        arrived=jnp.int32(0),
        episode=jnp.asarray(episode, jnp.int32),
    )
    return fill_window(empty._replace(arrived=jobs.batch_end[empty.episode, 0]), jobs)


def is_free(state: ClusterState) -> Array:
    """Which GPUs are free now, bool ``[S, G]``."""
    return state.finish_time <= state.time


def legal_actions(state: ClusterState, jobs: JobTables) -> Array:
    """Slots whose job fits the free GPUs, then void (legal while anything can still happen)."""
    return jnp.append(legal_slots(state), may_advance(state, jobs))


def legal_slots(state: ClusterState) -> Array:
    """Slots that hold a job which fits the free GPUs, bool ``[J]``."""
    gpus = state.window[:, tb.GPUS]
    return (gpus > 0) & (gpus <= jnp.sum(is_free(state), dtype=jnp.int32))


def may_advance(state: ClusterState, jobs: JobTables) -> Array:
    """Void is legal while a job runs or a submission is still to come."""
    running = jnp.any(state.finish_time > state.time)
    return running | (state.arrived < jobs.num_jobs[state.episode])


def all_started(state: ClusterState, jobs: JobTables) -> Array:
    """True once no job waits and none is to come."""
    none_waits = (state.window[0, tb.GPUS] == 0) & (state.head == state.arrived)
    return none_waits & (state.arrived == jobs.num_jobs[state.episode])


def fill_window(state: ClusterState, jobs: JobTables) -> ClusterState:
    """Let the next waiting jobs into the empty slots at the end of the window."""
    num_slots = state.window.shape[0]
    slot = jnp.arange(num_slots)
    occupied = jnp.sum(state.window[:, tb.GPUS] > 0, dtype=jnp.int32)
    candidate = state.head + slot - occupied
    entering = (slot >= occupied) & (candidate < state.arrived)
    rows = jobs.rows[state.episode, jnp.where(entering, candidate, 0)]
    window = jnp.where(entering[:, None], rows, state.window)
    return state._replace(window=window, head=state.head + jnp.sum(entering, dtype=jnp.int32))


def next_instant(state: ClusterState, jobs: JobTables) -> Array:
    """Time of the next submission or finish, whichever comes first."""
    running = state.finish_time > state.time
    earliest_finish = jnp.min(jnp.where(running, state.finish_time, tb.NEVER))
    return jnp.minimum(jobs.submit_time[state.episode, state.arrived], earliest_finish)


def admit_until(state: ClusterState, jobs: JobTables, time: Array) -> ClusterState:
    """Move the clock to ``time``, at most the next instant, and admit what is submitted then."""
    submitted = jobs.submit_time[state.episode, state.arrived] <= time
    batch_end = jobs.batch_end[state.episode, state.arrived]
    return state._replace(time=time, arrived=jnp.where(submitted, batch_end, state.arrived))


def place(state: ClusterState, row: Array) -> tuple[ClusterState, Start]:
    """Start the job of ``row`` where packing puts it; an empty row starts nothing."""
    num_gpus, time = row[tb.GPUS], state.time
    gpus_per_server = state.finish_time.shape[-1]
    bits = placement.to_bits(is_free(state))
    free_count = placement.count_bits(bits)
    counts = placement.pack(free_count, placement.cumulative_free(free_count), num_gpus)
    extra = jnp.sum(counts > 0, dtype=jnp.int32) - fewest_servers(num_gpus, gpus_per_server)
    level = level_of(extra)
    by_level = row[tb.RUN_TIME]
    run = jnp.sum(jnp.where(jnp.arange(by_level.shape[0]) == level, by_level, 0))
    taken = placement.lowest_free(bits, counts, gpus_per_server)
    packed = (num_gpus > 1) & (level == 0)
    start = Start(
        started=num_gpus > 0,
        job=row[tb.JOB],
        num_gpus=num_gpus,
        duration=by_level[0],
        wait=jnp.where(num_gpus > 0, time - row[tb.SUBMIT], 0),
        run=run,
        level=level,
        gpus=placement.to_bits(taken),
        reused=packed & jnp.all(state.last_packed | ~taken),
    )
    after = state._replace(
        finish_time=jnp.where(taken, time + run, state.finish_time),
        last_packed=jnp.where(taken, packed, state.last_packed),
    )
    return after, start


def remove_slot(window: Array, slot: Array) -> Array:
    """Close the gap that the job of ``slot`` leaves; an out-of-range slot changes nothing."""
    moved_up = jnp.concatenate([window[1:], jnp.zeros_like(window[:1])])
    leaves = jnp.arange(window.shape[0]) >= slot
    return jnp.where(leaves[:, None], moved_up, window)


def apply_action(
    state: ClusterState, action: Array, jobs: JobTables
) -> tuple[ClusterState, Start, Array]:
    """Start the job of a slot, or move to the next instant for any other action value.

    Args:
      state: a state that is not finished, or a finished one (which stays as it is).
      action: int32, 0..J-1 starts that slot's job, anything else is void.
      jobs: job tables.

    Returns:
      The next state, what was started, and whether the action was invalid (section 3: an invalid
      action counts as void, or as slot 0 where void is masked).
    """
    num_slots = state.window.shape[0]
    finished = all_started(state, jobs)
    void_legal = may_advance(state, jobs)
    slots = legal_slots(state) & (jnp.arange(num_slots) == action)
    invalid = ~(jnp.any(slots) | ((action == num_slots) & void_legal)) & ~finished
    slots = slots | (invalid & ~void_legal & (jnp.arange(num_slots) == 0))
    starts = jnp.any(slots)

    row = jnp.sum(jnp.where(slots[:, None], state.window, 0), axis=0)
    after, start = place(state, row)
    slot = jnp.where(starts, jnp.argmax(slots), num_slots)
    after = after._replace(window=remove_slot(after.window, slot))
    time = jnp.where(starts | finished, state.time, next_instant(state, jobs))
    after = admit_until(after, jobs, time)
    return fill_window(after, jobs), start, invalid


def advance_to_choice(state: ClusterState, jobs: JobTables) -> ClusterState:
    """Advance while jobs are left but none can start (``auto_advance``)."""

    def blocked(clock: tuple[Array, ...]) -> Array:
        now = resume(clock)
        return ~all_started(now, jobs) & ~jnp.any(legal_slots(now))

    def advance(clock: tuple[Array, ...]) -> tuple[Array, ...]:
        now = resume(clock)
        now = admit_until(now, jobs, next_instant(now, jobs))
        now = fill_window(now, jobs)
        return now.window, now.time, now.head, now.arrived

    def resume(clock: tuple[Array, ...]) -> ClusterState:
        window, time, head, arrived = clock  # the GPUs do not change: kept out of the loop
        return state._replace(window=window, time=time, head=head, arrived=arrived)

    clock = (state.window, state.time, state.head, state.arrived)
    return resume(jax.lax.while_loop(blocked, advance, clock))


def fragmentation(finish_time: Array, time: Array) -> Array:
    """Mean server fragmentation (Eq. 1): ``1 - (sum x)^2 / (G sum x^2)``, 0 for an idle server."""
    left = jnp.maximum(finish_time - time, 0).astype(jnp.float32)
    squares = jnp.sum(left * left, axis=-1)
    even = jnp.sum(left, axis=-1) ** 2 / (left.shape[-1] * jnp.where(squares > 0, squares, 1.0))
    return jnp.mean(jnp.where(squares > 0, 1.0 - even, 0.0))
