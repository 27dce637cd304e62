"""MLF-H's priorities (specification, section 3.1; MLFS, Eqs. 2-6).

Axes: ``A`` jobs, ``K`` = 32 places for tasks, two replicas of ``P`` = 16 partitions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, SVM
from jaxsched.envs.mlfs.simulator.cluster import FULL, div
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.state import WAITING, Active, Tasks, num_layers
from jaxsched.envs.mlfs.simulator.tables import CAP, Params, as_columns
from jaxsched.ops.target import on_cpu
from jaxsched.types import Array

NO_PROGRESS_KNOWN = 2  # iterations without a share of their own: the ratio is 1
RESIDUAL_UNIT = 600_000  # 1000 times ten task-hours, in task-minutes
LEAST_RESIDUAL = 10  # task-minutes
HOUR = 60  # minutes


class Progress(NamedTuple):
    """Where jobs stand, int32 ``[...]``.

    Attributes:
      iteration: I, the one that runs, from 1.
      after: iterations that remain after it.
      ratio: pm, its share of the loss reduction so far.
      residual: remaining task-minutes.
    """

    iteration: Array
    after: Array
    ratio: Array
    residual: Array


def progress_of(jobs: Job, iterations: Array, limit: Array) -> Progress:
    """Where jobs stand after ``iterations`` of ``limit``."""
    current = iterations + 1
    after = jnp.maximum(limit - current, 0)
    slope = FULL + jobs.curve_a * jnp.maximum(current - 2, 0)
    share = div(FULL * FULL, jnp.maximum((current - 1) * slope, 1))
    residual = div((after + 1) * jobs.total_work + FULL - 1, FULL)
    ratio = jnp.where(current <= NO_PROGRESS_KNOWN, FULL, share)
    return Progress(current, after, ratio, residual)


def slots_left(jobs: Job, after: Array, tail: Array, slot: Array) -> Array:
    """Minutes in which an instance must end for the job to meet its deadline; may be negative.

    Args:
      jobs: the jobs.
      after: their iterations after this one.
      tail: mmin of the critical path below the instance.
      slot: t.
    """
    return jobs.deadline_min - div(after * jobs.critical + tail, FULL) - slot


def mlf_priority(
    params: Params,
    jobs: Job,
    active: Active,
    tasks: Tasks,
    slot: Array,
    *,
    use_urgency: bool,
    use_deadline: bool,
    waiting_min: int,
) -> Array:
    """Priority of every instance, whatever its state; int32 ``[A, K]`` (junk where there is none).

    Args:
      params: the weights.
      jobs: of the window, ``[A]``.
      active: their progress.
      tasks: their instances.
      slot: t.
      use_urgency: the jobs' urgency counts.
      use_deadline: deadlines count.
      waiting_min: minutes of the unit of time of the waiting term.
    """
    progress = progress_of(jobs, active.iterations, active.limit)
    urgency = jnp.where(use_urgency, jobs.urgency, 1)
    worth = (urgency * progress.ratio)[:, None] * jobs.size
    worth = div(div(worth, jnp.maximum(progress.iteration, 1)[:, None]), FULL)
    left = slots_left(as_columns(jobs), progress.after[:, None], jobs.tail, slot)
    pressing = jnp.where((left > 0) & use_deadline, div(HOUR * FULL, jnp.maximum(left, 1)), 0)
    short = div(RESIDUAL_UNIT, jnp.maximum(progress.residual, LEAST_RESIDUAL))
    minutes = jnp.where(tasks.state == WAITING, slot - tasks.since, 0)
    waited = div(minutes * FULL, waiting_min)
    by_partition = params.remaining_weight * short[:, None] + params.deadline_weight * pressing
    enough = div(100 * CAP, jnp.maximum(params.waiting_weight, 1)) + 1  # waited for the cap below
    waited = jnp.minimum(waited, enough)
    own = div(spread(jobs, by_partition) + params.waiting_weight * waited, 100)
    urgent = own.reshape(-1, MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    own = jnp.concatenate([worth[:, None], urgent], axis=1)
    both = over_children(own, jobs, params.children_share)
    worth, urgent = both[:, 0], both[:, 1:].reshape(-1, MAX_TASKS)
    share = params.importance_share
    return div(share * spread(jobs, worth) + (100 - share) * urgent, 100)


def spread(jobs: Job, values: Array) -> Array:
    """Values of partitions ``[A, P]`` as those of places ``[A, K]``."""
    tiled = jnp.concatenate([values, values], axis=-1)
    return jnp.where((jobs.model == SVM)[:, None], values[:, :1], tiled)


def over_children(own: Array, jobs: Job, share: Array) -> Array:
    """``min(own + share * sum over the children // 100, CAP)`` from the last layer up.

    Args:
      own: of partitions, ``[A, D, P]``.
      jobs: ``[A]``; tasks of SVM have no children.
      share: per cent (gamma).
    """
    place = np.arange(MAX_PARTITIONS, dtype=np.int32)
    width = jnp.maximum(jobs.width, 1)[:, None]
    inner = div(place, width) < num_layers(jobs)[:, None] - 1
    last_of_layer = place % width == width - 1

    def one(carry: tuple[Array, Array], at: tuple[Array, Array, Array]) -> tuple[Any, Array]:
        """From a partition to the one before; sums over its layer so far, and over the next."""
        layer, children = carry
        begins, below, alone = at
        children = jnp.where(begins, layer, children)
        total = alone + jnp.where(below, div(share * children, 100), 0)
        found = jnp.minimum(total, CAP)
        return (jnp.where(begins, 0, layer) + found, children), found

    none = jnp.zeros(own.shape[:-1], jnp.int32)
    if not on_cpu():  # a loop over partitions would have all tasks transposed, back and forth
        carry, found = (none, none), own
        for p in reversed(range(MAX_PARTITIONS)):
            carry, alone = one(carry, (last_of_layer[:, p, None], inner[:, p, None], own[..., p]))
            found = jnp.where(place == p, alone[..., None], found)
        return found
    # Partitions first, jobs last: slices vectorise. What is read is another array than what is
    # written: one that is both would be copied in every round.
    each = last_of_layer.T, inner.T, own.T
    return jax.lax.scan(one, (none.T, none.T), each, reverse=True)[1].T
