"""Kinds of jobs: a schema, and what rooms that know no system may ask about such jobs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.table import RIGID_JOBS, JobTable, Schema

Floats = npt.NDArray[np.float64]


def gpu_seconds(table: JobTable) -> Floats:
    """GPU time that each rigid job holds (s, ``[n]``)."""
    held: Floats = np.asarray(table["num_gpus"] * table["duration"], np.float64)
    return held


class JobKind(NamedTuple):
    """One kind of jobs.

    Attributes:
      schema: columns of its tables.
      as_rigid: a table as rigid jobs, for statistics and pictures; by default as it is.
      busy_gpu_seconds: GPU time that each job of a table keeps busy (s, ``[n]``); None: what its
        rigid jobs hold.
    """

    schema: Schema
    as_rigid: Callable[[JobTable], JobTable] = lambda table: table
    busy_gpu_seconds: Callable[[JobTable], Floats] | None = None

    def work(self, table: JobTable) -> Floats:
        """GPU time that each job of a table keeps busy (s, ``[n]``)."""
        if self.busy_gpu_seconds is not None:
            return self.busy_gpu_seconds(table)
        return gpu_seconds(self.as_rigid(table))


RIGID = JobKind(RIGID_JOBS)
