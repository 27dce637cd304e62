"""Reader for the traces of Muri (SIGCOMM'22): Philly's jobs with drawn models and stage times.

Times are in milliseconds. Models and priorities were drawn at random by the source; the times that
an iteration spends on each of three resources are left out.
"""

from collections import Counter
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import renamed
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.readers.tiresias import JOB_LIST
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "muri"
DESCRIPTION = "Muri (SIGCOMM'22), four virtual clusters of Philly, in milliseconds"
HEADERS = (
    (
        "job_id",
        "num_gpu",
        "submit_time",
        "iterations",
        "model_name",
        "batch_size",
        "duration",
        "interval",
        "iteration_time",
        "resource_time_0",
        "resource_time_1",
        "resource_time_2",
        "priority",
    ),
)
matches = by_header(HEADERS)

_NAMES = JOB_LIST | {"batch_size": "batch_size", "priority": "priority"}
_MS_PER_S = 1000


def read(path: PathLike) -> Trace:
    """Read a Muri table; times count from the first job of the virtual cluster.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, counts=counts)
    return finished(path, columns, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return renamed(rows, _NAMES, ticks_per_s=_MS_PER_S)
