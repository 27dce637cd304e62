"""Reader for the traces of Crius: days of Alibaba PAI and of Helios' cluster Venus.

Submission times and GPU counts are real, models and kinds of GPU reassigned by the source, run
times not given. Times are those of the origin: PAI's own clock, or seconds from 1970 in universal
time for Venus; the file does not say which, so times late enough are taken for the second.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.readers.fields import renamed, unknown
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.text import stem
from jaxsched.traces.trace import Trace

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

UNIX_FROM_S = 1e9
"""From here on (September 2001) times count from 1970; PAI's clock spans some months."""

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
    columns = read_columns(path, HEADERS, _columns)
    is_unix = bool(np.all(columns["submit_time"] >= UNIX_FROM_S))
    notes = (f"run times of {len(columns['duration'])} jobs not known, since the file has none",)
    return Trace(columns, stem(path), NAME, "utc" if is_unix else "relative", notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return renamed(rows, _NAMES) | {"duration": unknown(rows)}
