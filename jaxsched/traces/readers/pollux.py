"""Reader for the workloads of Pollux (OSDI'21), which its successors use as well.

Layout ``name,time,application,num_replicas,batch_size``: jobs sampled from Microsoft's traces, with
models and settings of the paper. How long a job runs follows from measured step times and its
allocation; the file has no run times, and none are made up here.
"""

from collections import Counter
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import renamed, unknown
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "pollux"
DESCRIPTION = "Pollux (OSDI'21) workload; no run times"
HEADERS = (("name", "time", "application", "num_replicas", "batch_size"),)
matches = by_header(HEADERS)

_NAMES = {
    "submit_time": "time",
    "num_gpus": "num_replicas",
    "job_id": "name",
    "num_instances": "num_replicas",
    "model": "application",
    "batch_size": "batch_size",
}


def read(path: PathLike) -> Trace:
    """Read a Pollux workload; every replica has one GPU, and run times are not known.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, counts=counts)
    notes = (f"run times of {len(columns['duration'])} jobs not known, since the file has none",)
    return finished(path, columns, NAME, counts=counts, notes=notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return renamed(rows, _NAMES) | {"duration": unknown(rows)}
