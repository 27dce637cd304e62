"""Hand-over folders on disk: written whole or not at all, read within bounds."""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError

MOST_BYTES = 2**31
"""Of one file; more is refused before it is read."""


def check_free(path: Path, overwrite: bool, is_export: Callable[[Path], Any]) -> None:
    """Refuse a folder that exists, unless it is an export (or empty) that may be replaced.

    Args:
      path: the folder.
      overwrite: whether an export may be replaced.
      is_export: raises ``JaxschedError`` if a folder is none.
    """
    if not path.exists():
        return
    if not overwrite:
        raise JaxschedError(f"{path}: exists already; choose another folder or ask to overwrite it")
    if not path.is_dir() or any(path.iterdir()):
        try:
            is_export(path)
        except JaxschedError as error:
            raise JaxschedError(f"{path}: not an export, so it is not overwritten") from error


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder beside its place and rename it, so that it never appears half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    replaced = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # of a killed process with this number
        temporary.mkdir()
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        if path.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            path.rename(replaced)
        temporary.rename(path)
    except OSError as error:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        raise JaxschedError(f"{path}: cannot be written: {reason_of(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def read_file(file: Path, most: int = MOST_BYTES, digest: str | None = None) -> bytes:
    """The content of a file.

    Args:
      file: its path.
      most: bytes; a longer file is refused before it is read.
      digest: SHA-256 that it must have, hexadecimal.

    Raises:
      JaxschedError: it is absent, no file, too long or another one.
    """
    try:
        if not file.is_file():
            raise JaxschedError(f"{file}: cannot be read: no such file")
        if (size := file.stat().st_size) > most:
            raise JaxschedError(f"{file}: has {size} bytes; accepted: {most} at most")
        with file.open("rb") as stream:
            data = stream.read(size)
    except OSError as error:
        raise JaxschedError(f"{file}: cannot be read: {reason_of(error)}") from error
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise JaxschedError(f"{file}: damaged: its SHA-256 is not the manifest's")
    return data


def sha256(data: bytes) -> str:
    """Of a file's content, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def reason_of(error: Exception) -> str:
    """What the operating system says, or the error itself."""
    return str(getattr(error, "strerror", None) or error)
