"""Data frames, where pandas is installed."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxsched.errors import JaxschedError


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
