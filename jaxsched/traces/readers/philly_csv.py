"""Reader for the table of successful jobs of Microsoft's Philly cluster (2017).

Source: "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (ATC'19),
in the layout ``timestamp,duration,num_gpus,gpu_time,cluster``. Time stamps are naive local times;
rows are in the order of the source's log, not of submission.
"""

from collections import Counter
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, renamed
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "philly-csv"
DESCRIPTION = "Microsoft Philly (2017), table of successful jobs"
HEADERS = (("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),)
matches = by_header(HEADERS)

_NAMES = {"num_gpus": "num_gpus", "duration": "duration", "group": "cluster"}


def read(path: PathLike) -> Trace:
    """Read a Philly table; ``group`` is the virtual cluster.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = read_columns(path, HEADERS, _columns, counts=counts)
    return finished(path, columns, NAME, "local", counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    return {"submit_time": rows.stamps("timestamp", absent=NAN)} | renamed(rows, _NAMES)
