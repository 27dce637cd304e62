"""Reader for the traces of Microsoft's ITP clusters (2021), published with ElasticFlow (ASPLOS'23).

Two layouts: ``job_id,submission_time,duration,num_gpu``, and the one with generated models and
deadlines, of which only the same four columns are read.
"""

import numpy as np

from jaxsched.traces.raw import RawTrace
from jaxsched.traces.rows import PathLike, Rows, read_rows, stem

NAME = "itp"
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


def read(path: PathLike) -> RawTrace:
    """Read an ITP table; ``submit_s`` counts from the start of the collection.

    Raises:
      JaxschedError: one line with file and line number.
    """
    return from_rows(read_rows(path))


def from_rows(rows: Rows) -> RawTrace:
    """The trace in a file that has been split into cells."""
    submit = rows.numbers("submission_time")
    num_gpus = rows.whole_numbers("num_gpu", absent=0)
    duration = rows.numbers("duration", absent=float("nan"))
    columns = (("submission_time", submit), ("num_gpu", num_gpus), ("duration", duration))
    for name, values in columns:
        negative = np.flatnonzero(values < 0)
        if negative.size:
            row = int(negative[0])
            rows.fail(row, f"{name} is {values[row]:g}; accepted: a number from 0 on")
    return RawTrace(stem(rows.path), NAME, submit, num_gpus, duration)
