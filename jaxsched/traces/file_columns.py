"""All columns of a comma-separated file: of large ones by Apache Arrow, else line by line."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.arrow_rows import read_by_arrow
from jaxsched.traces.rows import Rows, iterate_rows, join_columns


def read_columns(
    path: PathLike,
    headers: Sequence[tuple[str, ...]] | Callable[[tuple[str, ...]], bool],
    parse: Callable[[Rows], Mapping[str, npt.NDArray[Any]]],
    *,
    large_by_arrow: bool = False,
    counts: Counter[str] | None = None,
    **how: Any,
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a whole file, parsed batch by batch and joined; see ``rows.iterate_rows``.

    Args:
      path: the file.
      headers: accepted header lines.
      parse: the columns of a batch.
      large_by_arrow: read large files by Apache Arrow where it can (``arrow_rows``); ``parse`` must
        keep nothing from one call to the next then, since it may be called again from the start.
      counts: where what is odd is counted.
      **how: further arguments of ``rows.iterate_rows``.
    """
    counts = Counter() if counts is None else counts
    if large_by_arrow:
        parts = read_by_arrow(path, headers, parse, counts)
        if parts is not None:
            return join_columns(parts)
        counts.clear()
    batches = iterate_rows(path, headers, counts=counts, **how)
    return join_columns([parse(rows) for rows in batches])
