"""The project's own trace files: job tables as comma-separated values.

Header ``trace,submit_time,num_gpus,duration,model`` (or the columns of another schema), one row per
job; the rows of a trace stand together, in order of submission. The ``trace`` column may be missing
in a file with one trace; a list of numbers has blanks between them, and lists of whole numbers may
differ in length. Names that end in ``.gz`` are
compressed with gzip.
"""

import gzip
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike, write_whole
from jaxsched.jobs import RIGID_JOBS, Column, JobTable, Schema, find_problem, validate
from jaxsched.jobs.columns import Values, describe_value, list_lengths
from jaxsched.traces.rows import WHOLE, Rows, read_rows
from jaxsched.traces.text import stem


def headers(schema: Schema = RIGID_JOBS) -> tuple[tuple[str, ...], ...]:
    """The accepted header lines: with and without the ``trace`` column."""
    names = tuple(column.name for column in schema)
    return ("trace", *names), names


def is_header(names: tuple[str, ...], *, schema: Schema = RIGID_JOBS) -> bool:
    """Whether a header line is one of job tables, its columns in any order."""
    return sorted(names) in [sorted(header) for header in headers(schema)]


def read_tables(path: PathLike, *, schema: Schema = RIGID_JOBS) -> list[JobTable]:
    """Read job tables; table ``k`` is named after the file and its number in the file.

    The tables satisfy the schema; limits of a cluster are left to ``jaxsched.jobs.validate``.

    Raises:
      JaxschedError: one line with file and line number.
    """
    accepted = " or ".join(",".join(names) for names in headers(schema))
    rows = read_rows(path, partial(is_header, schema=schema), accepted=accepted)
    return tables_from_rows(rows, schema=schema)


def tables_from_rows(rows: Rows, *, schema: Schema = RIGID_JOBS) -> list[JobTable]:
    """Job tables from a file that has been split into cells; see ``read_tables``."""
    read = {
        "whole": rows.whole_numbers,
        "real": rows.numbers,
        "numbers": rows.number_lists,
        "wholes": partial(_whole_lists, rows),
    }
    columns: dict[str, Any] = {
        column.name: read[column.kind](column.name)  # type: ignore[operator]
        for column in schema
    }
    if "trace" not in rows.header:
        table = JobTable(columns, stem(rows.path), schema=schema)
        return [_checked(rows, 0, table, schema)]

    traces = rows.whole_numbers("trace")
    starts = np.flatnonzero(np.diff(traces, prepend=traces[0] - 1))
    seen: set[int] = set()
    tables = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(traces)], strict=True):
        trace = int(traces[start])
        if trace in seen:
            rows.fail(start, f"trace {trace} begins again; accepted: its rows together")
        seen.add(trace)
        part = {name: values[start:stop] for name, values in columns.items()}
        table = JobTable(part, f"{stem(rows.path)}[{trace}]", schema=schema)
        tables.append(_checked(rows, start, table, schema))
    return tables


def write_tables(path: PathLike, tables: Sequence[JobTable]) -> None:
    """Write job tables of one schema, numbered from 0; the same tables give the same bytes.

    Raises:
      JaxschedError: no tables, a table outside the schema, or a file that cannot be written.
    """
    if not tables:
        raise JaxschedError(f"{path}: there are no tables to write; accepted: at least one")
    schema = tables[0].schema
    lines = [",".join(headers(schema)[0])]
    for trace, table in enumerate(tables):
        validate(table, schema=schema, from_zero=schema == RIGID_JOBS)
        cells = [_cells(table[column.name], column) for column in schema]
        lines += [f"{trace}," + ",".join(row) for row in zip(*cells, strict=True)]
    data = ("\n".join(lines) + "\n").encode()
    if str(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_whole(path, data)


def _cells(values: Values, column: Column) -> list[str]:
    """A column as texts that read back to the same bits; lists without zeros at their end."""
    if values.ndim == 1:
        return [repr(value) for value in values.tolist()]
    rows = values.tolist()
    if column.kind == "wholes":
        lengths = list_lengths(values).tolist()
        rows = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    return [" ".join(map(repr, row)) for row in rows]


def _whole_lists(rows: Rows, name: str) -> list[list[int]]:
    """A column of whole numbers with blanks between, any number of them in each cell."""
    lists: list[list[int]] = []
    for row, cell in enumerate(rows.column(name)):
        words = cell.split()
        if not words or not all(map(WHOLE.fullmatch, words)):
            accepted = "whole numbers with blanks between"
            rows.fail(row, f"{name} is {describe_value(cell)}; accepted: {accepted}")
        lists.append([int(word) for word in words])
    return lists


def _checked(rows: Rows, start: int, table: JobTable, schema: Schema) -> JobTable:
    problem = find_problem(table, schema=schema, from_zero=schema == RIGID_JOBS)
    if problem is not None:
        rows.fail(start + (problem.job or 0), problem.reason)
    return table
