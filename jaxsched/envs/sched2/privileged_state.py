"""What a critic of SCHED2 may see while learning: the queue's tail, running work, what comes."""

import jax.numpy as jnp

from jaxsched.envs.sched2.dynamics import ClusterState, finish_times
from jaxsched.envs.sched2.observation import queue_gpus
from jaxsched.envs.sched2.slowdown import NUM_LEVELS
from jaxsched.envs.sched2.tables import JobTables, lookup
from jaxsched.types import Array

COMING = 8
"""Jobs to come that are told, one by one."""
MOST_HOURS = 24.0


def privileged_state(state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
    """The rest of the state, float32 ``[4 + 3 * 8]``.

    Waiting jobs beyond the window and GPUs that all waiting jobs need, per GPU of the cluster;
    work on the GPUs (units of ``time_scale`` per GPU); share of the jobs still to come; and of the
    next eight of these the time until they are submitted, their ideal run times (both in units of
    ``time_scale``, cut at 24), and their GPUs per GPU of a server. Zeros where there are none.
    """
    num_gpus = state.last_job.size
    busy = jnp.maximum(finish_times(state) - state.time, 0)
    work = jnp.sum(busy.astype(jnp.float32)) / num_gpus / time_scale
    count = jobs.num_jobs[state.episode]
    index = jnp.minimum(state.arrived + jnp.arange(COMING, dtype=jnp.int32), jobs.empty_row)
    rows = lookup(jobs.shown, state.episode, index)
    there = index < count
    until = jnp.minimum((rows[:, -1] - state.time) / time_scale, MOST_HOURS)
    duration = jnp.minimum(rows[:, 0] / time_scale, MOST_HOURS)
    gpus = rows[:, NUM_LEVELS] / state.last_job.shape[-1]
    coming = jnp.where(there, jnp.stack([until, duration, gpus]), 0.0)
    totals = jnp.stack(
        [
            (state.arrived - state.head) / num_gpus,
            queue_gpus(state, jobs) / num_gpus,
            work,
            (count - state.arrived) / jnp.maximum(count, 1),
        ]
    )
    return jnp.concatenate([totals, coming.reshape(-1)]).astype(jnp.float32)
