"""Which extended and slow tests CI runs today: a seventh by date, and those of what changed.

Every module has its day of the week: where CI runs daily, each is run at least once a week.
Its extended tests are run, too, where it has changed, or a file that it imports, or the file of
the package (or of ``benchmarks``) whose name it has.
"""

import ast
import datetime
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

DAYS = 7
HOURS = 4
"""Changes are of these last hours: CI runs after each piece of work."""
ROOT = Path(__file__).parents[1]
OUTSIDE = ("benchmarks", "docs", "examples")
"""Folders of the checkout, beside those of the package, that folders of ``tests`` mirror."""


def modules() -> list[str]:
    """All modules of the suite, as paths from the checkout."""
    found = (ROOT / "tests").rglob("test_*.py")
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def mirrored(module: str) -> str:
    """The folder that a module's tests are about, with a slash at its end.

    Args:
      module: such as ``tests/envs/das/test_system.py``.
    """
    inside = PurePosixPath(module).relative_to("tests").parent
    if inside.parts and inside.parts[0] in OUTSIDE:
        return f"{inside.as_posix()}/"
    return f"{(PurePosixPath('jaxsched') / inside).as_posix()}/"


def has_turn(module: str, day: int, every: Sequence[str]) -> bool:
    """Whether it is this module's day.

    Args:
      module: one of ``every``.
      day: days since any day.
      every: all modules, in order.
    """
    return every.index(module) % DAYS == day % DAYS


def imported(module: str) -> set[str]:
    """Files that a module may import, as paths from the checkout; some of them do not exist."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            base = name.replace(".", "/")
            found |= {f"{base}.py", f"{base}/__init__.py"}
    return found


def is_touched(module: str, changed: Iterable[str]) -> bool:
    """Whether a module has changed, a helper beside it, what it imports, or its namesake.

    Args:
      module: as ``modules`` names it.
      changed: paths from the checkout.
    """
    path = PurePosixPath(module)
    looked_at = {module, mirrored(module) + path.name.removeprefix("test_")} | imported(module)
    for other in map(PurePosixPath, changed):
        is_helper = other.parent == path.parent and not other.name.startswith("test_")
        if is_helper or str(other) in looked_at:
            return True
    return False


def changed_lately(hours: int = HOURS) -> list[str]:
    """Files that commits of the last hours changed.

    Raises:
      OSError, subprocess.CalledProcessError: git does not tell.
    """
    command = ["git", "log", f"--since={hours} hours ago", "--name-only", "--format="]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split("\n")) - {""})


class Turn(NamedTuple):
    """What CI runs today, names of modules."""

    extended: frozenset[str]
    slow: frozenset[str]


@cache
def today() -> Turn:
    """The modules whose extended tests, and whose slow ones, CI runs today."""
    every, changed = modules(), changed_lately()
    day = datetime.datetime.now(datetime.UTC).date().toordinal()
    by_date = frozenset(module for module in every if has_turn(module, day, every))
    touched = (module for module in every if is_touched(module, changed))
    return Turn(by_date.union(touched), by_date)


if __name__ == "__main__":  # whether a module's slow tests run today, as an exit status
    sys.exit(sys.argv[1] not in today().slow)
