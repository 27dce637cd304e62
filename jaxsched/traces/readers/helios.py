"""Reader for the job logs of SenseTime's Helios clusters (2020), ``cluster_log.csv``.

Source: "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(SC'21). Times are naive local times. More than half of the jobs use no GPU; they are kept, with
``num_gpus`` 0. SUSPENDED, which the log has once, says nothing of how a job ended: status not
known.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.readers.fields import NAN, renamed, statuses
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.text import stem
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
    "": "",
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
    columns = read_columns(path, HEADERS, _columns, large_by_arrow=True)
    unknown = int(np.sum(np.isnan(columns["duration"])))
    notes = (f"{unknown} jobs without start or end, their run times not known",) if unknown else ()
    return Trace(columns, stem(path), NAME, "local", notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    start, end = rows.stamps("start_time", absent=NAN), rows.stamps("end_time", absent=NAN)
    columns["duration"] = np.where(np.isnan(start) | np.isnan(end), np.nan, columns["duration"])
    return columns | {
        "submit_time": rows.stamps("submit_time"),
        "status": statuses(rows, "state", STATES),
        "start_time": start,
        "end_time": end,
    }
