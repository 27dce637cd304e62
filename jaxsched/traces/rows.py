"""Reading comma-separated files, with messages that carry the file and the line."""

import csv
import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, describe_value

PathLike = str | os.PathLike[str]

_WHOLE = re.compile(r"\s*([+-]?\d{1,18})(?:\.0*)?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)
_ABSENT = {"", "none", "null", "na", "nan"}
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class Rows:
    """A file with a header line, split into cells.

    Attributes:
      path: where it was read from.
      header: the names in the first line.
      cells: rows of as many cells as the header has; blank lines are left out.
      lines: the line (from 1) of each row.
    """

    path: str
    header: tuple[str, ...]
    cells: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        index = self.header.index(name)
        return [row[index] for row in self.cells]

    def fail(self, row: int, reason: str) -> NoReturn:
        """Refuse the file because of one row."""
        raise JaxschedError(f"{self.path}, line {self.lines[row]}: {reason}")

    def whole_numbers(self, name: str, *, absent: int | None = None) -> Integers:
        """A column of whole numbers; empty cells give ``absent``, or an error if that is None."""

        def parse(cell: str) -> int | None:
            match = _WHOLE.fullmatch(cell)
            if match:
                return int(match[1])
            return absent if cell.strip().lower() in _ABSENT else None

        return np.array(self._parse(name, parse, "a whole number"), np.int64)

    def numbers(self, name: str, *, absent: float | None = None) -> npt.NDArray[np.float64]:
        """A column of finite numbers; empty cells give ``absent``, or an error if it is None."""

        def parse(cell: str) -> float | None:
            if _NUMBER.fullmatch(cell):
                value = float(cell)
                return value if math.isfinite(value) else None
            return absent if cell.strip().lower() in _ABSENT else None

        return np.array(self._parse(name, parse, "a number"), np.float64)

    def number_lists(self, name: str) -> npt.NDArray[np.float64]:
        """A column of equally many finite numbers in each cell, with blanks between, ``[n, L]``."""
        rows: list[list[float]] = []
        for row, cell in enumerate(self.column(name)):
            words = cell.split()
            values = [float(word) for word in words if _NUMBER.fullmatch(word)]
            if not words or len(values) < len(words) or not all(map(math.isfinite, values)):
                self.fail(
                    row, f"{name} is {describe_value(cell)}; accepted: numbers with blanks between"
                )
            if rows and len(values) != len(rows[0]):
                self.fail(row, f"{name} has {len(values)} numbers; accepted: {len(rows[0])}")
            rows.append(values)
        return np.array(rows, np.float64)

    def not_negative(self, name: str, values: npt.NDArray[Any]) -> None:
        """Refuse the file if a value of the column is below 0."""
        negative = np.flatnonzero(values < 0)
        if negative.size:
            row = int(negative[0])
            self.fail(row, f"{name} is {values[row]:g}; accepted: a number from 0 on")

    def _parse(self, name: str, parse: Callable[[str], float | None], accepted: str) -> list[float]:
        values: list[float] = []
        for row, cell in enumerate(self.column(name)):
            value = parse(cell)
            if value is None:
                self.fail(row, f"{name} is {describe_value(cell)}; accepted: {accepted}")
            values.append(value)
        return values


def read_text(path: PathLike) -> str:
    """The text of a UTF-8 file, plain or compressed with gzip (told by its content).

    Raises:
      JaxschedError: one line if the file is missing, unreadable, damaged, empty or not text.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise JaxschedError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise JaxschedError(f"{path}: is a folder; accepted: a trace file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JaxschedError(f"{path}: cannot be read ({reason})") from None
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            raise JaxschedError(
                f"{path}: the gzip data is damaged or cut short; accepted: a complete gzip file"
            ) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise JaxschedError(f"{path}: is not a text file; accepted: UTF-8 text, plain or gzip")
    if not text.strip():
        raise JaxschedError(f"{path}: is empty; accepted: a header line and one row per job")
    return text


def read_rows(path: PathLike, headers: Sequence[tuple[str, ...]]) -> Rows:
    """Split a comma-separated file with one of the given header lines into cells.

    Raises:
      JaxschedError: one line with file and line if it cannot be read, has another header or no
        rows, or a row has the wrong number of cells.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    header: tuple[str, ...] = ()
    cells: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if len(row) <= 1 and not "".join(row).strip():
                continue
            if not header:
                header = tuple(name.strip() for name in row)
                if header not in headers:
                    found = describe_value(",".join(header), 80)
                    accepted = " or ".join(",".join(names) for names in headers)
                    raise JaxschedError(
                        f"{path}, line {reader.line_num}: the header is {found}; "
                        f"accepted: {accepted}"
                    )
            elif len(row) == len(header):
                cells.append(row)
                lines.append(reader.line_num)
            else:
                raise JaxschedError(
                    f"{path}, line {reader.line_num}: has {len(row)} values; "
                    f"accepted: {len(header)}, as in the header"
                )
    except csv.Error as error:
        raise JaxschedError(
            f"{path}, line {reader.line_num}: {error}; accepted: comma-separated values"
        ) from None
    if not cells:
        raise JaxschedError(f"{path}: has no jobs; accepted: a header line and one row per job")
    return Rows(str(path), header, cells, lines)


def stem(path: PathLike) -> str:
    """The file's name without folder and without ``.csv``, ``.gz`` or ``.csv.gz``."""
    return Path(path).name.removesuffix(".gz").removesuffix(".csv")
