"""Reader for the trace of one Philly cluster that ElasticFlow's simulator (ASPLOS'23) ships.

Models, batch sizes and deadlines were drawn by the source; some deadlines cannot be met on purpose.
``real_duration`` and ``real_iteration`` are the job's own, ``duration`` and ``iteration`` what the
simulator was told; in the published file they are equal. (For the ITP traces see ``itp``.)
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import number, renamed
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "elasticflow"
DESCRIPTION = "ElasticFlow (ASPLOS'23), a Philly cluster with deadlines"
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
)
DIFFERENT = "{} jobs have a duration other than their real_duration, which is taken"
matches = by_header(HEADERS)

_NAMES = {
    "submit_time": "submit_time",
    "num_gpus": "num_gpu",
    "duration": "real_duration",
    "job_id": "job_id",
    "model": "model_name",
    "batch_size": "batch_size",
    "iterations": "real_iteration",
    "deadline": "ddl",
}


def read(path: PathLike) -> Trace:
    """Read an ElasticFlow table; times count from its first job, deadlines as well.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    table = read_columns(path, HEADERS, _columns, counts=counts)
    return finished(path, table, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    parsed = renamed(rows, _NAMES)
    told = number(rows, "duration", from_zero=False)
    different = np.sum((told != parsed["duration"]) & ~np.isnan(told))
    rows.counts[DIFFERENT] += int(different)
    return parsed
