"""Arrivals drawn anew from those that a table has: jobs and gaps, independently of each other.

Axes: ``N`` rows of a table in order of submission.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.types import Array, PRNGKey


class Redrawn(NamedTuple):
    """Arrivals of which the first ones are as they were."""

    submit_time: Array  # [N], of the dtype that the times had; rows without a job as they were
    source: Array  # int32 [N], row whose job comes in each row; its own for what is not drawn


def redraw_arrivals(
    key: PRNGKey, submit_time: Array, known: Array, num_jobs: Array, now: Array, latest: float
) -> Redrawn:
    """Rows from ``known`` on as a bootstrap of all jobs and of all gaps between them.

    Jobs and gaps are drawn independently with replacement, which is how SCHED2 makes its traces of
    one (Luan et al., workload). The gap that is running is drawn from those longer than it has
    lasted, so that the first drawn job comes strictly after ``now``.

    Args:
      key: of the draw.
      submit_time: ``[N]``, seconds, sorted over the jobs.
      known: int32, jobs that were submitted, at least 1; these are kept.
      num_jobs: int32, rows that hold a job.
      now: seconds, at or after the submission of the last known job.
      latest: no job is submitted later than this.
    """
    source_key, gap_key, first_key = jax.random.split(key, 3)
    rows, size = jnp.arange(submit_time.shape[0], dtype=jnp.int32), submit_time.shape
    drawn = (rows >= known) & (rows < num_jobs)
    source = jax.random.randint(source_key, size, 0, jnp.maximum(num_jobs, 1), jnp.int32)
    real = (rows >= 1) & (rows < num_jobs)
    before = jnp.concatenate([submit_time[:1], submit_time[:-1]])
    gap = jnp.where(real, submit_time - before, 0)
    gap_row = jax.random.randint(gap_key, size, 1, jnp.maximum(num_jobs, 2), jnp.int32)

    last = submit_time[jnp.maximum(known - 1, 0)]
    longer = jnp.cumsum(real & (gap > now - last), dtype=jnp.int32)
    wanted = jax.random.randint(first_key, (), 0, jnp.maximum(longer[-1], 1), jnp.int32)
    running = gap[jnp.sum(longer <= wanted, dtype=jnp.int32).clip(0, size[0] - 1)]

    most = jnp.asarray(latest, submit_time.dtype)
    gaps = jnp.where(rows == known, running, gap[gap_row])
    after = jax.lax.associative_scan(  # a sum that stays at the bound
        lambda a, b: jnp.minimum(a + b, most), jnp.where(drawn, gaps, 0).at[0].add(last)
    )
    after = jnp.maximum(after, now + 1)  # rounding must not bring a job before the present
    return Redrawn(
        submit_time=jnp.where(drawn, after.astype(submit_time.dtype), submit_time),
        source=jnp.where(drawn, source, rows),
    )
