"""The beginning of a file, which its format is told by."""

import csv
from pathlib import Path
from typing import NamedTuple

from jaxsched.files import PathLike
from jaxsched.traces import trace_files
from jaxsched.traces.text import read_head


class Head(NamedTuple):
    """What a format is told by.

    Attributes:
      path: file or folder.
      text: the file's first 64 KiB; empty for a folder.
      header: the cells of its first line that is not blank.
    """

    path: Path
    text: str
    header: tuple[str, ...]


def head_of(path: PathLike) -> Head:
    """The beginning of a file or folder.

    Raises:
      JaxschedError: one line if it cannot be read, is empty or not text.
    """
    if Path(path).is_dir():
        return Head(Path(path), "", ())
    if trace_files.is_parquet(path):
        return Head(Path(path), trace_files.MAGIC, ())
    text = read_head(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        cells = next(csv.reader([first]), [])
    except csv.Error:
        cells = []
    return Head(Path(path), text, tuple(cell.strip() for cell in cells))
