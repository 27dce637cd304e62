"""Reader for the job lists of Tiresias' simulator (NSDI'19), the ancestor of several others.

Two layouts: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``, and an older
one with start times, of which the published sample repeats a row. Beside them the simulator has
lists of GPU times (one column, ``duration``), which are no trace.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import renamed
from jaxsched.traces.readers.head import by_header, head_of
from jaxsched.traces.readers.without_times import refuse
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "tiresias"
DESCRIPTION = "Tiresias (NSDI'19) job list"
HEADERS = (
    ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"),
    (
        "job_id",
        "num_gpu",
        "submit_time",
        "start_time",
        "duration",
        "model_size",
        "aggr_interval",
        "model_name",
        "model_scale",
    ),
)
GPU_TIMES = ("duration",)
REPEATED = "{} rows equal to earlier ones dropped"
matches = by_header((*HEADERS, GPU_TIMES))

JOB_LIST = {
    "submit_time": "submit_time",
    "num_gpus": "num_gpu",
    "duration": "duration",
    "job_id": "job_id",
    "model": "model_name",
    "iterations": "iterations",
}
"""Canonical names of the columns that Tiresias' descendants share."""


def read(path: PathLike) -> Trace:
    """Read a Tiresias job list; times count from an origin of its own, repeated rows are dropped.

    Raises:
      JaxschedError: one line with file and line number, or that the file holds GPU times.
    """
    if head_of(path).header == GPU_TIMES:
        refuse(path, "GPU times of jobs")
    counts: Counts = Counter()
    seen: set[tuple[str, ...]] = set()

    def columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
        first = []
        for cells in map(tuple, rows.cells):
            first.append(cells not in seen)
            seen.add(cells)
        names = {name: cell for name, cell in JOB_LIST.items() if cell in rows.header}
        if "start_time" in rows.header:
            names["start_time"] = "start_time"
        rows.counts[REPEATED] += first.count(False)
        kept = np.array(first, np.bool_)
        return {name: values[kept] for name, values in renamed(rows, names).items()}

    table = read_columns(path, HEADERS, columns, counts=counts)
    rows_read = len(table["submit_time"]) + counts[REPEATED]
    return finished(path, table, NAME, counts=counts, rows_read=rows_read)
