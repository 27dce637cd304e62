"""What a critic of DAS may see in training: all work that waits, runs and comes.

Run times are the true ones, which no policy sees; contention is left out. Axes: ``J`` jobs of the
longest episode, ``R`` running jobs, ``K`` classes of work.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.simulator.dynamics import State, still_pending
from jaxsched.envs.das.simulator.tables import (
    DURATION,
    NUM_GPUS,
    SUBMIT,
    Params,
    pick,
    row_of,
    submitted_by,
)
from jaxsched.types import Array

HOUR_S = 3600.0
CLASSES = 8
"""Of work: below one GPU-hour, below two, four, ..., and any more."""
WITHIN_S = np.array([0.5, 1, 2, 4, 8, 16]) * HOUR_S
"""Times from now until which GPUs are freed and jobs come."""
JOBS = 64.0


def privileged_state(cluster: Cluster, state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[2 * 8 + 4 + 3 * 6]``.

    Of waiting jobs, the window's and those behind it, by class of work (run time times GPUs): how
    many (per 64), and their work in hours of the whole cluster. Mean time in hours that they would
    take if the whole cluster worked on the least work first; the same of waiting and running jobs;
    running jobs (per 64); share of the jobs still to come. And within 0.5, 1, 2, 4, 8 and 16 hours:
    the share of the GPUs that running jobs free, jobs that come (per 64), and their work in hours
    of the cluster.
    """
    num_gpus = float(cluster.num_servers * cluster.gpus)
    episode, count = state.episode, pick(params.num_jobs, state.episode)
    places = params.places
    rows = row_of(params, episode, places)
    work = rows[DURATION].astype(jnp.float32) * rows[NUM_GPUS].astype(jnp.float32)
    known = submitted_by(params, episode, state.time, state.submitted)
    waits = still_pending(state, params.max_jobs)[:-1] & (places < known)

    running = state.running
    runs = running.job >= 0
    left_s = jnp.where(runs, running.left, 0).astype(jnp.float32) / 100.0
    left_s = jnp.maximum(
        left_s - running.speed.astype(jnp.float32) / 100.0 * (state.time - state.since), 0.0
    )
    remaining = left_s * running.num_gpus.astype(jnp.float32)

    waiting = _by_class(work, waits)
    both = waiting + _by_class(remaining, runs)
    frees = jnp.where(
        runs & (left_s <= WITHIN_S[:, None]), running.num_gpus.astype(jnp.float32), 0.0
    )
    comes = (places >= known) & (rows[SUBMIT] - state.time <= WITHIN_S[:, None])
    return jnp.concatenate(
        [
            waiting[0] / JOBS,
            waiting[1] / HOUR_S / num_gpus,
            jnp.stack(
                [
                    _least_first(waiting) / HOUR_S / num_gpus,
                    _least_first(both) / HOUR_S / num_gpus,
                    jnp.sum(runs) / JOBS,
                    (count - known) / jnp.maximum(count, 1),
                ]
            ),
            jnp.sum(frees, axis=-1) / num_gpus,
            jnp.sum(comes, axis=-1) / JOBS,
            jnp.sum(jnp.where(comes, work, 0.0), axis=-1) / HOUR_S / num_gpus,
        ]
    ).astype(jnp.float32)


def _by_class(work: Array, counts: Array) -> Array:
    """How many jobs and how much work (GPU-seconds) by class of work, float32 ``[2, K]``."""
    most = np.append(HOUR_S * 2.0 ** np.arange(CLASSES - 1), np.inf)
    least = np.append(0.0, most[:-1])
    belongs = counts & (work >= least[:, None]) & (work < most[:, None])
    number = jnp.sum(belongs, axis=-1, dtype=jnp.float32)
    return jnp.stack([number, jnp.sum(jnp.where(belongs, work, 0.0), axis=-1)])


def _least_first(by_class: Array) -> Array:
    """Mean GPU-seconds until a job is done, one after another, those of a class being alike."""
    number, work = by_class
    before = jnp.cumsum(work) - work
    total = jnp.sum(number * before + work * (number + 1.0) / 2.0)
    return total / jnp.maximum(jnp.sum(number), 1.0)
