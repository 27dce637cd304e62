"""Reader for the pod lists of Alibaba's cluster trace of 2023 ("openb").

Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (ATC'23), files ``openb_pod_list_*.csv``. A pod is a job of one instance; times count from
an origin that is not disclosed. ``pod_phase`` is the state when the list was taken, so that pods
that were running have a deletion time too.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import number, statuses
from jaxsched.traces.readers.head import Head, head_of
from jaxsched.traces.readers.without_times import refuse
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Trace

NAME = "openb"
DESCRIPTION = "Alibaba openb (2023), pods with shares of GPUs"
HEADER = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
WITHOUT_TIMES = HEADER[:5]
NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
PHASES = {
    "Running": "running",
    "Succeeded": "completed",
    "Failed": "failed",
    "Pending": "pending",
    "Unknown": "",
}


def matches(head: Head) -> bool:
    """Whether a file is one of the trace's, those included that hold no jobs in time."""
    return head.header in (HEADER, WITHOUT_TIMES, NODES)


def read(path: PathLike) -> Trace:
    """Read a list of pods; ``group`` is the class of service, ``num_gpus`` may be a share.

    Memory is in units of 1024 MiB, run times last from scheduling to deletion.

    Raises:
      JaxschedError: one line with file and line number; also for the trace's lists of machines
        and of pods without times.
    """
    header = head_of(path).header
    if header == WITHOUT_TIMES:
        refuse(path, "demands of pods")
    if header == NODES:
        raise JaxschedError(
            f"{path}: is a list of machines; accepted: a list of pods with their times, such as "
            "openb_pod_list_default.csv"
        )
    counts: Counts = Counter()
    columns = read_columns(path, (HEADER,), _columns, counts=counts)
    start, end = columns["start_time"], columns["end_time"]
    sentences = (
        (int(np.sum(np.isnan(start))), "never scheduled"),
        (int(np.sum(~np.isnan(start) & np.isnan(end))), "not deleted"),
    )
    notes = tuple(
        f"{number} pods {what}, their run times not known" for number, what in sentences if number
    )
    return finished(path, columns, NAME, counts=counts, notes=notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    start = number(rows, "scheduled_time", from_zero=False)
    end = number(rows, "deletion_time", from_zero=False)
    return {
        "submit_time": number(rows, "creation_time", from_zero=False),
        "num_gpus": number(rows, "num_gpu") * number(rows, "gpu_milli") / 1000,
        "duration": end - start,
        "job_id": rows.texts("name"),
        "group": rows.texts("qos"),
        "status": statuses(rows, "pod_phase", PHASES),
        "start_time": start,
        "end_time": end,
        "num_instances": np.ones(len(rows.cells)),
        "cpus": number(rows, "cpu_milli") / 1000,
        "memory_gb": number(rows, "memory_mib") / 1024,
        "gpu_type": rows.texts("gpu_spec"),
    }
