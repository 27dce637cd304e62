"""Writing files whole or not at all; reading JSON."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError

PathLike = str | os.PathLike[str]

MOST_DIGITS = 300  # of a whole number in a file; a float holds so many


def make_folder(path: PathLike) -> None:
    """Make the folder that a file goes into.

    Raises:
      JaxschedError: one line if it cannot be made.
    """
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be written ({error.strerror or error})") from error


def write_whole(path: PathLike, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new, never a part.

    A link stays one: the file that it leads to is written.

    Raises:
      JaxschedError: one line if it cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():  # a device takes what comes
            target.write_bytes(data)
            return
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(target)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JaxschedError(f"{path}: cannot be written ({reason})") from None


def check_folder(path: PathLike) -> None:
    """Refuse a folder that cannot be made, or written into if it is there.

    Raises:
      JaxschedError: one line; nothing is left behind.
    """
    parent = Path(path).absolute()
    try:
        while not parent.exists():
            parent = parent.parent
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        reason = f"{parent}: {error.strerror or error}"
        raise JaxschedError(f"{path}: cannot be written ({reason})") from None


def write_text(path: str | Path, text: str) -> Path:
    """Write a file whole or not at all; one clear line if that is impossible."""
    path = Path(path)
    make_folder(path)
    write_whole(path, text.encode(errors="replace"))
    return path


def write_json(path: str | Path, document: Any) -> Path:
    """Write a JSON file."""
    return write_text(path, as_json(document))


def as_json(document: Any) -> str:
    """A document as files and standard output have it."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def check_writable(path: str | Path) -> None:
    """Refuse an output path early, before any work is done for it.

    Raises:
      JaxschedError: a folder, or none that can be written into.
    """
    path = Path(path)
    if path.is_dir():
        raise JaxschedError(f"{path}: is a folder; expected the name of a file")
    parent = path.parent
    while not parent.exists():
        parent = parent.parent
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise JaxschedError(
            f"{path}: cannot be written: {parent} is not a writable folder"
        ) from error


def read_json(path: str | Path) -> Any:
    """Read a JSON file; one clear line if that is impossible."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text, parse_int=_whole_number)
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise JaxschedError(f"{path}: is not JSON: {error}") from error


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; accepted: up to {MOST_DIGITS}")
    return int(digits)
