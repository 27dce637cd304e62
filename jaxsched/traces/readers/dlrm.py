"""Reader for Alibaba's trace of 2025: instances of services of recommendation models (DLRM).

Source: the README of ``cluster-trace-gpu-v2025`` in alibaba/clusterdata, published with "GPU-
Disaggregated Serving for Deep Learning Recommendation Models at Scale" (NSDI'25). An instance is a
job: it serves until it is deleted. Times count from the start of the trace; instances from before
it have no submission time. Requests of CPU nodes have no GPU. Alibaba's tables of 2026
(``cluster-trace-gpu-v2026``) tell hours in which pods were seen, or how long they ran, but not when
they were submitted; they are refused by name.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import number, renamed
from jaxsched.traces.readers.head import head_of
from jaxsched.traces.readers.layouts import Layout, Layouts
from jaxsched.traces.readers.without_times import refuse
from jaxsched.traces.rows import Rows
from jaxsched.traces.trace import Trace

NAME = "dlrm"
DESCRIPTION = "Alibaba DLRM services (2025), instances that serve"
HEADER = (
    *("instance_sn", "role", "app_name", "cpu_request", "cpu_limit", "gpu_request", "gpu_limit"),
    *("rdma_request", "rdma_limit", "memory_request", "memory_limit", "disk_request"),
    *("disk_limit", "max_instance_per_node", "creation_time", "scheduled_time", "deletion_time"),
)
_NEEDED = {"instance_sn", "role", "gpu_request", "creation_time", "scheduled_time", "deletion_time"}
LAYOUTS = Layouts(Layout(HEADER, tuple(name for name in HEADER if name not in _NEEDED)))
WITHOUT_TIMES = Layouts(
    Layout(("pod_id", "gpu_request", "duration_hours")),
    Layout(("pod_id", "gpu_request", "used_gpu_hours", "day", "hour")),
)
matches = Layouts(*LAYOUTS, *WITHOUT_TIMES).matches

_NAMES = {
    "submit_time": "creation_time",
    "num_gpus": "gpu_request",
    "job_id": "instance_sn",
    "group": "app_name",
    "cpus": "cpu_request",
    "memory_gb": "memory_request",
}


def read(path: PathLike) -> Trace:
    """Read the instances; ``group`` is the service that an instance belongs to.

    Raises:
      JaxschedError: one line with file and line number, or that the file has no submission times.
    """
    if WITHOUT_TIMES.matches(head_of(path)):
        refuse(path, "hours or run times of pods")
    counts: Counts = Counter()
    columns = LAYOUTS.read(path, _columns, counts)
    return finished(path, columns, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    start = number(rows, "scheduled_time", from_zero=False)
    end = number(rows, "deletion_time", from_zero=False)
    submitted = ~np.isnan(columns["submit_time"])
    waits, serves = np.isnan(start) & np.isnan(end), ~np.isnan(start) & np.isnan(end)
    for sentence, which in (
        ("{} instances not scheduled, their run times not known", waits),
        ("{} instances not deleted before the end, their run times not known", serves),
    ):
        rows.counts[sentence] += int(np.sum(which & submitted))
    return columns | {
        "duration": end - start,
        "status": np.where(waits, "pending", np.where(serves, "running", "")),
        "start_time": start,
        "end_time": end,
    }
