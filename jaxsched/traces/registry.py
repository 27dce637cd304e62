"""Traces by name: those that the systems ship and generate."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from jaxsched.errors import JaxschedError, check_counts
from jaxsched.files import PathLike
from jaxsched.jobs import JobTable
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

NUM_TRACES = 30  # drawn, unless asked otherwise
LISTED = 5  # names that a refusal shows


def entries() -> tuple[NamedTrace, ...]:
    """All named traces, system by system."""
    from jaxsched.systems import registry  # systems are made of traces, not traces of systems

    return tuple(trace for workload in registry.workloads() for trace in workload.traces)


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
      JaxschedError: an unknown name, or numbers that cannot be used.
    """
    check_counts(optional=True, num_traces=num_traces, num_jobs=num_jobs)
    for entry in entries():
        if entry.name == name:
            return entry.make(seed, num_traces or NUM_TRACES, num_jobs or entry.num_jobs)
    raise JaxschedError(f"unknown trace '{name}'; accepted: {nearest(name)}")


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
    if str(name_or_path) in names():
        return get(str(name_or_path), seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    if not Path(name_or_path).exists():
        raise JaxschedError(
            f"'{name_or_path}' is neither a file nor a known trace; accepted: a file of job "
            f"tables, or {nearest(str(name_or_path))}"
        )
    return load_tables(name_or_path)


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
