"""Reader for the job logs of Shanghai AI Lab's Acme (2023), ``trace_seren`` and ``trace_kalos``.

Source: "Characterization of Large Language Model Development in the Datacenter" (NSDI'24) and the
README of the release. The columns are those of Helios' logs without virtual clusters, and with the
kind of work (``type``: pretraining, evaluation, ...) and ``gpu_time``; Kalos' log has four further
ones. Times carry their zone: Seren's are local (UTC+8), Kalos' universal. Jobs without GPUs are
kept. Three of Kalos' 62,413 jobs were still running when the log was taken (counted by users of the
release, whose README names ended jobs only); they have no end.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, renamed, slurm_statuses, with_both
from jaxsched.traces.readers.head import by_header
from jaxsched.traces.readers.helios import STATES
from jaxsched.traces.rows import Rows, read_columns
from jaxsched.traces.trace import Clock, Trace

NAME = "acme"
DESCRIPTION = "Shanghai AI Lab Acme (2023), job log of Seren or Kalos"
_FIRST = ("job_id", "user", "node_num", "gpu_num", "cpu_num")
_KIND = ("type", "state", "submit_time", "start_time", "end_time")
_LAST = ("duration", "queue", "gpu_time")
HEADERS = (
    (*_FIRST, *_KIND, *_LAST),
    (*_FIRST, "mem_per_pod_GB", "shared_mem_per_pod", *_KIND, "fail_time", "stop_time", *_LAST),
)
matches = by_header(HEADERS)

_NAMES = {
    "num_gpus": "gpu_num",
    "duration": "duration",
    "job_id": "job_id",
    "user": "user",
    "model": "type",
    "num_nodes": "node_num",
    "cpus": "cpu_num",
}
_UTC = ("+00:00", "+0000")


def read(path: PathLike) -> Trace:
    """Read an Acme log; ``model`` is the kind of work, since the log names no models.

    The run time is that from start to end, as the release describes it. Kalos' log counts it from
    the submission (as in the examples there); the notes say how many were mended.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    parts = read_columns(path, HEADERS, _columns, large_by_arrow=True, counts=counts)
    universal = parts.pop("is_utc")
    clock: Clock = "utc" if np.all(universal) else "local"
    duration, span = parts["duration"], parts["end_time"] - parts["start_time"]
    other = span >= 0
    other &= np.abs(duration - span) >= 1
    parts["duration"] = np.where(other, span, duration)
    mixed = int(np.sum(universal)) if clock == "local" else 0
    sentences = (
        (other.sum(), f"{other.sum()} run times are not those from start to end, which are taken"),
        (mixed, f"{mixed} submissions are in universal time, others are not; zones were dropped"),
    )
    notes = tuple(sentence for number, sentence in sentences if number)
    return finished(path, parts, NAME, clock, counts=counts, notes=notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    start, end = rows.stamps("start_time", absent=NAN), rows.stamps("end_time", absent=NAN)
    columns["duration"] = with_both(rows, start, end, columns["duration"])
    zones = [cell.strip().endswith(_UTC) for cell in rows.column("submit_time")]
    return columns | {
        "submit_time": rows.stamps("submit_time", absent=NAN),
        "status": slurm_statuses(rows, "state", STATES),
        "start_time": start,
        "end_time": end,
        "is_utc": np.array(zones, np.bool_),
    }
