"""Reader for the job logs of SenseTime's Helios clusters (2020), ``cluster_log.csv``.

Source: "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(SC'21). Times are naive local times. More than half of the jobs use no GPU; they are kept, with
``num_gpus`` 0. SUSPENDED, which the log has once, says nothing of how a job ended: status not
known.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.columns import describe_value
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.text import PathLike, stem
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


def read(path: PathLike) -> Trace:
    """Read a Helios log; ``group`` is the virtual cluster.

    Raises:
      JaxschedError: one line with file and line number.
    """
    columns = read_columns(path, HEADERS, _columns)
    unknown = int(np.sum(np.isnan(columns["duration"])))
    notes = (f"{unknown} jobs without start or end, their run times not known",) if unknown else ()
    return Trace(columns, stem(path), NAME, "local", notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    absent = float("nan")
    start = rows.stamps("start_time", absent=absent)
    end = rows.stamps("end_time", absent=absent)
    duration = rows.numbers("duration", absent=absent, from_zero=True)
    return {
        "submit_time": rows.stamps("submit_time"),
        "num_gpus": rows.numbers("gpu_num", absent=absent, from_zero=True),
        "duration": np.where(np.isnan(start) | np.isnan(end), np.nan, duration),
        "job_id": rows.texts("job_id"),
        "user": rows.texts("user"),
        "group": rows.texts("vc"),
        "status": _statuses(rows),
        "start_time": start,
        "end_time": end,
        "num_nodes": rows.numbers("node_num", absent=absent, from_zero=True),
        "cpus": rows.numbers("cpu_num", absent=absent, from_zero=True),
    }


def _statuses(rows: Rows) -> npt.NDArray[np.str_]:
    states = rows.texts("state").tolist()
    try:
        return np.array([STATES[state] for state in states], np.str_)
    except KeyError:
        row = next(row for row, state in enumerate(states) if state not in STATES)
        accepted = ", ".join(filter(None, STATES))
        rows.fail(row, f"state is {describe_value(states[row])}; accepted: {accepted}")
