"""Data frames, where pandas is installed, and files of rows."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole

ENDINGS = (".csv", ".parquet")
"""Of files of rows."""


def frame(columns: Mapping[str, Sequence[Any]], index: Sequence[Any] | None = None) -> Any:
    """A ``pandas.DataFrame`` of columns.

    Args:
      columns: name -> values, all of one length.
      index: labels of the rows.

    Raises:
      JaxschedError: pandas is not installed.
    """
    return pandas().DataFrame(dict(columns), index=index)


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A ``pandas.DataFrame`` of rows; what a row lacks is NaN.

    Raises:
      JaxschedError: pandas is not installed.
    """
    return pandas().DataFrame.from_records([dict(row) for row in rows])


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as CSV or Parquet, as the ending says (``ENDINGS``).

    Raises:
      JaxschedError: the file cannot be written.
    """
    import pyarrow as arrow
    from pyarrow import csv, parquet

    table, data = arrow.table(dict(columns)), io.BytesIO()
    if path.suffix == ".csv":
        csv.write_csv(table, data)
    else:
        parquet.write_table(table, data)
    write_whole(path, data.getvalue())


def pandas() -> Any:
    """The module.

    Raises:
      JaxschedError: it is not installed.
    """
    try:
        import pandas as module
    except ImportError as error:
        raise JaxschedError(
            "data frames need pandas, which is not installed: pip install pandas"
        ) from error
    return module
