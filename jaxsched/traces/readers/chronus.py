"""Reader for the traces of Chronus (SoCC'21): Philly's jobs, squeezed in time, with deadlines.

Layout: that of Tiresias' job lists, with a virtual cluster, deadlines and what meeting them is
worth. The scheduler of the artifact counts expected times from the submission, and takes the first
as the deadline; so does this reader. Soft jobs have further ones, at which they are worth less.
For best-effort jobs the column repeats the submission time and means nothing. Times are in the unit
of the artifact's scheduler, taken as seconds; it leaves out jobs without GPUs, which are kept here.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, renamed, words
from jaxsched.traces.readers.layouts import Layout, Layouts
from jaxsched.traces.readers.tiresias import JOB_LIST
from jaxsched.traces.rows import Rows
from jaxsched.traces.trace import LARGEST, Trace

NAME = "chronus"
DESCRIPTION = "Chronus (SoCC'21), Philly's jobs with deadlines"
HEADERS = (
    (
        "job_id",
        "user",
        "num_gpu",
        "submit_time",
        "iterations",
        "model_name",
        "duration",
        "interval",
        "expect_time_list",
        "expect_value_list",
        "best_effort",
        "job_type",
    ),
)
LAYOUTS = Layouts(
    Layout(
        HEADERS[0],
        ("job_id", "iterations", "model_name", "interval", "expect_value_list", "best_effort")
        + ("batch_size",),
    )
)
matches = LAYOUTS.matches
CLASSES = ("strict", "soft", "best")
MOST_DIGITS = 18
"""Of times that are read: text of any length costs no more."""


def read(path: PathLike) -> Trace:
    """Read a Chronus table; ``group`` is the virtual cluster, as in the traces of Philly.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    table = LAYOUTS.read(path, _columns, counts)
    none = int(np.sum(table["num_gpus"] == 0))
    note = f"{none} of {len(table['num_gpus'])} jobs ask for no GPU, kept with 0"
    return finished(path, table, NAME, counts=counts, notes=(note,) if none else ())


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    parsed = renamed(rows, JOB_LIST)
    classes = _classes(rows)
    expected, numbers = _expected(rows, classes)
    rows.counts["{} jobs have later deadlines of less value, left out"] += int(np.sum(numbers > 1))
    users = rows.texts("user").tolist()
    return parsed | {
        "group": np.array([user.removeprefix("vc_") for user in users], np.str_),
        "deadline": parsed["submit_time"] + expected,
        "slo_class": classes,
    }


def _classes(rows: Rows) -> npt.NDArray[np.str_]:
    return np.array(words(rows, "job_type", CLASSES, "class"), np.str_)


def _expected(
    rows: Rows, classes: npt.NDArray[np.str_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """First expected time (s from submission; NaN for best effort) and number of them, ``[n]``."""
    first, numbers, strange = [], [], 0
    for row, cell in enumerate(rows.texts("expect_time_list").tolist()):
        steps = [] if classes[row] == "best" or not cell else cell.split("-")
        if not all(map(_is_time, steps)):
            steps, strange = [], strange + 1
        first.append(float(steps[0]) if steps else NAN)
        numbers.append(len(steps))
    rows.counts["{} jobs whose expect_time_list is no times, their deadline not known"] += strange
    return np.array(first, np.float64), np.array(numbers, np.int64)


def _is_time(text: str) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return is_number and int(text) <= LARGEST
