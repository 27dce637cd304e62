"""Which extended and slow tests CI runs today: those whose day it is, and those of what changed.

Every test has its day of the week: where CI runs daily, each is run at least once a week. Days take
alike long by the processor time that ``make test-seconds`` measured (``seconds.json``). Extended
tests of a module are run, too, where it has changed, or a file that it imports, or the file of the
package (or of ``benchmarks``) whose name it has, as far as there is room: the last ones to be left
for their day are those whose own file or namesake changed.
"""

import ast
import datetime
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

DAYS = 7
HOURS = 4
"""Changes are of these last hours: CI runs after each piece of work."""
ROOM_S = 420.0
"""Processor seconds of a day's tests, those of touched modules included, unless ``$TURN_ROOM_S``
says otherwise: CI asks this module how much there is on its machine (``room``)."""
WALL_S, OTHERS_S, LOOP_S = 1260.0, 340.0, 0.12
"""What a run of CI shall take (4 minutes below its limit), and, on the machine that measured
``seconds.json``, all but the day's tests, and the loop of ``room``."""
CORES = 2
ALONE_S = 20.0
"""A test that takes longer has a day of its own, apart from that of its module."""
ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).parent / "seconds.json"
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


class Seconds(NamedTuple):
    """Processor seconds of a unit's extended tests and of its slow ones."""

    extended: float
    slow: float


@cache
def measured() -> dict[str, Seconds]:
    """What ``make test-seconds`` measured, by unit: a module, or a test with a day of its own."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    return {unit: Seconds(*seconds) for unit, seconds in table.items()}


def unit_of(name: str) -> str:
    """The unit that a test belongs to.

    Args:
      name: such as ``tests/envs/das/test_system.py::test_rule[case]``.
    """
    return name if name in measured() else name.partition("::")[0]


def units() -> list[str]:
    """All modules, and the tests that have days of their own, of modules that exist."""
    every = modules()
    existing = set(every)
    return [*every, *(u for u in measured() if "::" in u and u.partition("::")[0] in existing)]


def days(seconds: Mapping[str, float]) -> dict[str, int]:
    """The day of each unit, from 0: the longest first, each to the day with the least.

    Args:
      seconds: of each unit; one without any (nothing to run, or new) goes by its name, and moves
        no other.
    """
    loads = [0.0] * DAYS
    found = {}
    for unit in sorted(seconds, key=lambda unit: (-seconds[unit], unit)):
        if seconds[unit] > 0:
            found[unit] = loads.index(min(loads))
            loads[found[unit]] += seconds[unit]
        else:
            found[unit] = zlib.crc32(unit.encode()) % DAYS
    return found


@cache
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


def is_changed(module: str, changed: Iterable[str]) -> bool:
    """Whether a module has changed, or the file that it is about.

    Args:
      module: as ``modules`` names it.
      changed: paths from the checkout.
    """
    namesake = mirrored(module) + PurePosixPath(module).name.removeprefix("test_")
    return not {module, namesake}.isdisjoint(changed)


def is_touched(module: str, changed: Sequence[str]) -> bool:
    """Whether a module has changed, a helper beside it, what it imports, or its namesake.

    Args:
      module: as ``modules`` names it.
      changed: paths from the checkout.
    """
    if is_changed(module, changed) or not imported(module).isdisjoint(changed):
        return True
    others = map(PurePosixPath, changed)
    folder = PurePosixPath(module).parent
    return any(o.parent == folder and not o.name.startswith("test_") for o in others)


def changed_lately(hours: int = HOURS) -> list[str]:
    """Files that commits of the last hours changed.

    Raises:
      OSError, subprocess.CalledProcessError: git does not tell.
    """
    command = ["git", "log", f"--since={hours} hours ago", "--name-only", "--format="]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split("\n")) - {""})


def room() -> float:
    """Processor seconds that a day's tests may take here, by how fast this machine is now."""

    def loop() -> float:
        began, total = time.perf_counter(), 0
        for k in range(5_000_000):
            total += k % 7
        return time.perf_counter() - began

    slowness = min(loop() for _ in range(5)) / LOOP_S
    return max(CORES * (WALL_S / slowness - OTHERS_S), 0.0)


class Turn(NamedTuple):
    """What CI runs today, names of units.

    Attributes:
      extended: whose extended tests run.
      slow: whose slow tests run.
      left: modules that are touched and wait for their day, as there is no room.
      seconds: of processor time, as measured.
    """

    extended: frozenset[str]
    slow: frozenset[str]
    left: tuple[str, ...]
    seconds: float

    def modules(self) -> frozenset[str]:
        """Modules of which some extended or slow test runs."""
        return frozenset(unit.partition("::")[0] for unit in self.extended | self.slow)

    def __str__(self) -> str:
        """One line for the head of a run."""
        text = f"{len(self.slow)} units have their day, {len(self.extended - self.slow)} modules"
        text += f" are touched, about {self.seconds:.0f} s of processor time"
        return text + (f"; no room for {', '.join(self.left)}" if self.left else "")


def turn(day: int, changed: Sequence[str], room_s: float = ROOM_S) -> Turn:
    """What CI runs on a day.

    Args:
      day: days since any day.
      changed: paths from the checkout.
      room_s: processor seconds that the day has.
    """
    known = measured()
    every = {unit: sum(known.get(unit, (0.0,))) for unit in units()}
    own = frozenset(unit for unit, its in days(every).items() if its == day % DAYS)
    seconds = sum(every[unit] for unit in own)
    touched = [m for m in modules() if m not in own and is_touched(m, changed)]
    cost = {m: known[m].extended if m in known else 0.0 for m in touched}
    more, left = set(), []
    for module in sorted(touched, key=lambda m: (not is_changed(m, changed), cost[m], m)):
        if seconds + cost[module] <= room_s:
            seconds += cost[module]
            more.add(module)
        else:
            left.append(module)
    return Turn(own | more, own, tuple(left), seconds)


@cache
def today() -> Turn:
    """What CI runs today."""
    day = datetime.datetime.now(datetime.UTC).date().toordinal()
    return turn(day, changed_lately(), float(os.environ.get("TURN_ROOM_S", ROOM_S)))


def write_table(lines: Iterable[str]) -> None:
    """Write ``seconds.json`` from the lines of a run with ``--seconds``: ``[test, mark, seconds]``.

    Tests that were not run keep what they had.
    """
    tests = {name: rest for name, *rest in map(json.loads, lines)}  # the last of each counts
    found = {name.partition("::")[0]: [0.0, 0.0] for name in tests}
    for name, (mark, seconds) in tests.items():
        unit = name if seconds > ALONE_S else name.partition("::")[0]
        found.setdefault(unit, [0.0, 0.0])[mark == "slow"] += seconds
    old = {
        unit: list(seconds)
        for unit, seconds in (measured() if TABLE.exists() else {}).items()
        if unit.partition("::")[0] not in found and (ROOT / unit.partition("::")[0]).exists()
    }
    rows = sorted({**old, **found}.items())
    text = ",\n".join(f"  {json.dumps(u)}: [{e:.1f}, {s:.1f}]" for u, (e, s) in rows if e + s)
    TABLE.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--room":
        print(round(room()))
    elif sys.argv[1] == "--write":  # the table, from a file of a run with --seconds
        write_table(Path(sys.argv[2]).read_text(encoding="utf-8").splitlines())
    else:  # whether some slow test of a module runs today, as an exit status
        sys.exit(not any(unit.partition("::")[0] == sys.argv[1] for unit in today().slow))
