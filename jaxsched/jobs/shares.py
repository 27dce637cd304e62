"""Shares of a GPU in job tables: column ``gpu_milli``, and the slots that jobs hold.

Axes: ``n`` jobs.
"""

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.columns import Integers
from jaxsched.jobs.table import Column, JobTable

WHOLE = 1000
GPU_MILLI = Column(
    "gpu_milli", 1, WHOLE, "1/1000 GPU", "the part of its GPU that a job of one GPU asks for"
)
"""Column of job tables, optional; without it all jobs are of whole GPUs."""


def slots_of(table: JobTable, slots: int) -> Integers:
    """Slots that each job holds where every GPU has ``slots``, int64 ``[n]``; GPUs where it is 1.

    Parts of a GPU are rounded up to slots.
    """
    found = table["num_gpus"] * slots
    if slots == 1 or GPU_MILLI.name not in table.columns:
        return found
    part = -(-table[GPU_MILLI.name] * slots // WHOLE)
    return np.where(table["num_gpus"] == 1, part, found)


def part_held(table: JobTable, slots: int) -> npt.NDArray[np.float64]:
    """What each job holds of the GPUs that it counts, float64 ``[n]``: 1, or slots over a GPU's."""
    if slots == 1:
        return np.ones(len(table))
    return slots_of(table, slots) / (table["num_gpus"] * slots)
