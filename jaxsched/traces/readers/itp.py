"""Reader for the traces of Microsoft's ITP clusters (2021), published with ElasticFlow (ASPLOS'23).

Two layouts: ``job_id,submission_time,duration,num_gpu``, and the one with generated models,
deadlines and batch sizes.
"""

from typing import Any

import numpy.typing as npt

from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.text import PathLike, stem
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


def read(path: PathLike) -> Trace:
    """Read an ITP table; times count from the start of the collection.

    Raises:
      JaxschedError: one line with file and line number.
    """
    return Trace(read_columns(path, HEADERS, _columns), stem(path), NAME)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    absent = float("nan")
    columns: dict[str, npt.NDArray[Any]] = {
        "submit_time": rows.numbers("submission_time", from_zero=True),
        "num_gpus": rows.numbers("num_gpu", absent=absent, from_zero=True),
        "duration": rows.numbers("duration", absent=absent, from_zero=True),
        "job_id": rows.texts("job_id"),
    }
    if "deadline" in rows.header:
        columns |= {
            "model": rows.texts("model_name"),
            "batch_size": rows.numbers("batch_size", absent=absent, from_zero=True),
            "iterations": rows.numbers("num_iteration", absent=absent, from_zero=True),
            "deadline": rows.numbers("deadline", absent=absent),
        }
    return columns
