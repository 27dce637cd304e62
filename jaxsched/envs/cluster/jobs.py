"""The cluster's jobs and named traces: rigid jobs like those of published clusters.

Any workload of ``jaxsched.traces.clusters`` and any log can be used too; they are stretched to
``LOAD`` on the cluster in use. ``cluster-philly`` is for the default cluster, ``cluster-rltune``
for that of RLTune's published environment (``RLTUNE_SERVERS``, with ``commits``).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxsched.jobs import MAX_DURATION_S, JobTable, rescale_arrivals
from jaxsched.systems.workload import Workload
from jaxsched.trace_replay import Cluster
from jaxsched.trace_replay.tables import COLUMNS as RIGID_COLUMNS
from jaxsched.traces.clusters import usable_jobs
from jaxsched.traces.details import KIND, rounded_up
from jaxsched.traces.mapping import MappingConfig, import_trace
from jaxsched.traces.named import NamedTrace
from jaxsched.traces.trace import Trace
from jaxsched.traces.usable import job_rows

SERVERS, GPUS_PER_SERVER = 4, 8
LOAD = 0.9
SOURCE = "philly-like"
REFERENCE = 6400  # first jobs of a draw, which together have the load ``LOAD``
RUN_TIMES: dict[str, Any] = {"min_duration_s": 1, "max_duration_s": MAX_DURATION_S}
"""Run times are those of the trace, as on the leaderboard."""


def with_owners(table: JobTable, index: int = 0) -> JobTable:
    """Rigid jobs whose owners are the users (or models) of the trace, if it has any."""
    del index
    if "group" in table.columns or KIND not in table.columns:
        return table
    return table.with_columns(group=np.unique(table[KIND], return_inverse=True)[1])


def _pieces(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Consecutive pieces of one draw; piece k is the same for any ``num_traces``."""
    trace = usable_jobs(SOURCE, seed, max(num_traces * num_jobs, REFERENCE))
    config = MappingConfig(SERVERS, GPUS_PER_SERVER, **RUN_TIMES)
    last = int(job_rows(trace)[REFERENCE - 1])
    first = import_trace(trace.take(slice(0, last + 1)), config=replace(config, load=LOAD))
    found = import_trace(trace, mode="cut", num_jobs=num_jobs, config=config)
    scale = first.summary.time_scale
    return [with_owners(rescale_arrivals(table, scale)) for table in found.tables[:num_traces]]


PHILLY = NamedTrace(
    "cluster-philly",
    f"{SOURCE}: consecutive jobs, {REFERENCE} of them at a load of {LOAD:g} on {SERVERS} servers "
    f"of {GPUS_PER_SERVER} GPUs",
    True,
    _pieces,
    100,
)


RLTUNE_SERVERS = "16x2:4,20x8"
"""RLTune's cluster for Philly (github.com/dshruti20/RLTune): small servers for jobs of up to 4."""
RLTUNE_JOBS = 256
RLTUNE_SHRINKING = 60  # seconds of the log per second of its submission clock


def rltune_jobs(trace: Trace) -> JobTable:
    """A published trace as RLTune's environment reads it: its jobs, in order of submission.

    Jobs want 1, 2, 4 or a multiple of 8 GPUs, others are left out, as are those that the cluster
    cannot hold. Submissions are whole seconds from the first one on, divided by 60; run times are
    as they were.
    """
    kept = job_rows(trace)
    gpus = np.maximum(rounded_up(trace["num_gpus"][kept]), 1)
    largest = Cluster.of(RLTUNE_SERVERS).largest_job("strict")
    suits = (np.isin(gpus, (1, 2, 4)) | (gpus % 8 == 0)) & (gpus <= largest)
    submit = trace["submit_time"][kept] - trace["submit_time"][kept[0]]
    columns = {
        "submit_time": np.floor(submit / RLTUNE_SHRINKING).astype(np.int64)[suits],
        "num_gpus": gpus[suits],
        "duration": np.maximum(np.ceil(trace["duration"][kept]), 1).astype(np.int64)[suits],
    }
    return JobTable(columns, trace.name, schema=RIGID_COLUMNS)


def rltune_windows(
    jobs: JobTable, firsts: Sequence[int], num_jobs: int = RLTUNE_JOBS
) -> list[JobTable]:
    """Windows of consecutive jobs, with submissions on the clock of the whole table.

    Args:
      jobs: from ``rltune_jobs``.
      firsts: the first row of each window.
      num_jobs: jobs of a window.
    """
    return [jobs.take(slice(first, first + num_jobs)) for first in firsts]


def _rltune(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Consecutive windows of one draw; window k is the same for any ``num_traces``."""
    count = drawn = num_traces * num_jobs
    jobs = rltune_jobs(usable_jobs(SOURCE, seed, drawn))
    while len(jobs) < count:
        drawn += drawn // 8 + 64
        jobs = rltune_jobs(usable_jobs(SOURCE, seed, drawn))
    return rltune_windows(jobs, range(0, count, num_jobs), num_jobs)


RLTUNE = NamedTrace(
    "cluster-rltune",
    f"{SOURCE} as RLTune's environment takes it: consecutive jobs of 1, 2, 4 and multiples of 8 "
    f"GPUs, submissions divided by {RLTUNE_SHRINKING}, for servers {RLTUNE_SERVERS}",
    True,
    _rltune,
    RLTUNE_JOBS,
)
WORKLOAD = Workload(traces=(PHILLY, RLTUNE))
