"""Job tables on the device: everything the dynamics look up, prepared once on the host.

Axes: ``K`` tables, ``n`` jobs (padded), ``C`` columns. An episode is an index into the stack.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.slowdown import (
    MODELS,
    NUM_LEVELS,
    SLOWDOWN_TENTHS,
    run_time,
    worst_level,
)
from jaxsched.jobs import JobTable, stack_tables, validate
from jaxsched.types import Array

# Columns of a row; a row of zeros is an empty slot (GPUS == 0).
JOB, SUBMIT, GPUS, MODEL = range(4)
RUN_TIME = slice(4, 4 + NUM_LEVELS)  # seconds at each level, clipped at the job's worst level
NUM_COLUMNS = 4 + NUM_LEVELS

NEVER = np.int32(2**30)  # a time after every event
LOW_BITS = 12  # sums of times are kept as (sum of time >> 12, sum of time & 4095)


class JobTables(NamedTuple):
    """A stack of job tables.

    Attributes:
      rows: int32 ``[K, n + 1, C]``, a job per row and one empty row.
      submit_time: int32 ``[K, n + 1]``, seconds; ``NEVER`` after the last job.
      batch_end: int32 ``[K, n + 1]``, index of the first job submitted later than this one.
      sums: int32 ``[K, n + 1, 5]``, sums over the jobs before: GPUs, then duration and submit
        time in two parts each, so that they stay exact for a hundred thousand jobs.
      num_jobs: int32 ``[K]``.
    """

    rows: Array
    submit_time: Array
    batch_end: Array
    sums: Array
    num_jobs: Array


def build_tables(tables: list[JobTable], num_servers: int, gpus_per_server: int) -> JobTables:
    """Validate tables and lay them out for the device.

    Args:
      tables: one or more job tables (columns ``submit_time`` s, ``num_gpus``, ``duration`` s,
        ``model`` 0..5), sorted by submission, the first at 0.
      num_servers: S.
      gpus_per_server: G.

    Raises:
      JaxschedError: a table breaks a rule of section 2; the message names table, job and value.
    """
    for table in tables:
        validate(table, max_gpus=num_servers * gpus_per_server, num_models=len(MODELS))
    stack = stack_tables(tables)
    columns, num_jobs = stack.columns, stack.num_jobs
    num_tables, most = columns["submit_time"].shape
    real = np.arange(most) < num_jobs[:, None]

    model, gpus = columns["model"], columns["num_gpus"]
    worst = np.asarray(worst_level(gpus, num_servers, gpus_per_server))
    level = np.minimum(np.arange(NUM_LEVELS), worst[..., None])
    slowdown = np.take_along_axis(SLOWDOWN_TENTHS[model], level, axis=-1)
    times = np.asarray(run_time(columns["duration"][..., None], slowdown))

    rows = np.zeros((num_tables, most + 1, NUM_COLUMNS), np.int32)
    rows[:, :-1, JOB] = np.arange(most)
    rows[:, :-1, SUBMIT] = columns["submit_time"]
    rows[:, :-1, GPUS] = gpus
    rows[:, :-1, MODEL] = model
    rows[:, :-1, RUN_TIME] = times
    rows[:, :-1][~real] = 0

    submit = np.full((num_tables, most + 1), NEVER, np.int32)
    submit[:, :-1][real] = columns["submit_time"][real]
    batch_end = np.stack([np.searchsorted(s, s, side="right") for s in submit]).astype(np.int32)
    batch_end = np.minimum(batch_end, num_jobs[:, None])

    duration, submitted = columns["duration"], np.where(real, columns["submit_time"], 0)
    low = (1 << LOW_BITS) - 1
    parts = [gpus, duration >> LOW_BITS, duration & low, submitted >> LOW_BITS, submitted & low]
    sums = np.zeros((num_tables, most + 1, len(parts)), np.int32)
    sums[:, 1:] = np.cumsum(np.stack(parts, -1) * real[..., None], axis=1)
    return JobTables(*(jnp.asarray(x) for x in (rows, submit, batch_end, sums, num_jobs)))
