"""Reader for the traces of Crius: days of Alibaba PAI and of Helios' cluster Venus.

Submission times and GPU counts are real, models and kinds of GPU reassigned by the source, run
times not given. Times are those of the origin: PAI's own clock, or seconds from 1970 in universal
time for Venus; the file does not say which, so times late enough are taken for the second.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import renamed, unknown
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.times import UNIX_FROM_S
from jaxsched.traces.trace import Clock, Trace

NAME = "crius"
DESCRIPTION = "Crius, days of Alibaba PAI and Helios Venus; no run times"
HEADERS = (
    (
        "job_id",
        "submission_time",
        "num_iteration",
        "model_name",
        "deadline",
        "batch_size",
        "num_gpu",
        "gpu_type",
    ),
)
matches = by_header(HEADERS)

_NAMES = {
    "submit_time": "submission_time",
    "num_gpus": "num_gpu",
    "job_id": "job_id",
    "gpu_type": "gpu_type",
    "model": "model_name",
    "batch_size": "batch_size",
    "iterations": "num_iteration",
    "deadline": "deadline",
}


def read(path: PathLike) -> Trace:
    """Read a Crius table; run times are not known, deadlines are on the clock of submissions.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, counts=counts)
    is_unix = bool(np.nanmin(columns["submit_time"], initial=np.inf) >= UNIX_FROM_S)
    notes = (f"run times of {len(columns['duration'])} jobs not known, since the file has none",)
    clock: Clock = "utc" if is_unix else "relative"
    return finished(path, columns, NAME, clock, counts=counts, notes=notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return renamed(rows, _NAMES) | {"duration": unknown(rows)}
