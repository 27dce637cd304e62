"""Resampling of what a policy cannot know: later arrivals, run times of unfinished jobs.

Later jobs are a bootstrap of the table's. A waiting or running job gets the run time of another
job, longer than it has run: one of the same owner and number of GPUs, where
the table has at least ``ENOUGH`` of those, else of its number of GPUs, of its owner, or any.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs (row ``n`` of a table stands for no job),
``H`` scopes of a job (``trace_replay.history``).
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.dynamics import State
from jaxsched.envs.cluster.rules.tables import Jobs
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.trace_replay import Cluster
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.gpu_types import run_time_at, work_within
from jaxsched.trace_replay.tables import NEVER
from jaxsched.types import Array, PRNGKey

ENOUGH = 4
"""Least number of other jobs in a scope; fewer would almost reveal the run time."""
LATEST_S = 2**30 - 1  # so that the sum of two times fits in int32


def resampled(
    key: PRNGKey, cluster: Cluster, jobs: Jobs, state: State, restart_s: Array
) -> tuple[State, Jobs]:
    """The state with resampled ends of running jobs, and its table alone, resampled.

    Args:
      key: of the draw.
      cluster: the cluster.
      jobs: the stack of tables.
      state: a state between two steps.
      restart_s: seconds of work that a suspension adds.
    """
    arrival_key, time_key = jax.random.split(key)
    own = jobs.of_episode(state.episode)
    submit, source = redraw_arrivals(
        arrival_key, own.submit, state.arrived, own.num_jobs, state.time, LATEST_S
    )
    end = ends(state, own)
    hidden = unended(state, end)
    speed = speeds_running(cluster, state, own)
    drawn = like_others(time_key, own, seconds_run(state, own, end, restart_s, speed))
    more = jnp.where(hidden, drawn - own.duration, 0)
    later_s = _later(own, more, speed)
    moved = end + later_s  # an overflow is negative
    more = jnp.where((end > state.time) & ((moved <= state.time) | (moved == NEVER)), 0, more)
    later_s = _later(own, more, speed)

    duration = own.duration[source] + more
    num_gpus = own.num_gpus[source]
    real = jnp.arange(jobs.empty_row + 1) < own.num_jobs
    scopes = own.known.scopes[source]
    number, traits = in_order(scopes, submit, num_gpus, real)
    steps = jnp.where(real, hs.logarithm(duration), 0)
    table = own._replace(
        submit=submit,
        duration=duration,
        num_gpus=num_gpus,
        group=own.group[source],
        priority=own.priority[source],
        f1=_f1(submit, duration, num_gpus) if own.f1 is not None else None,
        crossing=own.crossing[source],
        typed=jax.tree.map(lambda column: column[source], own.typed),
        demand=None if own.demand is None else own.demand[source],
        known=hs.Known(scopes, number, traits, steps),
    )
    busy = state.free_from > state.time
    after = state._replace(
        episode=jnp.int32(0), free_from=state.free_from + jnp.where(busy, later_s[state.job], 0)
    )
    if state.accounts is not None:
        account = dynamics.account_of(state, jnp.arange(jobs.empty_row + 1))
        later = duration - own.duration  # includes later jobs
        account = account._replace(
            remaining=account.remaining + later,
            end=account.end + jnp.where(account.end > state.time, more, 0),
        )
        after = after._replace(accounts=jnp.stack(account, axis=1))
    return after, table.alone()


def _later(own: Jobs, more: Array, speed: Array | None) -> Array:
    """Seconds by which ``more`` work delays ends, int32 ``[n + 1]``."""
    if speed is None:
        return more
    return run_time_at(own.duration + more, speed) - run_time_at(own.duration, speed)


def ends(state: State, own: Jobs) -> Array:
    """End times of running jobs, 0 for others; int32 ``[n + 1]``."""
    busy = state.free_from > state.time
    row = jnp.where(busy, state.job, own.empty_row)
    return jnp.zeros(own.empty_row + 1, jnp.int32).at[row].max(jnp.where(busy, state.free_from, 0))


def unended(state: State, end: Array) -> Array:
    """Jobs that are admitted and have not ended, bool ``[n + 1]``."""
    row = jnp.arange(end.shape[0])
    inside = jnp.zeros(end.shape, bool).at[state.window].set(True)
    return (inside | (row >= state.entered) | (end > state.time)) & (row < state.arrived)


def speeds_running(cluster: Cluster, state: State, own: Jobs) -> Array | None:
    """The speed of each running job on its servers, int32 ``[n + 1]``; else undefined.

    None where GPUs have no types.
    """
    if own.typed is None:
        return None
    busy = state.free_from > state.time
    row = jnp.where(busy, state.job, own.empty_row)
    of_server = jnp.array(cluster.server_kinds, jnp.int32)[None, :]
    kind = jnp.zeros(own.empty_row + 1, jnp.int32).at[row].max(jnp.where(busy, of_server, 0))
    return jnp.take_along_axis(own.typed.speed, kind[:, None], axis=1)[:, 0]


def seconds_run(
    state: State, own: Jobs, end: Array, restart_s: Array, speed: Array | None
) -> Array:
    """Seconds of work that each job has done, less than its run time, int32 ``[n + 1]``.

    With suspension: done by now or by the last suspension, whichever is more. Where GPUs have types
    (``speed``), in seconds of the run time, rounded down.
    """
    runs = end > state.time
    if speed is not None:
        run = jnp.where(runs, state.time - end + run_time_at(own.duration, speed), 0)
        return work_within(run, speed, NEVER - 1)
    if state.accounts is None:
        return jnp.where(runs, state.time - end + own.duration, 0)
    account = dynamics.account_of(state, jnp.arange(end.shape[0]))
    run = jnp.where(runs, state.time - account.last_start, 0)
    again = account.preemptions * restart_s
    before = jnp.where(account.preemptions > 0, account.served - again + restart_s, 0)
    return jnp.maximum(account.served + run - again, before)


def like_others(key: PRNGKey, own: Jobs, least: Array) -> Array:
    """Draw each job's run time from longer jobs of its narrowest scope with enough of them.

    If no scope has enough, draw from all longer jobs of the table, itself included.

    Args:
      key: of the draw.
      own: the table; results of jobs no longer than ``least`` are undefined.
      least: seconds ``[n + 1]``.
    """
    shape = own.known.scopes.T.shape  # [H, n + 1]
    scope = own.known.scopes.T.reshape(-1)  # columns have disjoint numbers
    first, order = _longer(scope, jnp.tile(own.duration, shape[0]), jnp.tile(least, shape[0]))
    last = jnp.searchsorted(scope[order], scope, side="right").astype(jnp.int32)
    place = jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0], dtype=jnp.int32))
    first, last, place = (each.reshape(shape) for each in (first, last, place))

    others = last - first - 1
    enough = others >= ENOUGH
    narrowest = jnp.where(enough.any(axis=0), shape[0] - 1 - jnp.argmax(enough[::-1], axis=0), 0)

    def of_narrowest(values: Array) -> Array:
        return jnp.take_along_axis(values, narrowest[None], axis=0)[0]

    first, place = of_narrowest(first), of_narrowest(place)
    without_own = of_narrowest(enough)
    count = of_narrowest(others) + ~without_own
    share = jax.random.uniform(key, count.shape, jnp.float32)
    chosen = first + jnp.minimum((share * count).astype(jnp.int32), count - 1)
    chosen += without_own & (chosen >= place)
    return own.duration[order[chosen.clip(0, order.shape[0] - 1)] % shape[1]]


def _longer(scope: Array, duration: Array, least: Array) -> tuple[Array, Array]:
    """Jobs sorted by scope and duration, and where those longer than ``least`` begin."""
    index = jnp.arange(scope.shape[0], dtype=jnp.int32)
    asks = jnp.repeat(jnp.arange(2, dtype=jnp.int32), scope.shape[0])  # after equal durations
    both = (jnp.tile(scope, 2), jnp.concatenate([duration, least]), asks, jnp.tile(index, 2))
    _, _, asks, index = jax.lax.sort(both, num_keys=3)
    is_job = asks == 0
    until = jnp.cumsum(is_job, dtype=jnp.int32)
    nowhere = scope.shape[0]
    empty = jnp.zeros(scope.shape, jnp.int32)
    first = empty.at[jnp.where(is_job, nowhere, index)].set(until, mode="drop")
    order = empty.at[jnp.where(is_job, until - 1, nowhere)].set(index, mode="drop")
    return first, order


def in_order(scopes: Array, submit: Array, num_gpus: Array, real: Array) -> tuple[Array, Array]:
    """``Known.number`` and ``Known.traits`` of jobs in order of submission.

    Args:
      scopes: rows of each job's scopes ``[n + 1, H]``.
      submit: seconds ``[n + 1]``.
      num_gpus: ``[n + 1]``.
      real: bool ``[n + 1]``, rows that hold a job; the others get zeros.
    """
    shape = scopes.T.shape
    scope = scopes.T.reshape(-1)
    order = jnp.argsort(scope, stable=True)
    place = jnp.arange(scope.shape[0], dtype=jnp.int32)
    sorted_, time = scope[order], jnp.tile(submit, shape[0])[order]
    first = jnp.append(True, sorted_[1:] != sorted_[:-1])
    begun = jax.lax.cummax(jnp.where(first, place, 0))
    since = jnp.where(first, 2**30 - 1, time - jnp.roll(time, 1))
    number, gap = (
        jnp.zeros_like(place).at[order].set(each).reshape(shape) for each in (place - begun, since)
    )
    traits = hs.logarithm(jnp.concatenate([num_gpus[None], number + 1, gap + 1]).T)
    return jnp.where(real[:, None], number.T, 0), jnp.where(real[:, None], traits, 0)


def _f1(submit: Array, duration: Array, num_gpus: Array) -> Array:
    """Ranks in the order of F1, in single precision; int32 ``[n + 1]``."""
    since, run = (jnp.log10(jnp.maximum(each, 0.1)) for each in (submit, duration))
    order = jnp.argsort(run * num_gpus + 870 * since, stable=True)
    number = jnp.arange(order.shape[0], dtype=jnp.int32)
    return jnp.zeros_like(number).at[order].set(number)
