"""Reader for Kueue's workloads and Volcano's jobs, as ``kubectl get -A -o json`` writes them.

Both stay until the job that they belong to is deleted, so that such a list is a log of those that
are kept. Times are universal, sizes of memory in bytes.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.head import Head
from jaxsched.traces.readers.json_records import JsonRecords
from jaxsched.traces.readers.kubernetes.records import VOLCANO_GROUP, JobObject, job_object
from jaxsched.traces.text import open_text, read_head
from jaxsched.traces.trace import Trace

NAME = "kubernetes"
DESCRIPTION = "Kueue's workloads or Volcano's jobs: kubectl get, as JSON"
ACCEPTED = (
    "a list of Kueue's workloads or Volcano's jobs, or an object with such a list 'items', as "
    "kubectl writes it"
)

_GROUPS = ('"kueue.x-k8s.io/', f'"{VOLCANO_GROUP}')
_OTHERS = "{} objects of other kinds passed over"
_AGAIN = "{} objects told again (lists of several days together), of which the last counts"
_PARTS = "{} jobs that ask for parts of GPUs (MIG), which are not counted"
_NO_START = (
    "{} jobs that ended without a start, their run times not known (never admitted, or Kueue 0.15, "
    "which took admissions back)"
)


def matches(head: Head) -> bool:
    """Whether a file begins like a list of such objects."""
    text = head.text.lstrip()
    return text.startswith(("{", "[")) and any(group in text for group in _GROUPS)


def read(path: PathLike) -> Trace:
    """Read a list; ``user`` is the namespace, ``group`` the queue, ``job_id`` the uid.

    A job starts when it is admitted, the last time where it was evicted. CPUs and memory are those
    that its pods request. Of objects with the same uid the last one counts.

    Raises:
      JaxschedError: one line with record and line.
    """
    counts: Counts = Counter()
    by_uid, rows = dict[str, JobObject](), 0
    key = "items" if read_head(path).lstrip().startswith("{") else ""
    with open_text(path) as file:
        log = JsonRecords(path, file, ACCEPTED, key=key)
        for record in log:
            rows += 1
            found = job_object(record, log.fail)
            counts[_OTHERS] += found is None
            if found is not None:
                counts[_AGAIN] += found.uid in by_uid
                by_uid[found.uid] = found
    jobs = list(by_uid.values())
    if not jobs:
        raise JaxschedError(f"{path}: has no jobs; accepted: {ACCEPTED}")
    counts[_PARTS] += sum(job.demand.parts > 0 for job in jobs)
    counts[_NO_START] += sum(math.isnan(job.start) and not math.isnan(job.end) for job in jobs)
    start, end = _numbers([job.start for job in jobs]), _numbers([job.end for job in jobs])
    cpus, memory = (
        _numbers([getattr(job.demand, name) or math.nan for job in jobs])
        for name in ("cpus", "memory_gb")
    )
    columns = {
        "submit_time": _numbers([job.submit for job in jobs]),
        "num_gpus": _numbers([job.demand.gpus for job in jobs]),
        "duration": end - start,
        "job_id": np.array([job.uid for job in jobs], np.str_),
        "user": np.array([job.namespace for job in jobs], np.str_),
        "group": np.array([job.queue for job in jobs], np.str_),
        "status": np.array([job.status for job in jobs], np.str_),
        "start_time": start,
        "end_time": end,
        "num_instances": _numbers([job.demand.pods for job in jobs]),
        "cpus": cpus,
        "memory_gb": memory,
        "priority": _numbers([job.priority for job in jobs]),
        "requested_time": _numbers([job.limit_s for job in jobs]),
    }
    return finished(path, columns, NAME, "utc", counts=counts, rows_read=rows)


def _numbers(values: Sequence[float]) -> npt.NDArray[np.float64]:
    return np.array(values, np.float64)
