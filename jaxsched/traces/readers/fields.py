"""What readers of several formats share: columns under other names, and files without a header."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, count_state, count_word, from_zero_on
from jaxsched.traces.rows import BATCH_ROWS, Rows, check_cell
from jaxsched.traces.states import status_of
from jaxsched.traces.text import open_text, read_head
from jaxsched.traces.trace import LARGEST, TRACE_COLUMNS

Floats = npt.NDArray[np.float64]

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
      from_zero: whether numbers below 0 mean nothing: they are not known (NaN), and counted.

    Raises:
      JaxschedError: one line with file and line number.
    """
    values = rows.numbers(cell_name, absent=absent)
    if np.any(np.abs(values) > LARGEST):
        row = int(np.argmax(np.abs(values) > LARGEST))
        rows.fail(row, f"{cell_name} is {values[row]:g}; accepted: numbers up to {LARGEST:g}")
    return from_zero_on(rows, cell_name, values) if from_zero else values


def renamed(
    rows: Rows, names: Mapping[str, str], *, ticks_per_s: float = 1.0
) -> dict[str, npt.NDArray[Any]]:
    """Columns that differ from the canonical ones in their names only, those that are there.

    Empty cells stand for what is not known, and so do numbers below 0 where they mean nothing.
    Run times below 0 and missing submissions are left to ``odd_rows.finished``.

    Args:
      rows: the rows.
      names: canonical name -> the source's name.
      ticks_per_s: the source's units of time in a second.

    Raises:
      JaxschedError: one line with file and line number.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, cell_name in names.items():
        if cell_name not in rows.header:
            continue
        column = _COLUMNS[name]
        if column.kind == "text":
            columns[name] = rows.texts(cell_name)
        else:
            from_zero = name == "submit_time" or (column.from_zero and name != "duration")
            values = number(rows, cell_name, from_zero=from_zero)
            columns[name] = values / ticks_per_s if column.unit == "s" else values
    return columns


def statuses(rows: Rows, cell_name: str, names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """A column of the source's names of how jobs ended, as the canonical ones.

    Args:
      rows: the rows.
      cell_name: the source's name of the column.
      names: the source's names -> the canonical ones; others are not known, and counted.
    """
    found = rows.texts(cell_name).tolist()
    states = Counter(found)
    for name, count in states.items():
        if name and name not in names:
            count_state(rows.counts, name, count)
    return np.array([names.get(name, "") for name in found], np.str_)


def slurm_statuses(rows: Rows, cell_name: str, names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """Statuses of a log in Slurm's words; see ``statuses``.

    Args:
      rows: the rows.
      cell_name: the source's name of the column.
      names: the words that the source is known to use -> the canonical ones; further ones of
        Slurm's are taken as Slurm means them, and counted.
    """
    states = Counter(rows.texts(cell_name).tolist())
    further = {}
    for state, number in states.items():
        called = None if state in names else status_of(state)
        if called is not None:
            further[state] = called
            if state.lower() != called:
                count_state(rows.counts, state, number, called)
    return statuses(rows, cell_name, {**names, **further})


def words(rows: Rows, cell_name: str, known: Iterable[str], absent: str) -> list[str]:
    """A column of the source's words; others than the known ones are empty, and counted.

    Args:
      rows: the rows.
      cell_name: the source's name of the column.
      known: the words that it may hold; empty cells are not counted.
      absent: what then is not known of a job, for the note.
    """
    found, accepted = rows.texts(cell_name).tolist(), {"", *known}
    for word, count in Counter(found).items():
        if word not in accepted:
            count_word(rows.counts, cell_name, word, count, absent)
    return [word if word in accepted else "" for word in found]


def with_both(rows: Rows, start: Floats, end: Floats, duration: Floats) -> Floats:
    """Run times of jobs with a start and an end; not known for others, which are counted."""
    lacking = np.isnan(start) | np.isnan(end)
    rows.counts["{} jobs without start or end, their run times not known"] += int(np.sum(lacking))
    return np.where(lacking, np.nan, duration)


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
    counts: Counts | None = None,
) -> Iterator[Rows]:
    """Split a file without header line into fields; nothing in it is quoted.

    Gives batches of ``BATCH_ROWS`` rows, so that memory is bounded.

    Args:
      path: the file, plain or gzip.
      header: the names of the fields.
      separator: between fields; None: any blanks.
      comment: what lines that are no rows begin with; empty: there are none.
      comments: list that takes up these lines, without the mark.
      counts: where what is odd is counted.

    Raises:
      JaxschedError: one line with file and line if it cannot be read, has no rows, or a row has
        the wrong number of fields.
    """
    read_head(path)
    some = False
    counts = Counter() if counts is None else counts
    with open_text(path) as file:
        rows = _rows(path, enumerate(file, 1), header, separator, comment, comments)
        while piece := list(islice(rows, BATCH_ROWS)):
            some = True
            lines, cells = zip(*piece, strict=True)
            yield Rows(str(path), header, list(cells), list(lines), counts)
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
        check_cell(path, line, cells)
        yield line, cells
