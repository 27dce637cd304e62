"""What readers of several formats share: columns under other names, and files without a header."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.rows import BATCH_ROWS, Rows
from jaxsched.traces.text import open_text, read_head
from jaxsched.traces.trace import LARGEST, TRACE_COLUMNS

NAN = float("nan")
_COLUMNS = {column.name: column for column in TRACE_COLUMNS}


def number(
    rows: Rows, cell_name: str, *, absent: float | None = NAN, from_zero: bool = True
) -> npt.NDArray[np.float64]:
    """A column of numbers within ``LARGEST``.

    Args:
      rows: the rows.
      cell_name: the source's name of the column.
      absent: what empty cells give; None: an error.
      from_zero: whether numbers below 0 are refused.

    Raises:
      JaxschedError: one line with file and line number.
    """
    values = rows.numbers(cell_name, absent=absent, from_zero=from_zero)
    if np.any(np.abs(values) > LARGEST):
        row = int(np.argmax(np.abs(values) > LARGEST))
        rows.fail(row, f"{cell_name} is {values[row]:g}; accepted: numbers up to {LARGEST:g}")
    return values


def renamed(
    rows: Rows, names: Mapping[str, str], *, ticks_per_s: float = 1.0
) -> dict[str, npt.NDArray[Any]]:
    """Columns that differ from the canonical ones in their names only.

    Empty cells stand for what is not known, except for submission times, which every row has.

    Args:
      rows: the rows.
      names: canonical name -> the source's name.
      ticks_per_s: the source's units of time in a second.

    Raises:
      JaxschedError: one line with file and line number.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, cell_name in names.items():
        column = _COLUMNS[name]
        if column.kind == "text":
            columns[name] = rows.texts(cell_name)
        else:
            is_time = name == "submit_time"
            values = number(
                rows,
                cell_name,
                absent=None if is_time else NAN,
                from_zero=is_time or column.from_zero,
            )
            columns[name] = values / ticks_per_s if column.unit == "s" else values
    return columns


def statuses(rows: Rows, cell_name: str, names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """A column of the source's names of how jobs ended, as the canonical ones.

    Args:
      rows: the rows.
      cell_name: the source's name of the column.
      names: the source's names, ``""`` for empty cells -> the canonical ones.

    Raises:
      JaxschedError: another name; one line with file and line number.
    """
    found = rows.texts(cell_name).tolist()
    for row, name in enumerate(found):
        if name not in names:
            accepted = ", ".join(filter(None, names))
            rows.fail(row, f"{cell_name} is {describe_value(name)}; accepted: {accepted}")
    return np.array([names[name] for name in found], np.str_)


def unknown(rows: Rows) -> npt.NDArray[np.float64]:
    """A column of numbers that the source does not have."""
    return np.full(len(rows.cells), np.nan)


def field_rows(
    path: PathLike,
    header: tuple[str, ...],
    *,
    separator: str | None = None,
    comment: str = "",
    comments: list[str] | None = None,
) -> Iterator[Rows]:
    """Split a file without header line into fields; nothing in it is quoted.

    Gives batches of ``BATCH_ROWS`` rows, so that memory is bounded.

    Args:
      path: the file, plain or gzip.
      header: the names of the fields.
      separator: between fields; None: any blanks.
      comment: what lines that are no rows begin with; empty: there are none.
      comments: list that takes up these lines, without the mark.

    Raises:
      JaxschedError: one line with file and line if it cannot be read, has no rows, or a row has
        the wrong number of fields.
    """
    read_head(path)
    some = False
    with open_text(path) as file:
        rows = _rows(path, enumerate(file, 1), header, separator, comment, comments)
        while piece := list(islice(rows, BATCH_ROWS)):
            some = True
            lines, cells = zip(*piece, strict=True)
            yield Rows(str(path), header, list(cells), list(lines))
    if not some:
        raise JaxschedError(f"{path}: has no jobs; accepted: one row of fields per job")


def _rows(
    path: PathLike,
    lines: Iterator[tuple[int, str]],
    header: tuple[str, ...],
    separator: str | None,
    comment: str,
    comments: list[str] | None,
) -> Iterator[tuple[int, list[str]]]:
    for line, text in lines:
        if not text.strip():
            continue
        if comment and text.lstrip().startswith(comment):
            if comments is not None:
                comments.append(text.strip().removeprefix(comment))
            continue
        cells = text.rstrip("\r\n").split(separator)
        if len(cells) != len(header):
            raise JaxschedError(
                f"{path}, line {line}: has {len(cells)} values; accepted: {len(header)}, "
                f"{','.join(header)}"
            )
        yield line, cells
