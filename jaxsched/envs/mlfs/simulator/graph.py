"""Which tasks are ready, and which jobs have completed an iteration.

Axes: ``A`` jobs, ``K`` = 32 places for tasks.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, SVM
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.state import exists
from jaxsched.envs.mlfs.simulator.tables import as_columns
from jaxsched.types import Array

WIDTHS = (1, 2, 4)  # parts that a layer may have
_LAYER = [np.arange(MAX_PARTITIONS) // width for width in WIDTHS]
_PARENTS = np.concatenate([x[:, None] + 1 == x for x in _LAYER], axis=1).astype(np.float32)
"""Float32 ``[P, 3 P]``: for each width, whether the row's partition is a parent of the column's."""


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


def parents_that(jobs: Job, holds: Array) -> Array:
    """How many of each task's parents hold, int32 ``[..., A, K]`` of bool ``[..., A, K]``."""
    replicas = holds.reshape(*holds.shape[:-1], MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    sums = replicas.astype(jnp.float32) @ _PARENTS  # small whole numbers: exact
    result = jnp.zeros(holds.shape, jnp.int32)
    for index, width in enumerate(WIDTHS):
        of_width = sums[..., MAX_PARTITIONS * index : MAX_PARTITIONS * (index + 1)]
        counts = of_width.reshape(holds.shape).astype(jnp.int32)
        chosen = (jobs.width == width) & (jobs.model != SVM)
        result = jnp.where(chosen[:, None], counts, result)
    return result


def roots(jobs: Job) -> Array:
    """Tasks without parents that exist, bool ``[A, K]``."""
    return ready(jobs, jnp.zeros((jobs.width.shape[0], MAX_TASKS), bool)) & present(jobs)


def present(jobs: Job) -> Array:
    """Places with a task, bool ``[A, K]``."""
    return exists(as_columns(jobs), jnp.arange(MAX_TASKS, dtype=jnp.int32))
