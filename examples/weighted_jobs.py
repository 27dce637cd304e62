"""Dynamics of a small scheduling problem: whose turn is it on one of a few identical GPUs?

Jobs arrive over time, each with a duration and a weight, and occupy one GPU to their end. Whenever
a GPU is free and a job waits, one of the oldest ``J`` waiting jobs starts at once. What counts is
the weighted completion time, the sum of w_j (C_j - r_j): in the three-field notation of Graham et
al. (1979) this is P | r_j, online | sum of w_j F_j. On one GPU, with all jobs there at time 0,
starting the largest w_j / p_j first is optimal (Smith, 1956).

Axes: ``K`` tables, ``n`` jobs of the longest, ``M`` GPUs, ``J`` positions in the window. Times are
whole seconds, int32.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.jobs import NO_SUBMISSION
from jaxsched.types import Array


class Jobs(NamedTuple):
    """Tables of jobs; rows beyond a table's last job are submitted at 2**30, which is never."""

    submit: Array  # int32 [K, n]
    duration: Array  # int32 [K, n]
    weight: Array  # int32 [K, n]


class State(NamedTuple):
    """Where one episode stands; the clock is at a decision, or the episode has ended."""

    episode: Array  # int32, row of the tables
    clock: Array  # int32
    free_at: Array  # int32 [M], when each GPU is free
    started: Array  # bool [n]


class Start(NamedTuple):
    """A job that started, and what the others wait; row -1 where the episode had ended before."""

    job: Array  # int32
    submit: Array  # int32
    start: Array  # int32
    finish: Array  # int32
    weight: Array  # int32
    waited: Array  # int32, seconds that jobs wait until the next decision, times their weights


def first_state(jobs: Jobs, episode: Array, num_gpus: int) -> State:
    """All GPUs free, the clock at the first submission."""
    free_at = jnp.zeros(num_gpus, jnp.int32)
    started = jobs.submit[episode] >= NO_SUBMISSION  # rows without a job have nothing to start
    return State(episode, jobs.submit[episode, 0], free_at, started)


def ended(state: State) -> Array:
    """Whether every job has started, bool scalar: their ends are known then."""
    return jnp.all(state.started)


def window(jobs: Jobs, state: State, num_positions: int) -> tuple[Array, Array]:
    """Rows of the oldest waiting jobs, int32 ``[J]``, and whether there is one, bool ``[J]``."""
    waiting = ~state.started & (jobs.submit[state.episode] <= state.clock)
    rank = jnp.cumsum(waiting) - 1
    here = waiting & (rank == jnp.arange(num_positions)[:, None])  # [J, n]
    return jnp.argmax(here, axis=-1).astype(jnp.int32), jnp.any(here, axis=-1)


def start_job(jobs: Jobs, state: State, position: Array, num_positions: int) -> tuple[State, Start]:
    """Start the job at a position on the GPU that is free first; where none is, the oldest job.

    Then the clock goes to the next moment at which a GPU is free and a job waits.
    """
    rows, occupied = window(jobs, state, num_positions)
    position = jnp.clip(position, 0, num_positions - 1)
    job = rows[jnp.where(occupied[position], position, 0)]
    over = ended(state)
    submit, duration, weight = (column[state.episode, job] for column in jobs)
    finish = state.clock + duration
    free_at = state.free_at.at[jnp.argmin(state.free_at)].set(finish)
    started = state.started.at[job].set(True)
    next_job = jnp.min(jnp.where(started, NO_SUBMISSION, jobs.submit[state.episode]))
    ready = jnp.maximum(jnp.min(free_at), next_job)
    clock = jnp.where(jnp.all(started), state.clock, jnp.maximum(state.clock, ready))
    since = jnp.maximum(jobs.submit[state.episode], state.clock)
    waits = jnp.where(started, 0, jnp.maximum(clock - since, 0))
    waited = jnp.sum(waits * jobs.weight[state.episode])
    following = State(
        state.episode,
        jnp.where(over, state.clock, clock),
        jnp.where(over, state.free_at, free_at),
        jnp.where(over, state.started, started),
    )
    row = jnp.where(over, -1, job)
    return following, Start(row, submit, state.clock, finish, weight, waited)
