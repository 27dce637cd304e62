"""Reader for Alibaba's spot-GPU trace of 2026, ``job_info_df.csv``: high-priority and spot jobs.

Source: the README of ``cluster-trace-v2026-spot-gpu`` in alibaba/clusterdata, published with GFS
(ASPLOS'26). Requests are those of one worker, as the README's examples show (one GPU, 94 workers);
a job's GPUs and cores are its workers' together. Submission times count from the first job's. The
README and the released tables order columns differently, so any order is accepted. The servers
(``node_info_df.csv``) are not read.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, number, renamed, words
from jaxsched.traces.readers.layouts import Layout, Layouts
from jaxsched.traces.rows import Rows
from jaxsched.traces.trace import Trace

NAME = "spot-gpu"
DESCRIPTION = "Alibaba spot GPUs (2026), high-priority and spot jobs"
COLUMNS = (
    "job_name",
    "organization",
    "gpu_model",
    "cpu_request",
    "gpu_request",
    "worker_num",
    "submit_time",
    "duration",
    "job_type",
)
LAYOUTS = Layouts(Layout(COLUMNS, ("job_name", "organization", "gpu_model", "cpu_request")))
matches = LAYOUTS.matches
PRIORITY = {"HP": 1.0, "Spot": 0.0}

_NAMES = {
    "submit_time": "submit_time",
    "duration": "duration",
    "job_id": "job_name",
    "group": "organization",
    "gpu_type": "gpu_model",
    "num_instances": "worker_num",
}


def read(path: PathLike) -> Trace:
    """Read the jobs; ``priority`` is 1 for high-priority and 0 for spot jobs.

    ``group`` is the organization that pays.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    columns = LAYOUTS.read(path, _columns, counts, large_by_arrow=True)
    note = "GPUs and cores are those of one worker times the workers"
    return finished(path, columns, NAME, counts=counts, notes=(note,))


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    workers = columns["num_instances"]
    columns["num_gpus"] = number(rows, "gpu_request") * workers
    if "cpu_request" in rows.header:
        columns["cpus"] = number(rows, "cpu_request") * workers
    return columns | {"priority": _priorities(rows)}


def _priorities(rows: Rows) -> npt.NDArray[np.float64]:
    kinds = words(rows, "job_type", PRIORITY, "priority")
    return np.array([PRIORITY.get(kind, NAN) for kind in kinds], np.float64)
