"""What a critic of MLFS may see in training: all work left, deadlines, and what comes when.

Axes: ``A`` places for active jobs, ``J`` jobs of the longest episode.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.simulator.cluster import FULL, Cluster
from jaxsched.envs.mlfs.simulator.state import State
from jaxsched.envs.mlfs.simulator.tables import SCALARS, Params, index_of
from jaxsched.types import Array

WITHIN_MIN = np.array([60, 240, 960])
"""Times from now until which deadlines pass and jobs come."""
JOBS = 64.0
DAY_MIN = 1440.0


def privileged_state(cluster: Cluster, state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[6 + 3 * 3]``.

    Active jobs and jobs that wait behind the window (per 64), the work of both that is left (days
    of all GPUs at full speed), active jobs that are past their deadlines (per 64), and the share of
    the jobs still to come. And within 1, 4 and 16 hours: active jobs' deadlines that pass, jobs
    that come (per 64 both), and their work (days).
    """
    days = FULL * DAY_MIN * float(sum(cluster.gpus))
    episode = state.episode
    count = params.num_jobs.at[episode].get(mode="promise_in_bounds")
    places = params.places
    there = places < count
    index = index_of(params, episode, places, there)
    submit, iterations, work = (
        params.rows[index, SCALARS.index(name)]
        for name in ("submit_slot", "iterations", "total_work")
    )
    whole = iterations.astype(jnp.float32) * work.astype(jnp.float32) / days

    active = state.active
    real = active.job >= 0
    at = index_of(params, episode, active.job, real)
    deadline, of_iteration = (
        params.rows[at, SCALARS.index(name)] for name in ("deadline_min", "total_work")
    )
    left = jnp.where(real, jnp.maximum(active.limit - active.iterations, 0), 0)
    left_days = left.astype(jnp.float32) * of_iteration.astype(jnp.float32) / days
    behind = there & (places >= state.admitted) & (submit <= state.slot)
    later = there & (submit > state.slot)
    until = deadline - state.slot
    passes = real & (until >= 0) & (until <= WITHIN_MIN[:, None])
    comes = later & (submit - state.slot <= WITHIN_MIN[:, None])
    return jnp.concatenate(
        [
            jnp.stack(
                [
                    jnp.sum(real) / JOBS,
                    jnp.sum(behind) / JOBS,
                    jnp.sum(left_days),
                    jnp.sum(jnp.where(behind, whole, 0.0)),
                    jnp.sum(real & (until < 0)) / JOBS,
                    jnp.sum(later) / jnp.maximum(count, 1),
                ]
            ),
            jnp.sum(passes, axis=-1) / JOBS,
            jnp.sum(comes, axis=-1) / JOBS,
            jnp.sum(jnp.where(comes, whole, 0.0), axis=-1),
        ]
    ).astype(jnp.float32)
