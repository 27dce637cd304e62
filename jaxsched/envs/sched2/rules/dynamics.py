"""The rules of the SCHED2 cluster (specification, section 3), with no word of learning in them.

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` positions in the window. Times are whole seconds
(int32).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.envs.sched2.rules import (
    NEVER,
    NUM_LEVELS,
    JobTables,
    fewest_servers,
    level_of,
    lookup,
    submitted_by,
)
from jaxsched.ops import bit_sets
from jaxsched.ops import packing as placement
from jaxsched.ops.batching import materialise
from jaxsched.ops.reductions import least
from jaxsched.types import Array


class ClusterState(NamedTuple):
    """Everything the future depends on.

    The waiting jobs beyond the window are the table's rows ``head .. arrived - 1``, because jobs
    enter the window in order and leave only from it. One integer per GPU holds the last job put
    there: twice its finish time, plus one if it was multi-GPU at level 0.
    """

    last_job: Array  # int32 [S, G]
    window: Array  # int32 [J], jobs that can be chosen, oldest first; the empty row's index after
    in_window: Array  # int32, how many these are
    time: Array  # int32
    head: Array  # int32, first job that has not entered the window
    arrived: Array  # int32, first job still to be submitted
    episode: Array  # int32, which job table


class Start(NamedTuple):
    """What starting one job did (zeros where no job was started)."""

    started: Array  # bool
    job: Array  # int32, index in the table
    duration: Array  # int32, ideal run time
    wait: Array  # int32
    run: Array  # int32, actual run time
    level: Array  # int32, locality level
    gpus: Array  # uint32 [S], GPUs taken from each server as bit sets (GPU i in bit i)
    reused: Array  # bool, multi-GPU at level 0 on GPUs last used by such jobs


def new_cluster(
    jobs: JobTables, episode: Array, num_servers: int, gpus_per_server: int, window: int
) -> ClusterState:
    """An idle cluster at time 0 with every job submitted at 0 admitted."""
    episode = jnp.asarray(episode, jnp.int32)
    empty = ClusterState(
        last_job=jnp.zeros((num_servers, gpus_per_server), jnp.int32),
        window=jnp.full((window,), jobs.empty_row, jnp.int32),
        in_window=jnp.int32(0),
        time=jnp.int32(0),
        head=jnp.int32(0),
        arrived=jobs.batch_end[episode, 0],
        episode=episode,
    )
    return fill_window(empty, jobs)


def finish_times(state: ClusterState) -> Array:
    """When the last job on each GPU ends or ended, int32 ``[S, G]``; free GPUs are in the past."""
    return state.last_job >> 1


def is_free(state: ClusterState) -> Array:
    """Which GPUs are free now, bool ``[S, G]``."""
    return state.last_job <= 2 * state.time + 1


def free_bits(state: ClusterState) -> Array:
    """Free GPUs of each server as a bit set, uint32 ``[S]``."""
    return placement.to_bits(is_free(state))


def earliest_finish(state: ClusterState) -> Array:
    """When the first of the running jobs ends; ``NEVER`` if none runs."""
    running = jnp.where(state.last_job > 2 * state.time + 1, state.last_job, 2 * NEVER)
    return least(running) >> 1


def window_gpus(state: ClusterState, jobs: JobTables) -> Array:
    """GPUs that each position's job needs, int32 ``[J]``, 0 for an empty position."""
    return position_rows(state, jobs)[:, NUM_LEVELS]


def position_rows(state: ClusterState, jobs: JobTables) -> Array:
    """Per position: run time at each level, GPUs, submit time; int32 ``[J, L + 2]``."""
    return lookup(jobs.shown, state.episode, state.window)


def fits_now(state: ClusterState, num_gpus: Array) -> Array:
    """Which of the gang sizes fit the free GPUs; 0 GPUs, no job, does not count as one."""
    free = jnp.sum(placement.count_bits(free_bits(state)), dtype=jnp.int32)
    return (num_gpus > 0) & (num_gpus <= free)


def legal_positions(state: ClusterState, jobs: JobTables) -> Array:
    """Positions that hold a job which fits the free GPUs, bool ``[J]``."""
    return fits_now(state, window_gpus(state, jobs))


def may_advance(state: ClusterState, jobs: JobTables) -> Array:
    """Void is legal while a job runs or a submission is still to come."""
    return next_instant(state, jobs) < NEVER


def legal_actions(state: ClusterState, jobs: JobTables) -> Array:
    """Legal positions, then void (also where nothing else is left to do); bool ``[J + 1]``."""
    positions = legal_positions(state, jobs)
    return bit_sets.append(positions, may_advance(state, jobs) | ~jnp.any(positions))


def all_started(state: ClusterState, jobs: JobTables) -> Array:
    """True once no job waits and none is to come."""
    return (state.in_window == 0) & (state.arrived == jobs.num_jobs[state.episode])


def next_instant(state: ClusterState, jobs: JobTables) -> Array:
    """Time of the next submission or finish, whichever comes first; ``NEVER`` if none is left."""
    submission = lookup(jobs.submit_time, state.episode, state.arrived)
    return jnp.minimum(submission, earliest_finish(state))


def fill_window(state: ClusterState, jobs: JobTables) -> ClusterState:
    """Let the next waiting jobs into the empty positions at the end of the window."""
    position = jnp.arange(state.window.shape[0], dtype=jnp.int32)
    candidate = state.head + position - state.in_window
    entering = (position >= state.in_window) & (candidate < state.arrived)
    head = jnp.minimum(state.head + state.window.shape[0] - state.in_window, state.arrived)
    return state._replace(
        window=jnp.where(entering, candidate, state.window),
        in_window=state.in_window + head - state.head,
        head=head,
    )


def admit_until(state: ClusterState, jobs: JobTables, time: Array) -> ClusterState:
    """Move the clock to ``time``, at most the next instant, and admit what is submitted then."""
    submitted = lookup(jobs.submit_time, state.episode, state.arrived) <= time
    batch_end = lookup(jobs.batch_end, state.episode, state.arrived)
    arrived = jnp.where(submitted, batch_end, state.arrived)
    return fill_window(state._replace(time=time, arrived=arrived), jobs)


def place(state: ClusterState, jobs: JobTables, job: Array) -> tuple[ClusterState, Start]:
    """Start ``job`` where packing puts it; the empty row starts nothing."""
    num_servers, gpus_per_server = state.last_job.shape
    row = lookup(jobs.shown, state.episode, job)
    by_level, num_gpus, submit = row[:NUM_LEVELS], row[NUM_LEVELS], row[NUM_LEVELS + 1]
    started = job != jobs.empty_row

    bits = free_bits(state)
    free_count = placement.count_bits(bits)
    packing = placement.pack_gang(free_count, num_gpus, gpus_per_server)
    level = level_of(packing.num_servers - fewest_servers(num_gpus, gpus_per_server))
    chosen = jnp.arange(by_level.shape[0]) == level
    run = jnp.sum(jnp.where(chosen, by_level, 0), dtype=jnp.int32)
    taken = placement.taken_gpus(packing, is_free(state), bits)
    packed = (num_gpus > 1) & (level == 0)
    start = Start(
        started=started,
        job=job,
        duration=by_level[0],
        wait=jnp.where(started, state.time - submit, 0),
        run=run,
        level=level,
        gpus=placement.to_bits(taken),
        reused=packed & jnp.all((state.last_job & 1 == 1) | ~taken),
    )
    last_job = 2 * jnp.minimum(state.time + run, NEVER) + packed  # the clock ends there
    return state._replace(last_job=jnp.where(taken, last_job, state.last_job)), start


def close_gap(window: Array, position: Array, empty_row: int) -> Array:
    """Close the gap that the job at ``position`` leaves; out of range nothing changes."""
    moved_up = jnp.append(window[1:], jnp.int32(empty_row))
    return jnp.where(jnp.arange(window.shape[0]) >= position, moved_up, window)


def apply_action(
    state: ClusterState, action: Array, jobs: JobTables
) -> tuple[ClusterState, Start, Array]:
    """Start the job at a position, or move to the next instant for any other action value.

    Args:
      state: a state that is not finished, or a finished one (which stays as it is).
      action: int32, 0..J-1 starts that position's job, anything else is void.
      jobs: job tables.

    Returns:
      The next state, what was started, and whether the action was invalid (section 3: an invalid
      action counts as void, or as position 0 where void is masked).
    """
    num_positions = state.window.shape[0]
    instant = next_instant(state, jobs)
    void_legal = instant < NEVER
    oldest_fits = fits_now(state, lookup(jobs.num_gpus, state.episode, state.window[0]))
    finished = all_started(state, jobs) | ~(void_legal | oldest_fits)
    asked = state.window[jnp.clip(action, 0, num_positions - 1)]
    fits = fits_now(state, lookup(jobs.num_gpus, state.episode, asked))
    starts = (action >= 0) & (action < num_positions) & fits
    invalid = ~(starts | ((action == num_positions) & void_legal)) & ~finished
    first = invalid & ~void_legal
    position = jnp.where(starts, action, jnp.where(first, 0, num_positions))
    job = jnp.where(starts, asked, jnp.where(first, state.window[0], jobs.empty_row))
    starts |= first

    placed, start = place(state, jobs, job)
    placed = placed._replace(
        window=close_gap(state.window, position, jobs.empty_row),
        in_window=state.in_window - starts,
    )
    time = materialise(jnp.where(starts | finished, state.time, instant))
    return admit_until(placed, jobs, time), start, invalid


def advance_to_choice(state: ClusterState, jobs: JobTables) -> ClusterState:
    """Advance while jobs are left but none can start (``auto_advance``).

    Behind a full window submissions change nothing that can start, so the clock goes from finish
    to finish and the jobs that were submitted meanwhile are admitted in one go at the end.
    """
    num_positions = state.window.shape[0]
    names = ("window", "in_window", "time", "head", "arrived")  # the rest does not change

    def clock_of(now: ClusterState) -> tuple[Array, ...]:
        blocked = ~all_started(now, jobs) & ~jnp.any(legal_positions(now, jobs))
        return (blocked, *(getattr(now, name) for name in names))

    def advance(clock: tuple[Array, ...]) -> tuple[Array, ...]:
        now = state._replace(**dict(zip(names, clock[1:], strict=True)))
        full = now.in_window == num_positions
        instant = jnp.where(full, earliest_finish(now), next_instant(now, jobs))
        after = admit_until(now, jobs, instant)
        arrived = jnp.where(full, now.arrived, after.arrived)
        return clock_of(after._replace(arrived=arrived))

    clock = jax.lax.while_loop(lambda clock: clock[0], advance, clock_of(state))
    after = state._replace(**dict(zip(names, clock[1:], strict=True)))
    arrived = jnp.maximum(after.arrived, submitted_by(jobs, state.episode, after.time))
    return after._replace(arrived=arrived)


def fragmentation(state: ClusterState) -> Array:
    """Mean over the servers of ``1 - (sum x)^2 / (G sum x^2)``, 0 for an idle one (Eq. 1).

    ``x`` are the remaining times of a server's GPUs.
    """
    left = jnp.maximum(finish_times(state) - state.time, 0).astype(jnp.float32)
    squares = jnp.sum(left * left, axis=-1)
    even = jnp.sum(left, axis=-1) ** 2 / (left.shape[-1] * jnp.where(squares > 0, squares, 1.0))
    return jnp.mean(jnp.where(squares > 0, 1.0 - even, 0.0))
