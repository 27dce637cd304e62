"""Orders of the baselines, as priorities of jobs (specification, section 9).

Higher comes first; ties go to the earlier job. Axes: ``A`` jobs.
"""

import jax.numpy as jnp

from jaxsched.envs.mlfs.simulator.cluster import FULL, Cluster, div
from jaxsched.envs.mlfs.simulator.job import Job
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.state import Active
from jaxsched.envs.mlfs.simulator.tables import SLOT_S
from jaxsched.types import Array

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
