"""Reader for the traces of jobs with deadlines that ElasticFlow's simulator (ASPLOS'23) ships.

Models, batch sizes and deadlines were drawn by the source; some deadlines cannot be met on purpose.
They are on the clock of submissions; jobs with ``best_effort`` 1 have none. ``real_duration`` and
``real_iteration``, which one of the three files has, are the job's own, ``duration`` and
``iteration`` what the simulator was told. (For the ITP traces see ``itp``.)
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import number, renamed
from jaxsched.traces.readers.layouts import Layout, Layouts
from jaxsched.traces.rows import Rows
from jaxsched.traces.trace import Trace

NAME = "elasticflow"
DESCRIPTION = "ElasticFlow (ASPLOS'23), jobs with deadlines"
_SIMULATED = (
    "job_id",
    "submit_time",
    "iteration",
    "model_name",
    "ddl",
    "batch_size",
    "num_gpu",
    "duration",
)
HEADERS = (
    (
        "job_id",
        "submit_time",
        "real_iteration",
        "model_name",
        "ddl",
        "batch_size",
        "num_gpu",
        "real_duration",
        "duration",
        "iteration",
    ),
    _SIMULATED,
    (*_SIMULATED, "best_effort"),
)
_OTHERS = ("job_id", "model_name", "batch_size", "iteration", "best_effort")
LAYOUTS = Layouts(
    Layout(HEADERS[0], (*_OTHERS, "real_iteration", "duration")), Layout(HEADERS[1], _OTHERS)
)
DIFFERENT = "{} jobs have a duration other than their real_duration, which is taken"
BEST_EFFORT = "{} jobs are best-effort ones, without a deadline"
matches = LAYOUTS.matches

_NAMES = {
    "submit_time": "submit_time",
    "num_gpus": "num_gpu",
    "duration": "duration",
    "job_id": "job_id",
    "model": "model_name",
    "batch_size": "batch_size",
    "iterations": "iteration",
    "deadline": "ddl",
}
_REAL = {"duration": "real_duration", "iterations": "real_iteration"}


def read(path: PathLike) -> Trace:
    """Read an ElasticFlow table; times count from an origin of its own, deadlines as well.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    table = LAYOUTS.read(path, _columns, counts)
    return finished(path, table, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    parsed = renamed(rows, _NAMES) | renamed(rows, _REAL)
    if {"real_duration", "duration"} <= set(rows.header):
        told = number(rows, "duration", from_zero=False)
        different = np.sum((told != parsed["duration"]) & ~np.isnan(told))
        rows.counts[DIFFERENT] += int(different)
    if "best_effort" in rows.header:
        best = number(rows, "best_effort") > 0
        rows.counts[BEST_EFFORT] += int(np.sum(best))
        parsed["deadline"] = np.where(best, np.nan, parsed["deadline"])
        parsed["slo_class"] = np.where(best, "best", "")
    return parsed
