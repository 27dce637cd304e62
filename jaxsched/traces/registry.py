"""Traces by name: those that are offered (``jaxsched.offers``), shipped or generated."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from jaxsched import offers
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.files import PathLike
from jaxsched.jobs import JobTable
from jaxsched.memory import check_jobs_fit
from jaxsched.traces.formats import load_tables
from jaxsched.traces.named import NamedTrace, data_file

__all__ = [
    "NUM_TRACES",
    "NamedTrace",
    "data_file",
    "entries",
    "get",
    "names",
    "nearest",
    "nearest_of",
    "resolve",
]

BYTES_EACH = 500  # of memory, for a job while its table is made and written
NUM_TRACES = 30  # drawn, unless asked otherwise
LISTED = 5  # names that a refusal shows


def entries() -> tuple[NamedTrace, ...]:
    """All named traces, in the order of the offers."""
    return tuple(trace for workload in offers.workloads() for trace in workload.traces)


def names() -> tuple[str, ...]:
    """The names of all named traces."""
    return tuple(entry.name for entry in entries())


def get(
    name: str, *, seed: int = 0, num_traces: int | None = None, num_jobs: int | None = None
) -> list[JobTable]:
    """The tables of a named trace.

    Args:
      name: one of ``names()``.
      seed: for generated and resampled traces; shipped ones ignore it and the numbers.
      num_traces: how many traces; 30 by default.
      num_jobs: jobs of each; as many as the trace's entry says by default.

    Raises:
      JaxschedError: an unknown name, numbers that cannot be used, or more jobs than fit into
        memory.
    """
    check_counts(optional=True, num_traces=num_traces, num_jobs=num_jobs)
    for entry in entries():
        if entry.name == name:
            tables, jobs = num_traces or NUM_TRACES, num_jobs or entry.num_jobs
            if entry.seeded:
                asked = f"{tables:,} traces of {jobs:,} jobs"
                check_jobs_fit(tables * max(jobs, 1), BYTES_EACH, asked)
            return entry.make(seed, tables, jobs)
    raise JaxschedError(f"unknown trace '{name}'; accepted: {nearest(name)}")


def num_jobs_of(name: str, num_traces: int | None, num_jobs: int | None) -> int:
    """Jobs of all tables together that ``get`` would draw; 0 where the trace alone says it."""
    for entry in entries():
        if entry.name == name and entry.seeded:
            return (num_traces or NUM_TRACES) * (num_jobs or entry.num_jobs)
    return 0


def resolve(
    name_or_path: PathLike,
    *,
    seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
) -> list[JobTable]:
    """The tables of a named trace or of a file of job tables.

    Raises:
      JaxschedError: neither a known name nor a readable file of job tables.
    """
    if is_name(name_or_path, "a file of job tables"):
        return get(str(name_or_path), seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    return load_tables(name_or_path)


def is_name(name_or_path: PathLike, file: str, more: Sequence[str] = ()) -> bool:
    """Whether a word names a trace; else it is an existing file.

    Args:
      name_or_path: the word.
      file: what is accepted beside names, for the refusal.
      more: names that would do beside ``names()``, for the refusal.

    Raises:
      JaxschedError: neither a known name nor an existing file.
    """
    word = str(name_or_path)
    if word in names():
        return True
    if not Path(name_or_path).exists():
        raise JaxschedError(
            f"'{word}' is neither a file nor a known trace; accepted: {file}, or "
            f"{nearest(word, more)}"
        )
    return False


def nearest(name: str, more: Sequence[str] = ()) -> str:
    """The names most like a wrong one, in words, and where all names are.

    Args:
      name: the wrong one.
      more: names that would do beside ``names()``.
    """
    return nearest_of(name, [*names(), *more])


def nearest_of(name: str, known: Sequence[str]) -> str:
    """The same, of these names, of which there are more than are listed."""
    found = difflib.get_close_matches(name, known, n=LISTED, cutoff=0.0)
    return f"{', '.join(found)} or one of {len(known) - LISTED} others ('jaxsched traces list')"
