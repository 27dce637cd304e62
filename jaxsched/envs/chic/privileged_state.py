"""What a critic of Chic may see in training: the workloads behind the window and those to come."""

import jax.numpy as jnp

from jaxsched.envs.chic.dynamics import State
from jaxsched.envs.chic.tables import Params, lookup, per_table, unpack
from jaxsched.types import Array

COMING = 8
"""Workloads beyond the window that are told, one by one."""
MOST_UNITS = 24.0


def privileged_state(state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[1 + 2 * 8]``.

    Share of the workloads that have not entered the window; and of the next eight of these the
    time until they are submitted (units of ``time_unit``, 0 once they wait, cut at 24) and their
    iterations (units of ``iter_scale``). Zeros where there are none.
    """
    jobs = params.jobs
    count = per_table(jobs.num_jobs, state.episode)
    index = jnp.minimum(state.entered + jnp.arange(COMING, dtype=jnp.int32), jobs.empty_row)
    submit = lookup(jobs.submit_time, state.episode, index)
    _, iterations = unpack(lookup(jobs.workload, state.episode, index))
    until = jnp.clip((submit - state.time) / params.time_unit, 0.0, MOST_UNITS)
    coming = jnp.stack([until, iterations / params.iter_scale])
    coming = jnp.where(index < count, coming, 0.0).reshape(-1)
    left = (count - state.entered) / jnp.maximum(count, 1)
    return jnp.concatenate([left[None], coming]).astype(jnp.float32)
