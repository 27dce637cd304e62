"""Reader for the job samples of Alibaba's PAI cluster that come with its simulator.

Source: "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters" (NSDI'22), files ``pai_job_no_estimate_100K.csv`` and
``pai_job_duration_estimate_100K.csv``; the latter adds waiting times, groups of repeated jobs and
estimates of run times, which are left out here.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import number
from jaxsched.traces.readers.head import Head
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "pai-simulator"
DESCRIPTION = "Alibaba PAI (2020), job sample of its simulator"
BASE = (
    "job_id",
    "num_inst",
    "submit_time",
    "num_cpu",
    "num_gpu",
    "gpu_type",
    "duration",
    "user",
)
ESTIMATES = ("wait_time", "user_dur", "user_gpu_dur", "group", "group_dur", "group_gpu_dur")

_DECIMALS = 6  # of demands: 50 times 0.14 GPUs are 7, not a little more


def _is_header(names: tuple[str, ...]) -> bool:
    return set(BASE) <= set(names) <= {*BASE, *ESTIMATES} and len(set(names)) == len(names)


def matches(head: Head) -> bool:
    """Whether the header is that of a sample; the order of its columns does not matter."""
    return _is_header(head.header)


def read(path: PathLike) -> Trace:
    """Read a sample; ``num_cpu`` and ``num_gpu`` (parts of a GPU allowed) are those of an instance.

    Raises:
      JaxschedError: one line with file and line number.
    """
    accepted = f"{','.join(BASE)} and any of {','.join(ESTIMATES)}"
    counts: Counts = Counter()
    columns = read_columns(path, _is_header, _columns, accepted=accepted, counts=counts)
    return finished(path, columns, NAME, counts=counts)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    instances = number(rows, "num_inst")
    submit = number(rows, "submit_time", from_zero=False)
    duration = number(rows, "duration", from_zero=False)
    kinds = rows.texts("gpu_type")
    columns: dict[str, npt.NDArray[Any]] = {
        "submit_time": submit,
        "num_gpus": np.round(number(rows, "num_gpu") * instances, _DECIMALS),
        "duration": duration,
        "job_id": rows.texts("job_id"),
        "user": rows.texts("user"),
        "num_instances": instances,
        "cpus": np.round(number(rows, "num_cpu") * instances, _DECIMALS),
        "gpu_type": np.where(kinds == "CPU", "", kinds),
    }
    if "group" in rows.header:
        columns["group"] = rows.texts("group")
    if "wait_time" in rows.header:
        start = submit + number(rows, "wait_time")
        columns |= {"start_time": start, "end_time": start + duration}
    return columns
