"""Reader for the Standard Workload Format, version 2.2, of the Parallel Workloads Archive.

Source: D. Feitelson's definition of the format; "Experience with using the Parallel Workloads
Archive" (JPDC 2014). A line of 18 fields per job, separated by blanks, -1 where a value is not
known; lines from ``;`` on are comments, of which the first ones describe the log. The format knows
processors only; they are taken for GPUs, which the notes of the trace say.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, count_state, finished, from_zero_on
from jaxsched.traces.readers.fields import field_rows, number
from jaxsched.traces.readers.head import Head
from jaxsched.traces.rows import Rows, join_columns
from jaxsched.traces.trace import LARGEST, Clock, Trace

Floats = npt.NDArray[np.float64]

NAME = "swf"
DESCRIPTION = "Standard Workload Format 2.2; processors are taken for GPUs"
FIELDS = (
    "job_number",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user_id",
    "group_id",
    "executable_number",
    "queue_number",
    "partition_number",
    "preceding_job",
    "think_time",
)
STATUS = {-1: "", 0: "failed", 1: "completed", 2: "", 3: "", 4: "", 5: "killed"}
PARTIAL = (2, 3, 4)
"""Status of lines that describe a part of a job's execution, besides its one summary line."""

_COMMENT = ";"
_KEY = re.compile(r"\w+", re.ASCII)
_SIZES = ("MaxProcs", "MaxNodes")
_KNOWN_KEYS = {"version", "unixstarttime", "maxjobs", "maxrecords", "maxprocs", "maxnodes"}
_GROUPS = {"queue": "queue_number", "partition": "partition_number", "group": "group_id"}


def matches(head: Head) -> bool:
    """Whether the first row is one of 18 numbers, or comments name the log as the format asks."""
    comments = []
    for line in head.text.splitlines():
        if line.lstrip().startswith(_COMMENT):
            comments.append(line.strip().removeprefix(_COMMENT))
        elif line.strip():
            cells = line.split()
            if len(cells) == len(FIELDS) and all(map(_is_number, cells)):
                return True
            break
    return any(key.lower() in _KNOWN_KEYS for key in _header(comments))


def read(path: PathLike) -> Trace:
    """Read a log in the Standard Workload Format.

    Processors are those allocated, else those asked for; ``group`` is the queue, else the
    partition, else the user's group, whichever the log knows first; ``requested_time`` is what
    its user asked for. Lines about parts of an execution and jobs without a submission time are
    dropped. Times count from 1970, in universal time, if the log says when it starts
    (``UnixStartTime``).

    Raises:
      JaxschedError: one line with file and line number, or that no job is left.
    """
    comments: list[str] = []
    counts: Counts = Counter()
    batches = field_rows(path, FIELDS, comment=_COMMENT, comments=comments, counts=counts)
    columns = join_columns([_columns(rows) for rows in batches])
    header = _header(comments)
    partial = np.isin(columns.pop("status_number"), PARTIAL)
    rows = len(partial)
    if np.all(partial | np.isnan(columns["submit_time"])):
        raise JaxschedError(
            f"{path}: none of its {rows} lines is about a whole job with a submission time; "
            "accepted: at least one"
        )
    columns = {name: values[~partial] for name, values in columns.items()}
    asked = int(np.sum(columns.pop("asked")))
    start = _start(header)
    if start is not None:
        for name in ("submit_time", "start_time", "end_time"):
            columns[name] = columns[name] + start
    columns, group = _with_group(columns)
    sizes = [f"{name} {header[name]}" for name in _SIZES if header.get(name)]
    zone = header.get("TimeZoneString", "")
    sentences = (
        (True, "processors are taken for GPUs, since the format has none"),
        (sizes, f"the log's machine has {', '.join(sizes)}"),
        (partial.any(), f"{partial.sum()} of {rows} lines are parts of executions, dropped"),
        (asked, f"{asked} jobs have the processors they asked for, since none were allocated"),
        (group and group != "queue", f"the group of a job is its {group}, queues are not known"),
        (start is not None and zone, f"times are universal, the log's time zone is {zone}"),
    )
    notes = tuple(sentence for holds, sentence in sentences if holds)
    clock: Clock = "relative" if start is None else "utc"
    return finished(path, columns, NAME, clock, counts=counts, notes=notes, rows_read=rows)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    submit, run = _known(rows, "submit_time"), _known(rows, "run_time")
    started = submit + _known(rows, "wait_time")
    allocated, asked = _known(rows, "allocated_processors"), _known(rows, "requested_processors")
    by_request = ~(allocated > 0) & (asked > 0)
    status = _status(rows)
    return {
        "submit_time": submit,
        "num_gpus": np.where(by_request, asked, allocated),
        "duration": run,
        "job_id": rows.texts("job_number"),
        "user": _names(rows, "user_id"),
        "status": np.array([STATUS[number] for number in status.tolist()], np.str_),
        "start_time": started,
        "end_time": started + run,
        "requested_time": _known(rows, "requested_time"),
        "status_number": status,
        "asked": by_request,
        **{kind: _names(rows, field) for kind, field in _GROUPS.items()},
    }


def _known(rows: Rows, field: str) -> Floats:
    """A field of numbers from 0 on, NaN for -1, and for what else is below 0, which is counted."""
    values = number(rows, field, from_zero=False)
    return from_zero_on(rows, field, np.where(values == -1, np.nan, values))


def _status(rows: Rows) -> npt.NDArray[np.int64]:
    status = rows.whole_numbers("status", absent=-1)
    strange = ~np.isin(status, list(STATUS))
    for state, count in Counter(status[strange].tolist()).items():
        count_state(rows.counts, str(state), count)
    return np.where(strange, -1, status)


def _names(rows: Rows, field: str) -> npt.NDArray[np.str_]:
    names = rows.texts(field)
    return np.where(names == "-1", "", names)


def _with_group(columns: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The columns with the first kind of group that the log knows, and that kind."""
    others = {name: values for name, values in columns.items() if name not in _GROUPS}
    for kind in _GROUPS:
        if np.any(columns[kind] != ""):
            return others | {"group": columns[kind]}, kind
    return others, ""


def _header(comments: list[str]) -> dict[str, str]:
    """What the comments say of the log; the first of several comments with the same name."""
    header: dict[str, str] = {}
    for comment in comments:
        key, colon, value = comment.partition(":")
        if colon and _KEY.fullmatch(key.strip()):
            header.setdefault(key.strip(), value.strip())
    return header


def _start(header: Mapping[str, str]) -> float | None:
    """Seconds from 1970 to the log's zero; None where it is not known (0 stands for that too)."""
    words = header.get("UnixStartTime", "").split()
    start = float(words[0]) if words and _is_number(words[0]) else 0.0
    return start if 0 < start <= LARGEST else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
