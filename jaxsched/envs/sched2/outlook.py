"""What a planner would ask of each waiting job: may it start well now, and if not, when.

Optional entries of the observation (``Sched2.outlook``), a variant of the paper. Per position of
the window, in this order and 0 where the position is empty:

    duration      ideal run time / time_scale
    wait          / time_scale
    until         seconds until the job could start at level 0 if nothing else started
                  (at the latest) / time_scale; 0 where it could now
    lost          seconds that starting it now would add to its run time / time_scale
    fits          1 where it fits the free GPUs
    level0        1 where it would start at level 0 now
    split         1 where it fits, but would not start at level 0
    demand        GPUs / G
    left_over     GPUs that would stay free on the server that takes it (the last one), / G
    sensitivity   its model's slowdown at level 1, less 1
    effectiveness if started now, 0 where it does not fit

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` positions.
"""

import jax.numpy as jnp

from jaxsched.envs.sched2.dynamics import (
    ClusterState,
    finish_times,
    fits_now,
    is_free,
    position_rows,
)
from jaxsched.envs.sched2.observation import placement_now, start_now
from jaxsched.envs.sched2.slowdown import NUM_LEVELS, SLOWDOWN_TENTHS
from jaxsched.envs.sched2.tables import NEVER, JobTables, lookup
from jaxsched.types import Array

TIMES = ("duration", "wait", "until", "lost")
OUTLOOK = (
    *TIMES,
    *("fits", "level0", "split", "demand", "left_over", "sensitivity", "effectiveness"),
)


def outlook_names(window: int) -> list[str]:
    """A readable name for each entry, in order."""
    return [f"position{q}.outlook.{name}" for q in range(window) for name in OUTLOOK]


def outlook(state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
    """The entries of all positions, float32 ``[J * 11]``."""
    gpus_per_server = state.last_job.shape[-1]
    rows = position_rows(state, jobs)
    duration, gpus, submit = rows[:, 0], rows[:, NUM_LEVELS], rows[:, NUM_LEVELS + 1]
    level, run = placement_now(state, jobs)
    fits = fits_now(state, gpus)
    level0 = fits & (level == 0)
    wait = jnp.maximum(state.time - submit, 0)
    until = jnp.where(level0, 0, until_level0(state, gpus))
    model = lookup(jobs.model, state.episode, state.window)
    sensitivity = jnp.asarray(SLOWDOWN_TENTHS)[model, 1] / 10.0 - 1.0
    seconds = [duration, wait, until, jnp.where(fits, run - duration, 0)]
    others = [
        *(fits, level0, fits & ~level0),
        gpus / gpus_per_server,
        left_over(state, gpus) / gpus_per_server,
        sensitivity,
        start_now(state, jobs)[:, 1],
    ]
    columns = [x.astype(jnp.float32) / time_scale for x in seconds]
    columns += [x.astype(jnp.float32) for x in others]
    entries = jnp.where((gpus > 0)[:, None], jnp.stack(columns, axis=-1), 0.0)
    return entries.reshape(-1).astype(jnp.float32)


def until_level0(state: ClusterState, gpus: Array) -> Array:
    """Seconds until each gang could start at level 0 if nothing else started, int32 ``[J]``.

    Exact for gangs of at most one server; for larger ones the time until as many servers are
    entirely free, which is the latest.
    """
    num_servers, gpus_per_server = state.last_job.shape
    remaining = jnp.maximum(finish_times(state) - state.time, 0)
    place = _ranks(remaining)[..., None] == jnp.arange(gpus_per_server)
    by_count = jnp.where(place, remaining[..., None], NEVER)  # when 1, 2, ... GPUs are free,
    first = jnp.min(by_count, axis=(0, 1))  # [G]: on the quickest server
    whole = jnp.max(remaining, axis=-1)
    rank = _ranks(whole)  # [S]: servers that are entirely free before this one
    servers = -(-gpus // gpus_per_server)
    alone = jnp.where(gpus[:, None] == jnp.arange(1, gpus_per_server + 1), first, 0)
    several = jnp.where(rank[None, :] + 1 == servers[:, None], whole, 0)
    return jnp.where(
        gpus <= gpus_per_server,
        jnp.sum(alone, axis=-1, dtype=jnp.int32),
        jnp.sum(several, axis=-1, dtype=jnp.int32),
    )


def left_over(state: ClusterState, gpus: Array) -> Array:
    """Free GPUs that stay on the tightest server that takes the rest of each gang, int32 ``[J]``.

    The rest is what does not fill a server; 0 where there is none, G where no server has as many.
    """
    gpus_per_server = state.last_job.shape[-1]
    free = jnp.sum(is_free(state), axis=-1, dtype=jnp.int32)
    rest = gpus % gpus_per_server
    spare = free[None, :] - rest[:, None]
    tightest = jnp.min(jnp.where(spare >= 0, spare, gpus_per_server), axis=-1)
    return jnp.where(rest > 0, tightest, 0)


def _ranks(values: Array) -> Array:
    """How many of a row come before each of its values, ties by index; int32, as ``values``.

    By comparing pairs, which is faster than sorting short rows.
    """
    place = jnp.arange(values.shape[-1])
    one, other = values[..., :, None], values[..., None, :]
    before = (other < one) | ((other == one) & (place < place[:, None]))
    return jnp.sum(before, axis=-1, dtype=jnp.int32)
