"""The cluster's jobs and named traces: rigid jobs like those of published clusters.

Any workload of ``jaxsched.traces.clusters`` and any log does as well; those are stretched to
``LOAD`` on the cluster in use. The named trace is for the usual cluster.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from jaxsched.jobs import MAX_DURATION_S, JobTable, rescale_arrivals
from jaxsched.systems.workload import Workload
from jaxsched.traces.clusters import usable_jobs
from jaxsched.traces.details import KIND
from jaxsched.traces.mapping import MappingConfig, import_trace
from jaxsched.traces.named import NamedTrace
from jaxsched.traces.usable import job_rows

SERVERS, GPUS_PER_SERVER = 4, 8
LOAD = 0.9
SOURCE = "philly-like"
REFERENCE = 6400  # jobs of a draw, from the first on, that have this load together
RUN_TIMES: dict[str, Any] = {"min_duration_s": 1, "max_duration_s": MAX_DURATION_S}
"""Jobs run as long as they did, as on the board."""


def with_owners(table: JobTable, index: int = 0) -> JobTable:
    """Rigid jobs whose owners are the users (or models) that their trace names, if it names any."""
    del index
    if "group" in table.columns or KIND not in table.columns:
        return table
    return table.with_columns(group=np.unique(table[KIND], return_inverse=True)[1])


def _pieces(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Consecutive pieces of one draw, the same however many are asked for."""
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
WORKLOAD = Workload(traces=(PHILLY,))
