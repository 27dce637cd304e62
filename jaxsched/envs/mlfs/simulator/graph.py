"""Which tasks are ready, and which jobs have completed an iteration.

Axes: ``A`` jobs, ``K`` = 32 places for tasks.
"""

import jax.numpy as jnp

from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, SVM
from jaxsched.envs.mlfs.simulator.state import exists
from jaxsched.envs.mlfs.simulator.tables import Job, as_columns
from jaxsched.types import Array

WIDTHS = (1, 2, 4)  # parts that a layer may have


def ready(jobs: Job, done: Array) -> Array:
    """Whether all parents are done; bool ``[A, K]`` of bool ``[A, K]``."""
    replicas = done.reshape(-1, MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    result = jnp.ones_like(replicas)
    for width in WIDTHS:
        blocks = replicas.reshape(*replicas.shape[:2], -1, width)
        whole = jnp.all(blocks, axis=-1)
        before = jnp.concatenate([jnp.ones_like(whole[..., :1]), whole[..., :-1]], axis=-1)
        chosen = (jobs.width == width)[:, None, None]
        result = jnp.where(chosen, jnp.repeat(before, width, axis=-1), result)
    return result.reshape(-1, MAX_TASKS) | (jobs.model == SVM)[:, None]


def roots(jobs: Job) -> Array:
    """Tasks without parents that exist, bool ``[A, K]``."""
    return ready(jobs, jnp.zeros((jobs.width.shape[0], MAX_TASKS), bool)) & present(jobs)


def present(jobs: Job) -> Array:
    """Places with a task, bool ``[A, K]``."""
    return exists(as_columns(jobs), jnp.arange(MAX_TASKS, dtype=jnp.int32))
