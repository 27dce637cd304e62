"""The columns of a trace, texts of large ones in a quarter of the memory that NumPy takes for them.

An array of texts has four bytes for each letter of its longest text. Where a trace is large and all
letters are ASCII, one is kept, and the texts are given as usual when the column is asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]  # float64 or str_

LARGE_ROWS = 2**18
"""Texts of so many jobs are kept compact; those of fewer are at hand."""


class Compact:
    """Texts of ASCII letters.

    Attributes:
      letters: bytes ``[n]``, not writeable.
    """

    def __init__(self, letters: npt.NDArray[np.bytes_]) -> None:
        """Keep an array that no other object changes."""
        letters.setflags(write=False)
        self.letters = letters

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.letters)

    def __getitem__(self, rows: Any) -> "Compact":
        """Those of a slice, an index array or a mask."""
        return Compact(self.letters[rows])

    def texts(self) -> npt.NDArray[np.str_]:
        """As NumPy has them, not writeable."""
        found: npt.NDArray[np.str_] = self.letters.astype(np.str_)
        found.setflags(write=False)
        return found


Stored = Values | Compact


class Columns(Mapping[str, Values]):
    """Columns by name, checked and read-only."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        """Keep columns whose arrays are not writeable."""
        self._stored = dict(stored)

    def __getitem__(self, name: str) -> Values:
        """The values of a column."""
        found = self._stored[name]
        return found.texts() if isinstance(found, Compact) else found

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._stored)

    def __len__(self) -> int:
        """Number of columns."""
        return len(self._stored)

    def stored(self, name: str) -> Stored:
        """A column as it is kept."""
        return self._stored[name]

    def take(self, rows: Any) -> "Columns":
        """The columns of a slice, an index array or a mask."""
        found = {name: values[rows] for name, values in self._stored.items()}
        for values in found.values():
            if not isinstance(values, Compact):
                values.setflags(write=False)
        return Columns(found)

    def only(self, names: Iterable[str]) -> "Columns":
        """Those of the names that are there."""
        return Columns({name: self._stored[name] for name in names if name in self._stored})


def kept(texts: Values) -> Stored:
    """An array of texts as it is kept."""
    if len(texts) < LARGE_ROWS:
        return texts
    try:
        return Compact(texts.astype(np.bytes_))
    except UnicodeEncodeError:
        return texts


def has_text(stored: Stored) -> npt.NDArray[np.bool_]:
    """Which texts are not empty, ``[n]``."""
    found: npt.NDArray[np.bool_] = (
        stored.letters != b"" if isinstance(stored, Compact) else stored != ""
    )
    return found


def from_arrow(column: Any, longest: int) -> Compact | None:
    """A chunked array of strings without nulls, compact; None if it is not kept so.

    Args:
      column: the strings.
      longest: letters; longer texts are not kept so.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    width = max(pc.max(pc.binary_length(column)).as_py() or 0, 1)
    if (
        len(column) < LARGE_ROWS
        or width > longest
        or not pc.all(pc.string_is_ascii(column)).as_py()
    ):
        return None
    letters = np.empty(len(column), f"S{width}")
    first = 0
    for chunk in column.chunks:
        padded = pc.ascii_rpad(chunk, width, padding="\0").cast(pa.binary())
        data = padded.cast(pa.binary(width)).buffers()[1]
        part = np.frombuffer(data, letters.dtype, len(chunk))
        letters[first : first + len(chunk)] = part
        first += len(chunk)
    return Compact(letters)
