"""Writing files, so that nobody ever sees half of one."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from jaxsched.errors import JaxschedError

PathLike = str | os.PathLike[str]


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
