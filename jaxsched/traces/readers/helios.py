"""Reader for the job logs of SenseTime's Helios clusters (2020), ``cluster_log.csv``.

Source: "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(SC'21). Times are naive local times. More than half of the jobs use no GPU; they are kept, with
``num_gpus`` 0. SUSPENDED, which the log has once, says nothing of how a job ended: status not
known. The layout is that of Slurm's accounting; states of Slurm's that the log has not are taken
as its manual describes them, and said.
"""

from collections import Counter
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, renamed, slurm_statuses, with_both
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "helios"
DESCRIPTION = "SenseTime Helios (2020), job log of one cluster"
HEADERS = (
    (
        "job_id",
        "user",
        "vc",
        "gpu_num",
        "cpu_num",
        "node_num",
        "state",
        "submit_time",
        "start_time",
        "end_time",
        "duration",
        "queue",
    ),
)
STATES = {
    "COMPLETED": "completed",
    "CANCELLED": "killed",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "SUSPENDED": "",
}
matches = by_header(HEADERS)

_NAMES = {
    "num_gpus": "gpu_num",
    "duration": "duration",
    "job_id": "job_id",
    "user": "user",
    "group": "vc",
    "num_nodes": "node_num",
    "cpus": "cpu_num",
}


def read(path: PathLike) -> Trace:
    """Read a Helios log; ``group`` is the virtual cluster.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, large_by_arrow=True, counts=counts)
    return finished(path, columns, NAME, "local", counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    start, end = rows.stamps("start_time", absent=NAN), rows.stamps("end_time", absent=NAN)
    columns["duration"] = with_both(rows, start, end, columns["duration"])
    return columns | {
        "submit_time": rows.stamps("submit_time", absent=NAN),
        "status": slurm_statuses(rows, "state", STATES),
        "start_time": start,
        "end_time": end,
    }
