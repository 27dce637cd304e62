"""What some traces tell beyond rigid jobs, kept as further columns of their job tables.

Systems whose jobs have more than a number of GPUs read these columns where they are there, and
derive or draw what is missing where they are not.
"""

import zlib

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.columns import Integers
from jaxsched.jobs.shares import WHOLE
from jaxsched.traces.trace import Trace, known

INSTANCES, CPUS, MEMORY, KIND = "instances", "cpus", "memory_gb", "kind"

_COUNTS = {INSTANCES: "num_instances", CPUS: "cpus", MEMORY: "memory_gb"}


def details(trace: Trace) -> dict[str, Integers]:
    """Further columns of the job table of a trace, int64 ``[n]`` each.

    ``instances``, ``cpus`` and ``memory_gb`` are of the whole job, rounded up, and are there where
    every job has one. ``kind`` is a hash (CRC-32) of what is trained, or of the user where the
    trace names no models; it is there where every job has one.
    """
    columns = {
        name: rounded_up(trace[column])
        for name, column in _COUNTS.items()
        if np.all(known(trace, column))
    }
    for column in ("model", "user"):
        if np.all(known(trace, column)):
            names, positions = np.unique(trace[column], return_inverse=True)
            hashes = np.array([kind_of(name) for name in names], np.int64)
            columns[KIND] = hashes[positions]
            break
    return columns


def kind_of(name: str) -> int:
    """The number that stands for what a job trains in column ``kind``: CRC-32 of its name."""
    return zlib.crc32(name.encode())


def rounded_up(values: npt.NDArray[np.float64]) -> Integers:
    """Numbers of GPUs or the like as whole ones; a millionth too many, as sums have, is dropped."""
    return to_whole(np.ceil(values - 1e-6))


def parts_of_gpus(gpus: npt.NDArray[np.float64]) -> Integers:
    """Column ``gpu_milli`` of jobs of so many GPUs, int64 ``[n]``: rounded up, at least 1."""
    return np.maximum(rounded_up(np.minimum(WHOLE * gpus, WHOLE)), 1)


def to_whole(values: npt.NDArray[np.float64]) -> Integers:
    """Whole floats as int64, clamped so that any fits; what is too large is refused elsewhere."""
    return np.minimum(values, 2.0**62).astype(np.int64)
