"""Reading comma-separated files, with messages that carry the file and the line."""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import Integers
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.text import LONGEST_TEXT, open_text, read_head, too_long

BATCH_ROWS = 65536

# Patterns take a time linear in the cell's length, whatever it holds: what follows a repetition
# begins with a letter that it does not take.
WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WHOLE = re.compile(r"([+-]?\d{1,18})(?:\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.\d+)?(?: ?[A-Z]{1,5}| ?[+-]\d\d:?\d\d)?",
    re.ASCII,
)
ABSENT = {"", "none", "null", "na", "nan"}
"""Texts that stand for nothing, in small letters."""

NOT_KNOWN = ABSENT | {"unknown", "n/a", "<na>", "nat", "-", "invalid", "unlimited"}
"""What stands for a number or a time that is not known, in small letters."""

LONGEST_CELL = 131072
"""Letters of a cell; longer ones are refused."""


def as_number(text: str) -> float | None:
    """A finite number, without blanks around it; None if it is anything else.

    Numbers have at most ``LONGEST_TEXT`` letters.
    """
    if len(text) > LONGEST_TEXT or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class Rows:
    """A file with a header line, split into cells.

    Attributes:
      path: where it was read from.
      header: the names in the first line.
      cells: rows of as many cells as the header has; blank lines are left out.
      lines: the line (from 1) of each row.
      counts: what was odd in the file, over all its batches (``odd_rows``).
    """

    path: str
    header: tuple[str, ...]
    cells: list[list[str]]
    lines: list[int]
    counts: Counter[str] = field(default_factory=Counter)

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        index = self.header.index(name)
        return [row[index] for row in self.cells]

    def fail(self, row: int, reason: str) -> NoReturn:
        """Refuse the file because of one row."""
        raise JaxschedError(f"{self.path}, line {self.lines[row]}: {reason}")

    def floats(self, name: str) -> npt.NDArray[np.float64] | None:
        """A column that the file holds as numbers, NaN where there is none; None for texts."""
        return None

    def texts(self, name: str) -> npt.NDArray[np.str_]:
        """A column of texts without blanks around them; what stands for nothing gives ''."""
        cells = (cell.strip() for cell in self.column(name))
        return self._as_texts(name, ["" if cell.lower() in ABSENT else cell for cell in cells])

    def plain_texts(self, name: str) -> npt.NDArray[np.str_]:
        """A column of texts, each to the letter."""
        return self._as_texts(name, self.column(name))

    def _as_texts(self, name: str, cells: list[str]) -> npt.NDArray[np.str_]:
        for row, cell in enumerate(cells):
            if len(cell) > LONGEST_TEXT:
                self.fail(row, f"{name} is {describe_value(cell)}; {too_long(cell)}")
        return np.array(cells, np.str_)

    def stamps(self, name: str, *, absent: float | None = None) -> npt.NDArray[np.float64]:
        """A column of ``YYYY-MM-DD HH:MM:SS`` as naive seconds from 1970; zones are dropped.

        Empty cells give ``absent``, or an error if that is None.
        """
        stamps = []
        for row, cell in enumerate(self.column(name)):
            text = cell.strip()
            match = STAMP.fullmatch(text) if len(text) <= LONGEST_TEXT else None
            if match:
                stamps.append(match[1])
            elif absent is not None and text.lower() in NOT_KNOWN:
                stamps.append("NaT")
            else:
                self._refuse_stamp(row, name, cell)
        try:
            times = np.array(stamps, "datetime64[s]")
        except ValueError:  # a day or an hour that does not exist
            for row, stamp in enumerate(stamps):
                try:
                    np.datetime64(stamp, "s")
                except ValueError:
                    self._refuse_stamp(row, name, stamp)
            raise
        missing = np.isnat(times)
        seconds = times.astype(np.int64).astype(np.float64)
        return np.where(missing, np.nan if absent is None else absent, seconds)

    def _refuse_stamp(self, row: int, name: str, stamp: str) -> NoReturn:
        self.fail(row, f"{name} is {describe_value(stamp)}; accepted: YYYY-MM-DD HH:MM:SS")

    def whole_numbers(self, name: str, *, absent: int | None = None) -> Integers:
        """A column of whole numbers; empty cells give ``absent``, or an error if that is None."""

        def parse(cell: str) -> int | None:
            text = cell.strip()
            match = _WHOLE.fullmatch(text) if len(text) <= LONGEST_TEXT else None
            if match:
                return int(match[1])
            return absent if text.lower() in NOT_KNOWN else None

        return np.array(self._parse(name, parse, "a whole number"), np.int64)

    def numbers(self, name: str, *, absent: float | None = None) -> npt.NDArray[np.float64]:
        """A column of finite numbers; empty cells give ``absent``, or an error if that is None."""
        values = self.floats(name)
        if values is not None and absent is not None:
            return np.where(np.isnan(values), absent, values)

        def parse(cell: str) -> float | None:
            text = cell.strip()
            value = as_number(text)
            return absent if value is None and text.lower() in NOT_KNOWN else value

        return np.array(self._parse(name, parse, "a number"), np.float64)

    def number_lists(self, name: str) -> npt.NDArray[np.float64]:
        """A column of equally many finite numbers in each cell, with blanks between, ``[n, L]``."""
        rows: list[list[float]] = []
        for row, cell in enumerate(self.column(name)):
            words = cell.split()
            values = [value for word in words if (value := as_number(word)) is not None]
            if not words or len(values) < len(words):
                self.fail(
                    row, f"{name} is {describe_value(cell)}; accepted: numbers with blanks between"
                )
            if rows and len(values) != len(rows[0]):
                self.fail(row, f"{name} has {len(values)} numbers; accepted: {len(rows[0])}")
            rows.append(values)
        return np.array(rows, np.float64)

    def _parse(self, name: str, parse: Callable[[str], float | None], accepted: str) -> list[float]:
        values: list[float] = []
        for row, cell in enumerate(self.column(name)):
            value = parse(cell)
            if value is None:
                self.fail(row, f"{name} is {describe_value(cell)}; accepted: {accepted}")
            values.append(value)
        return values


def iterate_rows(
    path: PathLike,
    headers: Sequence[tuple[str, ...]] | Callable[[tuple[str, ...]], bool],
    *,
    batch: int = BATCH_ROWS,
    **how: Any,
) -> Iterator[Rows]:
    """Split a file of separated values, plain or gzip, into cells, in batches.

    Args:
      path: the file.
      headers: accepted header lines.
      batch: rows of each batch but the last; memory is bounded by one batch.
      **how: further arguments of ``split_rows``.

    Raises:
      JaxschedError: one line with file and line if it cannot be read, has another header or no
        rows, or a row has the wrong number of cells.
    """
    read_head(path)
    with open_text(path) as file:
        yield from split_rows(path, file, headers, batch=batch, **how)


def split_rows(
    path: PathLike,
    lines: Iterable[str],
    headers: Sequence[tuple[str, ...]] | Callable[[tuple[str, ...]], bool],
    *,
    accepted: str = "",
    header: tuple[str, ...] = (),
    lines_before: int = 0,
    delimiter: str = ",",
    batch: int = BATCH_ROWS,
    ragged: bool = False,
    counts: Counter[str] | None = None,
) -> Iterator[Rows]:
    """Split the lines of an open file into cells, in batches; see ``iterate_rows``.

    Args:
      path: for messages.
      lines: the lines.
      headers: accepted header lines, or whether a header line is accepted.
      accepted: what messages say is accepted; the header lines by default.
      header: the names of the columns, where the file has no header line.
      lines_before: lines of the file before the first of ``lines``.
      delimiter: between cells.
      batch: rows of each batch but the last.
      ragged: whether rows may have empty cells more, or lack those of nameless last columns.
      counts: where what is odd is counted.
    """
    cells: list[list[str]] = []
    numbers: list[int] = []
    some = False
    counts = Counter() if counts is None else counts
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        for row in reader:
            line = lines_before + reader.line_num
            if len(row) <= 1 and not "".join(row).strip():
                continue
            if not header:
                header = tuple(name.strip() for name in row)
                _check_header(path, line, header, headers, accepted)
                continue
            if ragged and len(row) != len(header):
                row = _filled(row, header)
            if len(row) == len(header):
                cells.append(row)
                numbers.append(line)
            else:
                raise JaxschedError(
                    f"{path}, line {line}: has {len(row)} values; accepted: {len(header)} "
                    f"({','.join(header)})"
                )
            if len(cells) == batch:
                some = True
                yield Rows(str(path), header, cells, numbers, counts)
                cells, numbers = [], []
    except csv.Error as error:
        where = f"{path}, line {lines_before + reader.line_num}"
        if "field limit" in str(error):  # csv.field_size_limit, LONGEST_CELL unless it was changed
            raise JaxschedError(f"{where}: {_too_long_a_cell()}") from None
        raise JaxschedError(f"{where}: {error}; accepted: comma-separated values") from None
    if cells:
        yield Rows(str(path), header, cells, numbers, counts)
    elif not some:
        raise JaxschedError(f"{path}: has no jobs; accepted: a header line and one row per job")


def join_columns(
    parts: Sequence[Mapping[str, npt.NDArray[Any]]],
) -> dict[str, npt.NDArray[Any]]:
    """Columns of consecutive batches as one set of columns."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _filled(row: list[str], header: tuple[str, ...]) -> list[str]:
    """A row with as many cells as the header, if empty ones alone are too many or missing."""
    if len(row) > len(header):
        return row if any(map(str.strip, row[len(header) :])) else row[: len(header)]
    missing = header[len(row) :]
    return row if any(missing) else [*row, *missing]


def check_cell(path: PathLike, line: int, cells: Sequence[str]) -> None:
    """Refuse a row with a cell beyond ``LONGEST_CELL``.

    Raises:
      JaxschedError: one line with file and line number.
    """
    if max(map(len, cells), default=0) > LONGEST_CELL:
        raise JaxschedError(f"{path}, line {line}: {_too_long_a_cell()}")


def _too_long_a_cell() -> str:
    return f"a cell has more than {LONGEST_CELL:,} letters; accepted: shorter cells"


def _check_header(
    path: PathLike,
    line: int,
    header: tuple[str, ...],
    headers: Sequence[tuple[str, ...]] | Callable[[tuple[str, ...]], bool],
    accepted: str,
) -> None:
    if not (headers(header) if callable(headers) else header in headers):
        found = describe_value(",".join(header), 80)
        if not callable(headers):
            accepted = accepted or " or ".join(",".join(names) for names in headers)
        raise JaxschedError(f"{path}, line {line}: the header is {found}; accepted: {accepted}")
