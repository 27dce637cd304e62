"""What a policy cannot know of an episode, drawn anew: later arrivals and all durations.

Durations are hidden until a job finishes. That of a pending job is drawn from all jobs of the
episode, that of a running one from those that would have kept it running until now. Axes: ``J``
jobs of the longest episode, ``R`` running jobs.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.das.simulator.dynamics import State
from jaxsched.envs.das.simulator.execution import Running, ceil_quotient
from jaxsched.envs.das.simulator.tables import (
    BY_EPISODE,
    DURATION,
    HALF,
    SUBMIT,
    Params,
    pick,
    submitted_by,
)
from jaxsched.envs.das.simulator.window import window_of
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

LATEST_DRAWN_S = 2**30 - 1


def redrawn(key: PRNGKey, params: Params, state: State) -> tuple[State, Params]:
    """The state with other jobs to come and other durations, and its episode alone."""
    arrival_key, pending_key, running_key, window_key = jax.random.split(key, 4)
    episode, most = state.episode, params.max_jobs
    count = pick(params.num_jobs, episode)
    places = jnp.append(params.places, most)
    real = places < count
    index = jnp.where(real, pick(params.offset, episode) + places, params.rows.shape[0] - 1)
    own = params.rows[index]
    submit = jnp.where(real, own[:, SUBMIT] - pick(params.first, episode), own[:, SUBMIT])
    known = submitted_by(params, episode, state.time, state.submitted)
    submit, source = redraw_arrivals(arrival_key, submit, known, count, state.time, LATEST_DRAWN_S)
    durations = jnp.sort(jnp.where(real, own[:, DURATION], jnp.iinfo(jnp.int32).max))
    running, ends_with = _redrawn_running(running_key, state, own[:, DURATION], durations, count)

    drawn = jax.random.randint(pending_key, places.shape, 0, jnp.maximum(count, 1))
    hidden = _pending(state, most) & (places < known)
    duration = jnp.where(hidden, durations[drawn], own[source, DURATION])
    at = jnp.where(running.job >= 0, running.job, most + 1)
    duration = duration.at[at].set(ends_with, mode="drop")
    rows = own[source].at[:, SUBMIT].set(submit).at[:, DURATION].set(duration)
    alone = params._replace(
        rows=rows,
        submitted_sum=_sums(jnp.where(real, submit, 0)),
        offset=jnp.zeros(1, jnp.int32),
        num_jobs=count[None],
        first=jnp.zeros(1, jnp.int32),
        **{name: pick(getattr(params, name), episode)[None] for name in BY_EPISODE},
    )
    zero = jnp.int32(0)
    state = state._replace(
        running=running, window=window_of(alone, zero, state.window.job), episode=zero
    )
    if state.draws is not None:
        state = state._replace(draws=state.draws._replace(key=window_key))
    return state, alone


def _pending(state: State, most: int) -> Array:
    """Which of the submitted jobs have not started, bool ``[J + 1]``; of later ones anything."""
    places = jnp.arange(most + 1, dtype=jnp.int32)
    if state.draws is not None:
        return jnp.append(bits.to_flags(state.draws.pending)[:most], jnp.bool_(False))
    in_window = jnp.zeros(most + 1, bool).at[state.window.job].set(True, mode="drop")
    return in_window | (places >= state.entered)


def _redrawn_running(
    key: PRNGKey, state: State, own: Array, durations: Array, count: Array
) -> tuple[Running, Array]:
    """The running table with other ends, and what its jobs' durations are then (s, ``[R]``).

    Args:
      key: of the draw.
      state: the state.
      own: durations of the episode's jobs, ``[J + 1]``.
      durations: the same in order.
      count: jobs of the episode.
    """
    running = state.running
    runs = running.job >= 0
    before = own[jnp.maximum(running.job, 0)]
    worked = 100 * before - running.left + running.speed * (state.time - state.since)
    shorter = jnp.searchsorted(durations, worked // 100, side="right").astype(jnp.int32)
    share = jax.random.uniform(key, shorter.shape)
    longer = count - shorter
    chosen = shorter + (share * longer).astype(jnp.int32)
    after = durations[jnp.clip(chosen, 0, jnp.maximum(count - 1, 0))]
    after = jnp.where(runs & (longer > 0), after, before)
    left = running.left + 100 * (after - before)
    speed = jnp.maximum(running.speed, 1)
    end = state.since + ceil_quotient(left, speed, speed.astype(jnp.float32))
    moved = running._replace(
        left=jnp.where(runs, left, running.left), end=jnp.where(runs, end, running.end)
    )
    return moved, after


def _sums(submit: Array) -> Array:
    """``Params.submitted_sum`` of an episode's submission times."""
    halves = jnp.stack([submit >> HALF, submit & (2**HALF - 1)], axis=-1)
    high, low = jnp.cumsum(halves, axis=0, dtype=jnp.int32).T
    sums = jnp.stack([high + (low >> HALF), low & (2**HALF - 1)], axis=-1)
    return jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])
