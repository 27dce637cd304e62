"""Small things that several commands print, write or return."""

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from jaxsched.errors import JaxschedError
from jaxsched.files import make_folder, write_whole
from jaxsched.runtime import set_quiet, shows

LOST, BAD_INPUT, STOPPED = 1, 2, 130
"""Exit statuses; 0 is done."""

STDOUT = Path("-")
"""Stands for standard output where a file is asked for."""

UNCUT = 100_000
"""Columns where the output is no terminal: tables are as wide as they need to be."""
MOST_DIGITS = 300  # of a whole number in a file; a float holds so many


_claimed = False  # whether standard output is for a result alone


def begin() -> None:
    """Forget what an earlier command of this process was told about its output."""
    global _claimed
    _claimed = False
    set_quiet(False)


def claim_stdout(path: Path | None) -> Path | None:
    """Keep standard output for a result if it goes there; gives back the path."""
    global _claimed
    _claimed = _claimed or path == STDOUT
    return path


def console() -> Console:
    """Where commands show tables and progress.

    Standard output, or standard error if a result goes there. Where it is no terminal, lines are as
    long as they need to be: nothing is wrapped or cut. Of several processes only the first one
    shows anything, with ``--quiet`` none.
    """
    if not shows():
        return Console(file=io.StringIO())
    plain = Console(markup=False, emoji=False, stderr=_claimed)  # names are printed as they are
    if plain.is_terminal and plain.width > 0:
        return plain
    return Console(width=UNCUT, soft_wrap=True, markup=False, emoji=False, stderr=_claimed)


def deliver_json(out: Console, path: Path, document: Any, what: str = "values") -> None:
    """Write a result where ``--json`` says, and say so."""
    if path == STDOUT:
        print(_as_json(document), end="")
    else:
        out.print(f"{what} written to {write_json(path, document)}", highlight=False)


def write_text(path: str | Path, text: str) -> Path:
    """Write a file whole or not at all; one clear line if that is impossible."""
    path = Path(path)
    make_folder(path)
    write_whole(path, text.encode(errors="replace"))
    return path


def write_json(path: str | Path, document: Any) -> Path:
    """Write a JSON file."""
    return write_text(path, _as_json(document))


def _as_json(document: Any) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def check_writable(path: str | Path) -> None:
    """Refuse an output path early, before any work is done for it."""
    path = Path(path)
    if path == STDOUT:
        return
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
