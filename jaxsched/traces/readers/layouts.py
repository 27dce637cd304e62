"""Comma-separated formats, told by the columns that they need: their order decides nothing.

A file may have further columns, which are left out and named in a note, and may lack those that a
layout says may be missing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.file_columns import read_columns
from jaxsched.traces.odd_rows import Counts
from jaxsched.traces.own_names import listed
from jaxsched.traces.readers.head import Head, head_of
from jaxsched.traces.rows import Rows


class Layout(NamedTuple):
    """One layout of a format.

    Attributes:
      columns: those of the published file, in its order.
      optional: those that may be missing, and those that some files have besides.
      is_exact: whether a file with further columns is of another format: too usual a layout.
    """

    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    is_exact: bool = False

    def known(self, header: tuple[str, ...]) -> int:
        """How many columns of a file the layout knows; 0 if the file is not laid out so."""
        names = set(header)
        further = names - {*self.columns, *self.optional}
        if set(self.columns) - set(self.optional) - names or (self.is_exact and further):
            return 0
        return len(names) - len(further)


class Layouts:
    """The layouts of a format."""

    def __init__(self, *layouts: Layout) -> None:
        """Take the layouts, any number of them."""
        self._layouts = layouts

    def __iter__(self) -> Iterator[Layout]:
        """The layouts."""
        return iter(self._layouts)

    def known(self, header: tuple[str, ...]) -> int:
        """How many columns of a file the best layout knows; 0 if it is none of these."""
        return max(layout.known(header) for layout in self._layouts)

    def matches(self, head: Head) -> int:
        """How many columns of the file that begins so are known; 0 if it is of another format."""
        return self.known(head.header)

    def read(
        self,
        path: PathLike,
        parse: Callable[[Rows], Mapping[str, npt.NDArray[Any]]],
        counts: Counts,
        **how: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """The columns of a whole file; see ``file_columns.read_columns``.

        Args:
          path: the file.
          parse: the columns of a batch.
          counts: where what is odd is counted, and columns that are left out are named.
          **how: further arguments of ``file_columns.read_columns``.

        Raises:
          JaxschedError: one line with file and line number.
        """
        found = read_columns(
            path,
            lambda header: self.known(header) > 0,
            parse,
            counts=counts,
            accepted=" or ".join(",".join(layout.columns) for layout in self._layouts),
            ragged=True,
            **how,
        )
        header = head_of(path).header
        known = {name for layout in self._layouts for name in (*layout.columns, *layout.optional)}
        others = [name for name in header if name and name not in known]
        if others:
            counts[f"columns left out, which the format does not have: {listed(others)}"] += 1
        return found
