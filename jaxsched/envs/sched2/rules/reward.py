"""Rewards (SCHED2, section 6 of the specification).

Execution effectiveness of a job: ``E = d / (wait + run)``, d its ideal run time. The undiscounted
literal return of an episode is the sum of E; the dense one is that sum minus the number of jobs.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.sched2.rules import JobTables, lookup
from jaxsched.envs.sched2.rules.dynamics import ClusterState, Start
from jaxsched.types import Array

BLOCK = 64  # waiting jobs beyond the window are summed this many at a time


def effectiveness(start: Start) -> Array:
    """E of the job that was started, 0 where none was."""
    total = jnp.maximum(start.wait + start.run, 1)
    return jnp.where(start.started, start.duration / total, 0.0)


def lost(start: Start, delay_weight: Array) -> Array:
    """E of the started job less 1, less a weight for each hour that it took beyond d; else 0."""
    hours = (start.wait + start.run - start.duration) / 3600.0
    return jnp.where(start.started, effectiveness(start) - 1.0 - delay_weight * hours, 0.0)


def dense(before: ClusterState, start: Start, after: ClusterState, jobs: JobTables) -> Array:
    """Minus the effectiveness lost in one step: by waiting jobs, and by the started one's run."""
    d, wait = start.duration, start.wait
    at_best = d / jnp.maximum(wait + d, 1)
    split = jnp.where(start.started, at_best - effectiveness(start), 0.0)
    waiting = _waiting_cost(before.time, after, jobs, after.window)
    in_window = jnp.sum(jnp.where(after.window != jobs.empty_row, waiting, 0.0))
    return -(split + in_window + beyond_window_cost(before.time, after, jobs))


def _waiting_cost(time: Array, after: ClusterState, jobs: JobTables, index: Array) -> Array:
    """Effectiveness that jobs lose by waiting from ``time``, or their submission, until now.

    ``d / (w + d) - d / (w + D + d)`` for a wait of w at first and D more, written as one fraction
    so that nothing cancels.
    """
    submit = lookup(jobs.submit_time, after.episode, index)
    duration = lookup(jobs.run_time, after.episode, index)[:, 0]
    since = jnp.maximum(time, submit)
    first = (since - submit + duration).astype(jnp.float32)
    last = (after.time - submit + duration).astype(jnp.float32)
    more = (after.time - since).astype(jnp.float32)
    return duration * more / jnp.maximum(first * last, 1.0)


def beyond_window_cost(time: Array, after: ClusterState, jobs: JobTables) -> Array:
    """The waiting cost of the jobs ``head .. arrived - 1`` of the table, a block at a time."""

    def more(carry: tuple[Array, Array]) -> Array:
        return (carry[0] < after.arrived) & (after.time > time)

    def add(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        first, cost = carry
        index = first + jnp.arange(BLOCK, dtype=jnp.int32)
        waits = index < after.arrived
        each = _waiting_cost(time, after, jobs, jnp.where(waits, index, jobs.empty_row))
        return first + BLOCK, cost + jnp.sum(jnp.where(waits, each, 0.0), dtype=jnp.float32)

    return jax.lax.while_loop(more, add, (after.head, jnp.float32(0)))[1]
