"""Data frames of pandas, Arrow and others as traces: read as the file that they would be."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from jaxsched.errors import JaxschedError
from jaxsched.traces.trace import Trace

NAME = "data frame"


class TableOfRows(Protocol):
    """What hands its rows over as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:  # noqa: D105
        ...


def is_frame(value: object) -> bool:
    """Whether a value is a data frame."""
    return hasattr(value, "__arrow_c_stream__")


def load_frame(frame: Any, read: Callable[[Path], Any]) -> Any:
    """Read a data frame.

    Args:
      frame: the frame.
      read: reads a Parquet file.

    Returns:
      What ``read`` does, called after the frame instead of the file.

    Raises:
      JaxschedError: the frame has columns that no file can hold, or is no trace.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    with tempfile.TemporaryDirectory(prefix="jaxsched-") as folder:
        path = Path(folder) / f"{NAME}.parquet"
        try:
            parquet.write_table(arrow.table(frame), path)
        except (arrow.ArrowException, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise JaxschedError(f"{NAME}: cannot be read as a table ({why})") from error
        try:
            found = read(path)
        except JaxschedError as error:
            raise JaxschedError(str(error).replace(str(path), NAME)) from None
    return replace(found, name=NAME) if isinstance(found, Trace) else found
