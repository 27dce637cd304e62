"""What a critic of DL2 may see in training: all jobs' work left, and how many come when."""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2.dynamics import ClusterState
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.tables import arrival
from jaxsched.ops import bit_sets
from jaxsched.types import Array

AHEAD = (1, 2, 4, 8)
"""Slots from now until which submissions are counted."""


def privileged_state(state: ClusterState, params: Params) -> Array:
    """The rest of the state, float32 ``[3 + 4]``.

    Jobs of the slot, the true epochs that these have left (units of ``e_scale``), jobs still to
    come; and jobs that come within the next 1, 2, 4 and 8 slots. Counts are shares of the table's
    jobs.
    """
    jobs, episode = params.jobs, state.episode
    count = jnp.maximum(jobs.num_jobs[episode], 1)
    real = jnp.arange(jobs.info.shape[-1]) < jobs.num_jobs[episode]
    active = bit_sets.to_flags(state.active)[: real.shape[0]] & real
    left = jnp.maximum(jobs.true_epochs[episode] - state.progress, 0.0) / params.e_scale
    ahead = arrival(jobs.info[episode]) - state.slot
    within = (ahead > 0) & (ahead <= np.array(AHEAD)[:, None]) & real
    return jnp.concatenate(
        [
            jnp.stack([jnp.sum(active) / count, jnp.sum(jnp.where(active, left, 0.0))]),
            (jnp.sum((ahead > 0) & real) / count)[None],
            jnp.sum(within, axis=-1) / count,
        ]
    ).astype(jnp.float32)
