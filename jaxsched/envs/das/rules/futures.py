"""What a policy cannot know of an episode, drawn anew: later arrivals and all durations.

Durations are hidden until a job finishes. That of a pending job is drawn from all jobs of the
episode, that of a running one from those that would have kept it running until now; where groups
are known (``observation.py``), from jobs of the same group only. Axes: ``J`` jobs of the longest
episode, ``R`` running jobs.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.das.rules.dynamics import State, still_pending, window_of
from jaxsched.envs.das.rules.machines import Running, ceil_quotient
from jaxsched.envs.das.rules.tables import (
    BY_EPISODE,
    DURATION,
    SUBMIT,
    Params,
    carried,
    parts_of,
    pick,
    submitted_by,
)
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

LATEST_DRAWN_S = 2**30 - 1


def resampled(key: PRNGKey, params: Params, state: State) -> tuple[State, Params]:
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
    owners = None if params.owners is None else params.owners[index]
    hidden = still_pending(state, most) & (places < known)
    if owners is None:
        after = _longer(running_key, state, own[:, DURATION], durations, count)
        drawn = jax.random.randint(pending_key, places.shape, 0, jnp.maximum(count, 1), jnp.int32)
        guess = durations[drawn]
    else:
        after = _longer_of_group(running_key, state, own[:, DURATION], owners[:, 0], real)
        guess = own[_peers(pending_key, owners[:, 0]), DURATION]
    running, ends_with = _redrawn_running(state, own[:, DURATION], after)
    duration = jnp.where(hidden, guess, own[source, DURATION])
    at = jnp.where(running.job >= 0, running.job, most + 1)
    duration = duration.at[at].set(ends_with, mode="drop")
    rows = own[source].at[:, SUBMIT].set(submit).at[:, DURATION].set(duration)
    alone = params._replace(
        rows=rows,
        submitted_sum=sums_of(jnp.where(real, submit, 0), params.submitted_sum.shape[-1]),
        offset=jnp.zeros(1, jnp.int32),
        num_jobs=count[None],
        first=jnp.zeros(1, jnp.int32),
        owners=None if owners is None else owners[source],
        **{name: pick(getattr(params, name), episode)[None] for name in BY_EPISODE},
    )
    zero = jnp.int32(0)
    state = state._replace(
        running=running, window=window_of(alone, zero, state.window.job), episode=zero
    )
    if state.draws is not None:
        state = state._replace(draws=state.draws._replace(key=window_key))
    return state, alone


def _worked(state: State, own: Array) -> Array:
    """How long running jobs would have run at full speed until now (s, ``[R]``)."""
    running = state.running
    before = own[jnp.maximum(running.job, 0)]
    done = 100 * before - running.left + running.speed * (state.time - state.since)
    return done // 100


def _longer(key: PRNGKey, state: State, own: Array, durations: Array, count: Array) -> Array:
    """A duration for each running job, of all that are longer than it has worked (s, ``[R]``).

    Args:
      key: of the draw.
      state: the state.
      own: durations of the episode's jobs, ``[J + 1]``.
      durations: the same in order.
      count: jobs of the episode.
    """
    worked = _worked(state, own)
    shorter = jnp.searchsorted(durations, worked, side="right").astype(jnp.int32)
    share = jax.random.uniform(key, shorter.shape, jnp.float32)
    longer = count - shorter
    chosen = shorter + (share * longer).astype(jnp.int32)
    after = durations[jnp.clip(chosen, 0, jnp.maximum(count - 1, 0))]
    return jnp.where(longer > 0, after, own[jnp.maximum(state.running.job, 0)])


def _longer_of_group(key: PRNGKey, state: State, own: Array, group: Array, real: Array) -> Array:
    """The same of jobs of the same group, int32 ``[R]``; ``group``, ``real`` are ``[J + 1]``."""
    job = jnp.maximum(state.running.job, 0)
    longer = own[None, :] > _worked(state, own)[:, None]
    fits = longer & (group[None, :] == group[job][:, None]) & real[None, :]
    until = jnp.cumsum(fits, axis=-1, dtype=jnp.int32)
    share = jax.random.uniform(key, job.shape, jnp.float32)
    wanted = (share * until[:, -1]).astype(jnp.int32)
    chosen = jnp.argmax(until > wanted[:, None], axis=-1)
    return jnp.where(until[:, -1] > 0, own[chosen], own[job])


def _peers(key: PRNGKey, group: Array) -> Array:
    """For each job one of its group, itself included, int32 ``[J + 1]``."""
    order = jnp.argsort(group, stable=True)
    first, last = (jnp.searchsorted(group[order], group, side=side) for side in ("left", "right"))
    share = jax.random.uniform(key, group.shape, jnp.float32)
    return order[first + (share * (last - first)).astype(jnp.int32)]


def _redrawn_running(state: State, own: Array, after: Array) -> tuple[Running, Array]:
    """The running table with other durations ``after`` (s, ``[R]``), and what these are then."""
    running = state.running
    runs = running.job >= 0
    before = own[jnp.maximum(running.job, 0)]
    after = jnp.where(runs, after, before)
    left = running.left + 100 * (after - before)
    speed = jnp.maximum(running.speed, 1)
    end = state.since + ceil_quotient(left, speed, speed.astype(jnp.float32))
    moved = running._replace(
        left=jnp.where(runs, left, running.left), end=jnp.where(runs, end, running.end)
    )
    return moved, after


def sums_of(submit: Array, number: int) -> Array:
    """``Params.submitted_sum`` of an episode's submission times, in so many parts."""
    parts = jnp.cumsum(parts_of(submit, number), axis=0, dtype=jnp.int32)
    sums = jnp.stack(carried(parts), axis=-1)
    return jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])
