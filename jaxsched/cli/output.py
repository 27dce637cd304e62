"""Small things that several commands print, write or return."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from jaxsched import files
from jaxsched.runtime import set_quiet, shows

LOST, BAD_INPUT, STOPPED = 1, 2, 130
"""Exit statuses; 0 is done."""

STDOUT = Path("-")
"""Stands for standard output where a file is asked for."""

UNCUT = 100_000
"""Columns where the output is no terminal: tables are as wide as they need to be."""


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
        print(files.as_json(document), end="")
    else:
        out.print(f"{what} written to {files.write_json(path, document)}", highlight=False)


def check_writable(path: str | Path) -> None:
    """Refuse an output path early, before any work is done for it; standard output is fine."""
    if Path(path) != STDOUT:
        files.check_writable(path)
