"""Reader for the table of successful jobs of Microsoft's Philly cluster (2017).

Source: "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (ATC'19),
in the layout ``timestamp,duration,num_gpus,gpu_time,cluster``. Time stamps are naive local times;
rows are in the order of the source's log, not of submission.
"""

import re

import numpy as np
import numpy.typing as npt

from jaxsched.jobs import describe_value
from jaxsched.traces.raw import RawTrace
from jaxsched.traces.rows import PathLike, Rows, read_rows, stem

NAME = "philly"
HEADERS = (("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),)

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", re.ASCII)


def read(path: PathLike) -> RawTrace:
    """Read a Philly table; ``submit_s`` counts naive seconds from 1970, ``group`` is the VC.

    Raises:
      JaxschedError: one line with file and line number.
    """
    return from_rows(read_rows(path, HEADERS))


def from_rows(rows: Rows) -> RawTrace:
    """The trace in a file that has been split into cells."""
    num_gpus = rows.whole_numbers("num_gpus", absent=0)
    duration = rows.numbers("duration", absent=float("nan"))
    rows.not_negative("num_gpus", num_gpus)
    rows.not_negative("duration", duration)
    return RawTrace(
        name=stem(rows.path),
        source=NAME,
        submit_s=_seconds(rows, "timestamp"),
        num_gpus=num_gpus,
        duration_s=duration,
        group=np.array(rows.column("cluster"), np.str_),
    )


def _seconds(rows: Rows, name: str) -> npt.NDArray[np.float64]:
    stamps = rows.column(name)
    for row, stamp in enumerate(stamps):
        if not _STAMP.fullmatch(stamp):
            _refuse(rows, row, name, stamp)
    try:
        return np.array(stamps, "datetime64[s]").astype(np.float64)
    except ValueError:  # a day or an hour that does not exist
        for row, stamp in enumerate(stamps):
            try:
                np.datetime64(stamp, "s")
            except ValueError:
                _refuse(rows, row, name, stamp)
        raise


def _refuse(rows: Rows, row: int, name: str, stamp: str) -> None:
    rows.fail(row, f"{name} is {describe_value(stamp)}; accepted: YYYY-MM-DD HH:MM:SS")
