"""Reader for the traces of Microsoft's ITP clusters (2021), published with ElasticFlow (ASPLOS'23).

Two layouts: ``job_id,submission_time,duration,num_gpu``, and the one with generated models,
deadlines and batch sizes.
"""

from collections import Counter
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import renamed
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "itp"
DESCRIPTION = "Microsoft ITP (2021), as published with ElasticFlow"
HEADERS = (
    ("job_id", "submission_time", "duration", "num_gpu"),
    (
        "job_id",
        "submission_time",
        "num_iteration",
        "model_name",
        "deadline",
        "batch_size",
        "num_gpu",
        "duration",
    ),
)
matches = by_header(HEADERS)

_NAMES = {
    "submit_time": "submission_time",
    "num_gpus": "num_gpu",
    "duration": "duration",
    "job_id": "job_id",
    "model": "model_name",
    "batch_size": "batch_size",
    "iterations": "num_iteration",
    "deadline": "deadline",
}


def read(path: PathLike) -> Trace:
    """Read an ITP table; times count from the start of the collection.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, counts=counts)
    return finished(path, columns, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return renamed(rows, {name: cell for name, cell in _NAMES.items() if cell in rows.header})
