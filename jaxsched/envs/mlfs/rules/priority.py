"""In which order tasks are offered: MLF-H's priorities, and the orders of the baselines.

MLF-H: specification, section 3.1 (MLFS, Eqs. 2-6). Baselines (section 9) order jobs: higher comes
first, ties go to the earlier job.

Axes: ``A`` jobs, ``K`` = 32 places for tasks, two replicas of ``P`` = 16 partitions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, SVM
from jaxsched.envs.mlfs.rules import FULL, Cluster, Rules, div
from jaxsched.envs.mlfs.rules.state import WAITING, Active, Tasks, num_layers
from jaxsched.envs.mlfs.rules.tables import CAP, SLOT_S, Job, Params, as_columns
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


MILLION = 1_000_000
CLASS_STEP = 2 * MILLION  # beyond any gain per minute
SMALL_GAIN = 5  # pm of loss
MINUTE = 60_000  # mmin in an hour
MOST_PRIORITY = 100 * MILLION  # of SLAQ; the other orders' and MLF's are below


def job_priority(rules: Rules, jobs: Job, active: Active, running: Array, slot: Array) -> Array:
    """Priority of each job of the window, int32 ``[A]``.

    Args:
      rules: whose ``order`` is a baseline.
      jobs: of the window.
      active: the same.
      running: tasks of each job that run at the start of the slot.
      slot: t.
    """
    demand = running * jobs.gpu_demand
    if rules.order == "fair":
        return -demand
    if rules.order == "slaq":
        return slaq(jobs, active)
    if rules.order == "tiresias":
        return -(SLOT_S * active.attained >= rules.tiresias_threshold).astype(jnp.int32)
    if rules.order == "graphene":
        return graphene(rules.cluster, jobs, active, demand)
    if rules.order == "hypersched":
        return hypersched(jobs, active, slot)
    return jnp.zeros_like(active.job)


def slaq(jobs: Job, active: Active) -> Array:
    """Loss reduction of the next iteration per minute."""
    ahead = active.iterations + 1
    loss = loss_after(jobs, ahead - 1)
    step = div(FULL * jobs.curve_a, FULL + jobs.curve_a * ahead)
    return div(loss * step * 100, _minutes(jobs))


def graphene(cluster: Cluster, jobs: Job, active: Active, demand: Array) -> Array:
    """Short, large and under-served jobs first."""
    iterations = jnp.maximum(active.limit - active.iterations, 0)
    hours = div(iterations * jobs.total_work, MINUTE)
    packing = jnp.maximum(
        jobs.gpu_demand,
        jnp.maximum(div(FULL * jobs.cpus, cluster.cpus), div(FULL * jobs.mem, cluster.mem)),
    )
    share = div(20 * FULL * demand, FULL * cluster.num_gpus.sum())
    return div(10_000, 10 + hours) + packing + FULL - jnp.minimum(FULL, share)


def hypersched(jobs: Job, active: Active, slot: Array) -> Array:
    """Most loss reduction per minute until the deadline; late jobs last."""
    left = jobs.deadline_min - slot
    minutes = _minutes(jobs)
    more = jnp.minimum(jobs.iterations - active.iterations, div(jnp.maximum(left, 0), minutes))
    now, then = loss_after(jobs, active.iterations), loss_after(jobs, active.iterations + more)
    gain = now - then
    small = now - loss_after(jobs, active.iterations + 1) < SMALL_GAIN
    kind = jnp.where(left <= 0, 2, small.astype(jnp.int32))
    rate = div(gain * FULL, jnp.maximum(more * minutes, 1))
    return rate - CLASS_STEP * kind


def loss_after(jobs: Job, iterations: Array) -> Array:
    """Loss after so many iterations, pm of the first."""
    return div(MILLION, FULL + jobs.curve_a * iterations)


def _minutes(jobs: Job) -> Array:
    """Minutes of an iteration at full speed, rounded up, at least 1."""
    return jnp.maximum(div(jobs.critical + FULL - 1, FULL), 1)
