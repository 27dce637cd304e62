"""A name that stands for job tables, and the files that the project ships."""

from collections.abc import Callable
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from jaxsched.jobs import RIGID_JOBS, JobTable, Schema
from jaxsched.traces.csv_tables import read_tables

Make = Callable[[int, int, int], list[JobTable]]


class NamedTrace(NamedTuple):
    """A name that stands for job tables.

    Attributes:
      name: the name.
      description: one line.
      seeded: whether the seed and the numbers of traces and jobs matter.
      make: ``make(seed, num_traces, num_jobs)``; the arguments are ignored unless ``seeded``.
      num_jobs: jobs of each trace, unless asked otherwise; 0: traces differ in it.
    """

    name: str
    description: str
    seeded: bool
    make: Make
    num_jobs: int = 1000


def data_file(file: str) -> Traversable:
    """A file of the package's ``data`` folder."""
    return resources.files("jaxsched.traces") / "data" / file


def shipped_tables(file: str, schema: Schema = RIGID_JOBS) -> list[JobTable]:
    """The job tables of a file of the ``data`` folder."""
    with resources.as_file(data_file(file)) as path:
        return read_tables(path, schema=schema)
