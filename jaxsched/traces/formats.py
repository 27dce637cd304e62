"""Which format a trace file has, told by its content, and how it is read."""

from collections.abc import Callable
from typing import NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import RIGID_JOBS, JobTable, Schema
from jaxsched.jobs.columns import describe_value
from jaxsched.traces import csv_tables, trace_files
from jaxsched.traces.job_kinds import job_kinds
from jaxsched.traces.readers import (
    acme,
    chronus,
    crius,
    elasticflow,
    gavel,
    helios,
    itp,
    muri,
    openb,
    pai,
    pai_simulator,
    philly_csv,
    philly_json,
    philly_vc,
    pollux,
    sacct,
    spot_gpu,
    swf,
    tiresias,
)
from jaxsched.traces.readers.head import Head, head_of
from jaxsched.traces.trace import Trace

Loaded = list[JobTable] | Trace


class Format(NamedTuple):
    """A trace format.

    Attributes:
      name: what ``--format`` calls it.
      description: one line.
      matches: whether a file or folder is of this format, as far as its beginning tells.
      read: the reader.
    """

    name: str
    description: str
    matches: Callable[[Head], bool]
    read: Callable[[PathLike], Loaded]


def _schema_of(head: Head) -> Schema | None:
    """The schema of the job tables in a file, as far as its header tells."""
    schemas = (kind.schema for kind in job_kinds())
    return next((s for s in schemas if head.header in csv_tables.headers(s)), None)


def _holds_tables(head: Head) -> bool:
    return _schema_of(head) is not None


def _read_tables(path: PathLike) -> list[JobTable]:
    return csv_tables.read_tables(path, schema=_schema_of(head_of(path)) or RIGID_JOBS)


FORMATS = (
    Format(
        "jobs",
        "job tables of this project, comma-separated",
        _holds_tables,
        _read_tables,
    ),
    Format(
        trace_files.NAME,
        "canonical trace of this project, Parquet or comma-separated",
        lambda head: (
            head.text.startswith((trace_files.MAGIC, trace_files.FIRST))
            or trace_files.is_header(head.header)
        ),
        trace_files.read_trace,
    ),
    *(
        Format(reader.NAME, reader.DESCRIPTION, reader.matches, reader.read)
        for reader in (
            itp,
            philly_csv,
            philly_json,
            helios,
            acme,
            pai,
            pai_simulator,
            openb,
            spot_gpu,
            chronus,
            crius,
            elasticflow,
            gavel,
            muri,
            philly_vc,
            pollux,
            sacct,
            swf,
            tiresias,
        )
    ),
)


def recognise(path: PathLike) -> Format:
    """The format of a file or folder.

    Raises:
      JaxschedError: one line if it cannot be read or is of no known format.
    """
    head = head_of(path)
    for entry in FORMATS:
        if entry.matches(head):
            return entry
    found = "it is a folder" if head.path.is_dir() else f"the header is {_shown(head)}"
    raise JaxschedError(f"{path}: is of no known format ({found}); accepted: {_names()}")


def load(path: PathLike, *, format: str | None = None) -> Loaded:
    """Read a trace of any known format, plain or gzip.

    Args:
      path: a file, or a folder for formats of several files.
      format: name of the format; None: told by the content.

    Returns:
      Job tables for the project's own format, else a ``Trace``, which
      ``jaxsched.traces.mapping.import_trace`` turns into job tables.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    if format is None:
        return recognise(path).read(path)
    for entry in FORMATS:
        if entry.name == format:
            return entry.read(path)
    raise JaxschedError(f"unknown format {describe_value(format)}; accepted: {_names()}")


def load_trace(path: PathLike, *, format: str | None = None) -> Trace:
    """Read a published trace; job tables are refused, since they are further down the line.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    loaded = load(path, format=format)
    if not isinstance(loaded, Trace):
        raise JaxschedError(f"{path}: holds job tables; accepted: a trace ({_names()})")
    return loaded


def load_tables(path: PathLike) -> list[JobTable]:
    """Read a file of job tables; a published trace is refused, since it must be imported first.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    loaded = load(path)
    if isinstance(loaded, Trace):
        raise JaxschedError(
            f"{path}: is a published trace ({loaded.source}); accepted: job tables, as "
            "'jaxsched traces convert' makes them of such a trace"
        )
    return loaded


def _shown(head: Head) -> str:
    return describe_value(",".join(head.header), 80)


def _names() -> str:
    return ", ".join(entry.name for entry in FORMATS)
