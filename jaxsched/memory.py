"""How much memory the machine has free, and whether something fits."""

from pathlib import Path

from jaxsched.errors import JaxschedError

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
FEW_JOBS = 1_000_000
"""Fewer fit everywhere."""


def free_bytes() -> int | None:
    """What this process may still take of the machine's memory; None where it is not known."""
    found = [size for size in (_free_of_machine(), _free_of_group()) if size is not None]
    return min(found) if found else None


def check_jobs_fit(num_jobs: int, bytes_each: float, asked: str) -> None:
    """Refuse more jobs than fit into memory before any is made.

    Args:
      num_jobs: of all tables together.
      bytes_each: memory that a job takes while it is made and written.
      asked: what was asked for, such as ``num_jobs is 2,147,483,647``.

    Raises:
      JaxschedError: they need more than is free; the message says how many fit.
    """
    if num_jobs < FEW_JOBS:
        return
    free = free_bytes()
    if free is None or num_jobs * bytes_each <= free:
        return
    raise JaxschedError(
        f"{asked}: that needs about {in_words(round(num_jobs * bytes_each))} of memory, and "
        f"{in_words(free)} are free; accepted: up to {int(free / bytes_each):,} jobs in all"
    )


def in_words(size: int) -> str:
    """Bytes with three figures: 512 B, 1.23 MB, 45.6 GB, 2.1 TB (powers of 1000)."""
    for limit, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= limit:
            return f"{size / limit:.3g} {unit}"
    return f"{size} B"


def _free_of_machine() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _free_of_group() -> int | None:
    """What a container or a job may still take."""
    try:
        most = (CGROUP / "memory.max").read_text().strip()
        used = (CGROUP / "memory.current").read_text().strip()
    except OSError:
        return None
    return int(most) - int(used) if most.isdecimal() and used.isdecimal() else None
