"""Which rows of a published trace are jobs: the one rule, for every command and format.

A row is a job if it needs GPUs and ran: its number of GPUs and its run time are known and above 0.
A log also has rows that were cancelled before they started (status 5 and run time 0 in the
Standard Workload Format, Elapsed 0 in Slurm's), CPU jobs, and jobs without an end; none of these
ever held a GPU, and none is played. Axis: ``n`` rows.
"""

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.traces.trace import Trace


def is_job(trace: Trace) -> npt.NDArray[np.bool_]:
    """Which rows are jobs, bool ``[n]``."""
    found: npt.NDArray[np.bool_] = (trace["num_gpus"] > 0) & (trace["duration"] > 0)
    return found


def job_rows(trace: Trace) -> npt.NDArray[np.int64]:
    """The rows that are jobs, in order of submission; those of the same time keep their order.

    Raises:
      JaxschedError: no row is a job.
    """
    rows = np.flatnonzero(is_job(trace))
    if not rows.size:
        raise JaxschedError(
            f"trace '{trace.name}': no row has GPUs and a run time above 0; accepted: at least one"
        )
    return rows[np.argsort(trace["submit_time"][rows], kind="stable")].astype(np.int64)


def dropped_note(count: int) -> str:
    """What is said of the rows that are no jobs."""
    return f"{count} rows without GPUs or run time dropped"
