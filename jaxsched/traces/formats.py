"""Which format a trace file has, told by its content, and how it is read."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import RIGID_JOBS, JobTable, Schema
from jaxsched.jobs.columns import describe_value
from jaxsched.traces import csv_tables, own_names, own_tables, trace_files
from jaxsched.traces.from_frames import TableOfRows, is_frame, load_frame
from jaxsched.traces.job_kinds import job_kinds
from jaxsched.traces.readers import READERS, sacct
from jaxsched.traces.readers.head import Head, head_of
from jaxsched.traces.times import zone_of
from jaxsched.traces.trace import Trace
from jaxsched.traces.universal import in_universal_time

Loaded = list[JobTable] | Trace


class Format(NamedTuple):
    """A trace format.

    Attributes:
      name: what the argument ``format`` calls it.
      description: one line.
      matches: how many columns of a file the format knows, 1 where it is told by something else;
        0 if the file or folder is of another format, as far as its beginning tells.
      read: the reader; it takes a path, and by name what ``takes`` lists.
      takes: which of ``columns`` and ``timezone`` the reader takes itself.
    """

    name: str
    description: str
    matches: Callable[[Head], int]
    read: Callable[..., Loaded]
    takes: tuple[str, ...] = ()


def _schema_of(head: Head) -> Schema | None:
    """The schema of the job tables in a file, as far as its header tells."""
    schemas = (kind.schema for kind in job_kinds())
    return next((s for s in schemas if csv_tables.is_header(head.header, schema=s)), None)


def _holds_tables(head: Head) -> int:
    return len(head.header) if _schema_of(head) is not None else 0


def _holds_trace(head: Head) -> int:
    if head.text.startswith((trace_files.MAGIC, trace_files.FIRST)):
        return 1
    return len(head.header) if trace_files.is_header(head.header) else 0


def _may_be_either(head: Head) -> bool:
    """Whether a header is that of a job table and of a trace; then the values tell."""
    return _holds_tables(head) > 0 and trace_files.is_header(head.header)


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
        "trace of this project or a table of your own, Parquet or comma-separated",
        _holds_trace,
        trace_files.read_trace,
        takes=("columns", "timezone"),
    ),
    *(Format(reader.NAME, reader.DESCRIPTION, reader.matches, reader.read) for reader in READERS),
    Format(sacct.NAME, sacct.DESCRIPTION, sacct.matches, sacct.read, takes=("timezone",)),
)


def recognise(path: PathLike) -> Format:
    """The format of a file or folder: that which knows most of its columns, the first of equals.

    A table of one's own, which is told by usual names of columns, is what no other format claims.

    Raises:
      JaxschedError: one line if it cannot be read or is of no known format.
    """
    head = head_of(path)
    known = [entry.matches(head) for entry in FORMATS]
    if max(known):
        return FORMATS[known.index(max(known))]
    if head.path.is_dir():
        raise JaxschedError(f"{path}: is of no known format (it is a folder); accepted: {_names()}")
    if own_tables.fits(head.text):
        return _named(trace_files.NAME)
    header = own_tables.layout_of(head.text).header
    raise JaxschedError(
        f"{path}: is of no known format ({own_tables.told(header)}); "
        f"{own_names.lacking(own_names.plan(path, header, {}))}; accepted: {_names()}"
    )


def load(
    path: PathLike | TableOfRows,
    *,
    format: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> Loaded:
    """Read a trace of any known format, plain or gzip.

    Args:
      path: a file, a folder for formats of several files, or a data frame (pandas, Arrow, polars),
        which is read as a table of one's own.
      format: name of the format; None: told by the content.
      columns: the file is a table of one's own with these columns, names in the file to names in a
        trace: a mapping, or ``NAME=submit_time,OTHER=num_gpus`` (``own_names.read_given``).
      timezone: the zone of times that do not say theirs, such as ``Europe/Berlin``; times are then
        universal.

    Returns:
      Job tables for the project's own format, else a ``Trace``, which
      ``jaxsched.traces.mapping.import_trace`` turns into job tables.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    if is_frame(path):
        return load_frame(path, partial(load, format=format, columns=columns, timezone=timezone))
    assert isinstance(path, str | os.PathLike)
    asked = {"columns": columns, "timezone": timezone}
    asked = {name: value for name, value in asked.items() if value is not None}
    if format is None and not asked and _may_be_either(head_of(path)):
        try:
            return _read_tables(path)
        except JaxschedError as error:
            trace = trace_files.read_trace(path)
            why = str(error).removeprefix(str(path)).lstrip(", :")
            return replace(
                trace, notes=(*trace.notes, f"read as a trace, not as a job table ({why})")
            )
    return _read(path, _entry(path, format, asked), asked)


def load_trace(
    path: PathLike,
    *,
    format: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> Trace:
    """Read a published trace, or a table of one's own; see ``load``.

    A file that could be a job table as well is read as a trace; other job tables are refused, since
    they are further down the line.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    if format is None and _may_be_either(head_of(path)):
        format = trace_files.NAME
    loaded = load(path, format=format, columns=columns, timezone=timezone)
    if not isinstance(loaded, Trace):
        raise JaxschedError(f"{path}: holds job tables; accepted: a trace ({_names()})")
    return loaded


def _entry(path: PathLike, format: str | None, asked: Mapping[str, Any]) -> Format:
    """The format that a file is read as."""
    if format is not None:
        return _named(format)
    if "columns" in asked:
        return _named(trace_files.NAME)
    found = recognise(path)
    either = found.name == FORMATS[0].name and _may_be_either(head_of(path))
    return _named(trace_files.NAME) if either and asked else found


def _read(path: PathLike, entry: Format, asked: Mapping[str, Any]) -> Loaded:
    """Read a file, with what was asked for of its reader or of what it gives."""
    own = {name: value for name, value in asked.items() if name in entry.takes}
    if "columns" in asked and "columns" not in own:
        takers = ", ".join(taker.name for taker in FORMATS if "columns" in taker.takes)
        raise JaxschedError(
            f"{path}: {entry.name} says what its columns are; accepted: {argument('columns')} with "
            f"{argument('format')} {takers}"
        )
    loaded = entry.read(path, **own)
    if "timezone" not in asked or "timezone" in own:
        return loaded
    if not isinstance(loaded, Trace):
        raise JaxschedError(
            f"{path}: holds job tables, whose times have no zone; accepted: a trace"
        )
    return in_universal_time(loaded, zone_of(asked["timezone"]))


def _named(name: str) -> Format:
    for entry in FORMATS:
        if entry.name == name:
            return entry
    raise JaxschedError(f"unknown format {describe_value(name)}; accepted: {_names()}")


def load_tables(path: PathLike) -> list[JobTable]:
    """Read a file of job tables; a published trace is refused, since it must be imported first.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    loaded = _read(path, recognise(path), {})  # of a header of both kinds the table's refusal
    if isinstance(loaded, Trace):
        raise JaxschedError(
            f"{path}: is a published trace ({loaded.source}); accepted: job tables, as "
            "'jaxsched traces convert' makes them of such a trace"
        )
    return loaded


def _names() -> str:
    return ", ".join(entry.name for entry in FORMATS)
