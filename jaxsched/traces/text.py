"""Opening text files and writing files, so that whatever is wrong with one is a single line."""

import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike

LONGEST_LINE = 2**20
"""Letters; a longer line is refused, since reading holds whole lines."""

LONGEST_TEXT = 256
"""Letters of a cell that is a text; longer ones are refused, since an array of texts takes as much
memory for each row as for the longest."""

LONGEST_NUMBER = 400
"""Digits of a whole number in JSON: more than any that a float holds."""

LARGE_BYTES = 2**28
MOST_INFLATION = 200
"""A gzip file that inflates beyond ``LARGE_BYTES`` and to more than so many times its size is
refused: rows of jobs are not that alike."""

_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 65536


@contextmanager
def open_text(path: PathLike) -> Iterator[TextIO]:
    """Open a UTF-8 file, plain or compressed with gzip (told by its content), for streaming.

    Lines are refused beyond ``LONGEST_LINE`` letters, before more of them is held. Errors of
    reading that happen inside the ``with`` block are translated as well.

    Raises:
      JaxschedError: one line if the file is missing, unreadable, damaged or not text.
    """
    with open_bytes(path) as stream:
        yield _Lines(path, stream)


@contextmanager
def open_bytes(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file, plain or compressed with gzip, for streaming; see ``open_text``.

    Raises:
      JaxschedError: as there.
    """
    try:
        with _opened(path) as file:
            is_gzip = file.peek(2)[:2] == _GZIP_MAGIC
            yield cast(BinaryIO, _Inflated(path, file)) if is_gzip else file
    except FileNotFoundError:
        raise JaxschedError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise JaxschedError(f"{path}: is a folder; accepted: a trace file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise JaxschedError(
            f"{path}: the gzip data is damaged or cut short; accepted: a complete gzip file"
        ) from None
    except UnicodeDecodeError:
        raise _not_text(path) from None
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be read ({error.strerror or error})") from None


class _Inflated(gzip.GzipFile):
    """What a gzip file holds, up to a size that a table of jobs may have."""

    def __init__(self, path: PathLike, file: io.BufferedReader) -> None:
        super().__init__(fileobj=file)
        self._path, self._most = path, MOST_INFLATION * os.fstat(file.fileno()).st_size

    def read1(self, size: int = -1) -> bytes:
        """The next bytes, not more than are at hand."""
        data = super().read1(size)
        if self.tell() > max(LARGE_BYTES, self._most):
            raise JaxschedError(
                f"{self._path}: inflates to more than {MOST_INFLATION} times its size; accepted: "
                "a gzip file of ordinary text"
            )
        return data


class _Lines(io.TextIOWrapper):
    """Text whose lines have a longest length."""

    def __init__(self, path: PathLike, stream: BinaryIO) -> None:
        super().__init__(stream, encoding="utf-8-sig", newline="")
        self._path, self._line = path, 0

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line, of which ``size`` letters are wanted at most."""
        if size >= 0:
            return super().readline(size)
        self._line += 1
        line = super().readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise JaxschedError(
                f"{self._path}, line {self._line}: has more than {LONGEST_LINE:,} letters; "
                "accepted: shorter lines"
            )
        return line

    def __next__(self) -> str:  # type: ignore[override]
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def seek(self, *where: int) -> int:  # type: ignore[override]
        """As of any file; lines are counted anew from the beginning."""
        self._line = 0
        return super().seek(*where)


def read_head(path: PathLike) -> str:
    """The beginning of a text file, up to 64 KiB of it.

    Raises:
      JaxschedError: as ``open_text``, and if the file is empty.
    """
    with open_text(path) as file:
        head = file.read(_HEAD_BYTES)
    if "\0" in head:
        raise _not_text(path)
    if not head.strip():
        raise JaxschedError(f"{path}: is empty; accepted: a header line and one row per job")
    return head


def read_json(text: str | bytes) -> Any:
    """A JSON document, in a time linear in its length.

    Whole numbers have at most ``LONGEST_NUMBER`` digits, since reading longer ones takes Python the
    square of their length.

    Raises:
      ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _whole_number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"has a whole number of {len(digits):,} digits")
    return int(digits)


def too_long(text: str) -> str:
    """What is wrong with a text beyond ``LONGEST_TEXT``, for messages."""
    return f"it has {len(text):,} letters; accepted: up to {LONGEST_TEXT}"


def stem(path: PathLike) -> str:
    """The file's name without folder and without ``.gz`` and the ending before it.

    Bytes that are no UTF-8 become question marks.
    """
    name = Path(path).name.encode("utf-8", "replace").decode().removesuffix(".gz")
    for ending in (".csv", ".json", ".trace", ".swf", ".txt", ".parquet"):
        name = name.removesuffix(ending)
    return name


def _opened(path: PathLike) -> io.BufferedReader:
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):  # opening one waits for a writer
            raise JaxschedError(f"{path}: is a pipe; accepted: a file")
        return open(path, "rb")
    except JaxschedError:
        raise
    except ValueError as error:  # a path that no system accepts
        raise JaxschedError(f"{path}: cannot be read ({error})") from None


def _not_text(path: PathLike) -> JaxschedError:
    return JaxschedError(f"{path}: is not a text file; accepted: UTF-8 text, plain or gzip")
