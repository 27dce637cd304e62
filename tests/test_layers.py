"""Who may import whom: the order of the rooms, and that shared rooms name no system."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxsched"
FLOORS = (
    ("types", "errors", "files", "pictures", "runtime", "units", "memory", "ops"),
    ("jobs", "networks", "core"),
    ("wrappers", "elastic", "traces", "trace_replay", "algorithms"),
    ("systems",),
    ("envs",),
    ("runs", "results", "exports", "report", "adapters"),
    ("serve", "leaderboard", "experiment", "bench"),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))
SYSTEMS = re.compile(r"\b(sched2|dl2|chic|das|mlfs)\b")
NAMING = {
    "systems/registry.py",
    "cli/bench.py",
    "cli/demo.py",
    "cli/examples.py",
    "cli/traces/conversion.py",
}
"""The registry itself, a default, a demonstration, examples and a help text."""


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(tree: ast.AST, *, lazy: bool) -> list[str]:
    """Modules of the package that are imported at the top or, where lazy, inside functions."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.col_offset > 0) == lazy and node.module:
            if node.module == "jaxsched":
                found += [f"jaxsched.{name.name}" for name in node.names]
            elif node.module.startswith("jaxsched."):
                found.append(node.module)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_down(file):
    relative = file.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    if room not in FLOOR:
        assert room in ("__init__", "__main__")
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for module in imports(tree, lazy=False):
        assert FLOOR.get(room_of(module), 0) <= FLOOR[room], module
    for module in imports(tree, lazy=True):  # by name, at the time of the call
        below = FLOOR.get(room_of(module), 0) <= FLOOR[room]
        assert below or (room == "traces" and module == "jaxsched.systems"), module


def test_every_room_has_a_floor():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms <= set(FLOOR)


def test_learners_know_no_environment():
    for file in (PACKAGE / "algorithms").glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found = imports(tree, lazy=False) + imports(tree, lazy=True)
        assert not [module for module in found if room_of(module) in ("envs", "systems")]


def test_shared_rooms_name_no_system():
    for file in FILES:
        relative = file.relative_to(PACKAGE)
        if relative.parts[0] in ("envs", "elastic") or str(relative) in NAMING:
            continue
        named = SYSTEMS.findall(file.read_text(encoding="utf-8"))
        assert not named, f"{relative} names {named}"
