"""Large comma-separated files read by Apache Arrow, to the same columns as line by line.

Arrow splits and converts whole columns, five times as fast for Helios' logs. It accepts what
``rows`` refuses and has no messages with line numbers, so every cell is held against the same
rules; at the first thing out of the ordinary (quotes, a bad cell, a long text, another header) the
file is left to ``rows``.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.rows import ABSENT, LONGEST_CELL, NOT_KNOWN, NUMBER, STAMP, Rows
from jaxsched.traces.text import LONGEST_TEXT, open_bytes, read_head

LARGE_BYTES = 2**23
"""Smaller files are read line by line: that takes seconds, and Arrow's import half of one."""

_BLOCK_BYTES = 2**24

Columns = Mapping[str, npt.NDArray[Any]]


class _UnusualError(Exception):
    """Something that is left to the line reader."""


class _Watched:
    """A stream of bytes without quotes or NULs, which the two readers may take differently."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._stream.read(size)
        if b'"' in data or b"\0" in data:
            raise _UnusualError
        return data

    def close(self) -> None:
        """Nothing; who opened the stream closes it."""


@dataclass(frozen=True, eq=False)
class ArrowRows(Rows):
    """A batch of rows as columns of texts; whatever is unusual raises.

    Attributes:
      batch: the record batch.
    """

    batch: Any = None

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        cells: list[str] = self._cells(name).to_pylist()
        return cells

    def fail(self, row: int, reason: str) -> NoReturn:
        """Leave the file to the line reader, whose message says where."""
        raise _UnusualError

    def texts(self, name: str) -> npt.NDArray[np.str_]:
        """As of ``Rows``; every text that occurs is looked at once."""
        import pyarrow.compute as pc

        encoded = pc.dictionary_encode(self._cells(name))
        known = [cell.strip() for cell in encoded.dictionary.to_pylist()]
        known = ["" if cell.lower() in ABSENT else cell for cell in known]
        if max(map(len, known), default=0) > LONGEST_TEXT:
            raise _UnusualError
        found: npt.NDArray[np.str_] = np.array(known, np.str_)[encoded.indices.to_numpy()]
        return found

    def numbers(self, name: str, *, absent: float | None = None) -> npt.NDArray[np.float64]:
        """As of ``Rows``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells, known = self._known(name, NUMBER.pattern, absent)
        digits = pc.utf8_ltrim(cells.filter(known), "+")
        values = np.full(len(cells), np.nan if absent is None else absent)
        values[known.to_numpy(zero_copy_only=False)] = digits.cast(pa.float64()).to_numpy()
        if np.any(np.isinf(values)):
            raise _UnusualError
        return values

    def stamps(self, name: str, *, absent: float | None = None) -> npt.NDArray[np.float64]:
        """As of ``Rows``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells, known = self._known(name, STAMP.pattern, absent)
        plain = pc.utf8_slice_codeunits(cells.filter(known), 0, 19)
        times = plain.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
        values = np.full(len(cells), np.nan if absent is None else absent)
        values[known.to_numpy(zero_copy_only=False)] = times
        return values

    def _known(self, name: str, pattern: str, absent: float | None) -> tuple[Any, Any]:
        """The cells of a column without blanks around them, and which match; others are absent."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = pc.ascii_trim_whitespace(self._cells(name))
        if (pc.max(pc.utf8_length(cells)).as_py() or 0) > LONGEST_TEXT:
            raise _UnusualError
        known = pc.match_substring_regex(cells, f"^(?:{pattern})$")
        others = pc.unique(cells.filter(pc.invert(known))).to_pylist()
        if others and (absent is None or any(cell.lower() not in NOT_KNOWN for cell in others)):
            raise _UnusualError
        return cells, known if isinstance(known, pa.Array) else known.combine_chunks()

    def _cells(self, name: str) -> Any:
        return self.batch.column(self.header.index(name))


def read_by_arrow(
    path: PathLike,
    headers: Sequence[tuple[str, ...]] | Callable[[tuple[str, ...]], bool],
    parse: Callable[[Rows], Columns],
    counts: Counter[str] | None = None,
) -> list[Columns] | None:
    """The columns of a large file, batch by batch; None where it is left to the line reader.

    Args:
      path: the file, plain or gzip.
      headers: accepted header lines, or whether one is.
      parse: the columns of a batch.
      counts: where what is odd is counted.

    Raises:
      JaxschedError: one line if the file cannot be read, or inflates beyond what a table may.
    """
    import pyarrow as pa

    try:
        if os.stat(path).st_size < LARGE_BYTES:
            return None
    except (OSError, ValueError):  # the line reader says why
        return None
    counts = Counter() if counts is None else counts
    with open_bytes(path) as stream:
        try:
            batches = _batches(path, _Watched(stream), headers, counts)
            return [parse(rows) for rows in batches] or None
        except (_UnusualError, pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError):
            return None


def _batches(
    path: PathLike, stream: _Watched, headers: Any, counts: Counter[str]
) -> Iterator[ArrowRows]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    header, lines = _header(path)
    if not (headers(header) if callable(headers) else header in headers):
        raise _UnusualError
    reader = csv.open_csv(
        pa.PythonFile(stream, mode="r"),
        read_options=csv.ReadOptions(
            block_size=_BLOCK_BYTES, column_names=list(header), skip_rows=lines
        ),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
        ),
    )
    for batch in reader:
        for column in batch.columns:
            longest = pc.max(pc.binary_length(column)).as_py()
            if longest is not None and longest > LONGEST_CELL:
                raise _UnusualError
        if len(batch):
            cells: Any = range(len(batch))  # rows are counted only
            yield ArrowRows(str(path), header, cells, [], counts, batch)


def _header(path: PathLike) -> tuple[tuple[str, ...], int]:
    """The names in the first line that is not blank, and the lines up to it."""
    for number, line in enumerate(read_head(path).splitlines(), 1):
        if line.strip():
            return tuple(name.strip() for name in line.split(",")), number
    raise _UnusualError
