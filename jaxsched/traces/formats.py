"""Which format a trace file has, told by its header line."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jaxsched.elastic.schemas import CHIC_JOBS, DL2_JOBS
from jaxsched.errors import JaxschedError
from jaxsched.gang import GANG_JOBS
from jaxsched.jobs import RIGID_JOBS, JobTable
from jaxsched.task_graph import TASK_JOBS
from jaxsched.traces import csv_tables, itp, philly
from jaxsched.traces.raw import RawTrace
from jaxsched.traces.rows import PathLike, Rows, read_rows


class Format(NamedTuple):
    """A trace format: its name, the header lines it is told by, and its reader."""

    name: str
    headers: tuple[tuple[str, ...], ...]
    read: Callable[[Rows], "list[JobTable] | RawTrace"]


FORMATS = (
    *(
        Format(
            "jaxsched",
            csv_tables.headers(schema),
            partial(csv_tables.tables_from_rows, schema=schema),
        )
        for schema in (RIGID_JOBS, DL2_JOBS, CHIC_JOBS, GANG_JOBS, TASK_JOBS)
    ),
    Format(philly.NAME, philly.HEADERS, philly.from_rows),
    Format(itp.NAME, itp.HEADERS, itp.from_rows),
)


def recognise(header: tuple[str, ...]) -> Format | None:
    """The format with exactly this header line; None if there is none."""
    return next((entry for entry in FORMATS if header in entry.headers), None)


def load(path: PathLike) -> "list[JobTable] | RawTrace":
    """Read a trace file of any known format, plain or gzip.

    Returns:
      Job tables for the project's own format, else a ``RawTrace``, which
      ``jaxsched.traces.mapping.import_trace`` turns into job tables.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    rows = read_rows(path, [header for entry in FORMATS for header in entry.headers])
    entry = recognise(rows.header)
    assert entry is not None, "read_rows accepts known headers only"
    return entry.read(rows)


def load_tables(path: PathLike) -> list[JobTable]:
    """Read a file of job tables; a published trace is refused, since it must be imported first.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    loaded = load(path)
    if isinstance(loaded, RawTrace):
        raise JaxschedError(
            f"{path}: is a published trace ({loaded.source}); accepted: job tables, as "
            "'jaxsched traces import' makes them of such a trace"
        )
    return loaded
