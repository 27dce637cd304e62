"""Who may import whom: the order of the rooms, and that shared rooms name no system."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxsched"
FLOORS = (
    (
        *("types", "errors", "files", "pictures", "runtime", "units", "memory", "ops"),
        *("offers", "provenance", "json_values", "arguments", "options"),
    ),
    ("jobs", "networks", "core"),
    ("wrappers", "elastic", "traces", "trace_replay", "algorithms"),
    ("systems",),
    ("envs",),
    ("results", "exports", "adapters"),
    ("runs", "report"),
    ("serve", "leaderboard", "experiment", "advice", "queues"),
    ("bench",),
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


def imports(tree: ast.AST) -> list[str]:
    """What a file imports of the package, at the top, in functions and for its types alone.

    ``from a import b`` is ``a.b``, which may be a module or a name in one.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names]
    return [module for module in found if module.startswith("jaxsched.")]


def module_of(file: Path) -> str:
    parts = ("jaxsched", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}
IMPORTS = {
    module: imports(ast.parse(file.read_text(encoding="utf-8"))) for module, file in MODULES.items()
}


def room_graph() -> dict[str, set[str]]:
    """Which rooms each room imports; the package itself, which hands out names, is none."""
    rooms: dict[str, set[str]] = {}
    for module, imported in IMPORTS.items():
        room = room_of(module)
        others = {room_of(name) for name in imported} & FLOOR.keys()
        rooms.setdefault(room, set()).update(others - {room})
    return {room: others for room, others in rooms.items() if room in FLOOR}


def module_graph() -> dict[str, set[str]]:
    """Which modules each module imports, packages' own files left out."""
    graph = {}
    for module, imported in IMPORTS.items():
        found = {name if name in MODULES else name.rpartition(".")[0] for name in imported}
        graph[module] = {name for name in found if MODULES.get(name, PACKAGE).stem != "__init__"}
    return graph


def circles(graph: dict[str, set[str]]) -> list[str]:
    """What is left of a graph when everything that leads out of it has been taken away."""
    left = dict(graph)
    while ends := [node for node, others in left.items() if not others & left.keys() - {node}]:
        for node in ends:
            del left[node]
    return sorted(left)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_down(file):
    relative = file.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    if room not in FLOOR:
        assert room in ("__init__", "__main__")
        return
    for module in IMPORTS[module_of(file)]:
        assert FLOOR.get(room_of(module), 0) <= FLOOR[room], module


def test_no_circles_of_rooms():
    assert not circles(room_graph())


def test_no_circles_of_modules():
    """Nor within a room, for types alone or inside functions."""
    assert not circles(module_graph())


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == ["a", "b", "c"]
    assert not circles(graph | {"c": {"d"}})


def test_every_room_has_a_floor():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms <= set(FLOOR)


def test_learners_know_no_environment():
    for file in (PACKAGE / "algorithms").glob("*.py"):
        found = IMPORTS[module_of(file)]
        assert not [module for module in found if room_of(module) in ("envs", "systems")]


def test_shared_rooms_name_no_system():
    for file in FILES:
        relative = file.relative_to(PACKAGE)
        if relative.parts[0] in ("envs", "elastic") or str(relative) in NAMING:
            continue
        named = SYSTEMS.findall(file.read_text(encoding="utf-8"))
        assert not named, f"{relative} names {named}"


LONGEST_COMMAND = 80
"""Lines of a function of the command line with its parameters; more is logic of the library."""


def test_commands_only_parse_call_and_print():
    for file in (PACKAGE / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= LONGEST_COMMAND, f"{file.name}: {node.name} has {length} lines"
