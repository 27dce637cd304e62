"""References made from the code: the commands, and the API room by room.

Both are written as pages below ``docs/reference`` before Sphinx looks for sources.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from api_calls import directives, in_order

from jaxsched.cli.commands import build_app

REFERENCE = Path(__file__).parents[1] / "reference"

ROOMS = {
    "core": "The environment protocol, policies, learners, training, evaluation",
    "algorithms": "Learners",
    "wrappers": "Environments around environments",
    "networks": "Networks and their descriptions",
    "jobs": "Job tables, metrics, schedules",
    "traces": "Traces: formats, generators, mapping",
    "systems": "What a system tells the rest of the library",
    "envs": "The five systems",
    "runs": "Training runs on disk",
    "results": "Statistics and comparisons",
    "adapters": "Other projects' interfaces",
}
"""Rooms of the package that programs import, and what each is for."""

INNER = {
    "envs": ("environment", "dynamics", "heuristics", "observation", "reward", "workload"),
    "traces": ("csv_tables", "describe", "mapping", "named", "registry", "synthetic", "trace"),
}
"""Of large rooms, the modules by name that have a place in the reference."""

INDEX = """# Reference

- [Commands](commands.md): every command with its options and their defaults
- [Python API](api.md): the calls that programs make, then all rooms of the package
"""

TOP = ("jaxsched.types", "jaxsched.errors", "jaxsched.runtime")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", lambda app, config: write_pages())
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _whole_sentence, priority=400)  # before napoleon
    return {"parallel_read_safe": True}


def write_pages(folder: Path = REFERENCE) -> None:
    """Write every page, leaving alone those that would not change."""
    pages = {"index.md": INDEX, "commands.md": commands_page(), "api.md": api_index()}
    pages |= {f"api_{room}.md": api_page(room) for room in present_rooms()}
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# Commands


def commands_page() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_command(build_app())
    intro = (
        "Made from the command line itself; `jaxsched COMMAND --help` says the same. Every command "
        "also takes `--config FILE` and `--quiet` ([the command line](../command_line.md))."
    )
    return "\n".join(["# Commands", "", intro, "", *_described("jaxsched", group)]) + "\n"


def _described(words: str, group: Any) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _described(f"{words} {name}", command)
            continue
        yield from (f"## {words} {name}", "", f"```text\n{_usage(words, name, command)}\n```", "")
        yield from (_paragraphs(command.help or ""), "")
        shown = [p for p in command.params if not getattr(p, "hidden", False)]
        for title in dict.fromkeys(_group(parameter) for parameter in shown):
            yield from ([f"**{title}**", ""] if title else [])
            yield from _table([parameter for parameter in shown if _group(parameter) == title])
        if command.epilog:
            yield from ("```console", *(f"$ {x}" for x in command.epilog.splitlines()), "```", "")


def _group(parameter: Any) -> str:
    """The title that the help of a command lists an option under."""
    return getattr(parameter, "rich_help_panel", None) or ""


def _usage(words: str, name: str, command: Any) -> str:
    places = [_place(parameter) for parameter in command.params if _is_argument(parameter)]
    return " ".join((words, name, "[OPTIONS]", *places))


def _place(parameter: Any) -> str:
    name = str(parameter.name).upper() + ("..." if parameter.nargs != 1 else "")
    return name if parameter.required else f"[{name}]"


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _table(parameters: list[Any]) -> Iterator[str]:
    if not parameters:
        return
    yield "| | meaning | default |"
    yield "|---|---|---|"
    for parameter in parameters:
        if _is_argument(parameter):
            names = f"`{parameter.name.upper()}`"
        else:
            names = ", ".join(f"`{name}`" for name in parameter.opts)
        default, words = parameter.default, getattr(parameter, "show_default", None)
        plain = default is None or default is False or callable(default) or default in ([], ())
        shown = _cell(words) if isinstance(words, str) else "" if plain else f"`{default}`"
        help_text = _cell(getattr(parameter, "help", None) or "")
        yield f"| {names} | {help_text} | {shown} |"
    yield ""


def _cell(text: str) -> str:
    """Text that a table's cell shows as it is: no column marks, no emphasis by accident."""
    words = " ".join(text.split())
    return words.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<").replace("[", "\\[")


# API


def present_rooms() -> list[str]:
    """Rooms that this checkout has."""
    return [room for room in ROOMS if importlib.util.find_spec(f"jaxsched.{room}")]


def api_index() -> str:
    """The calls that programs make, then what leads to the rooms."""
    rows = "\n".join(f"- [`jaxsched.{room}`](api_{room}.md): {ROOMS[room]}" for room in _rooms())
    names = "\n".join(f"api_{room}" for room in _rooms())
    top = "\n".join(_module(name) for name in TOP)
    return (
        "# Python API\n\n"
        "First the calls that programs make, then all rooms of the package. Made from the "
        "docstrings, public names only. `import jaxsched` is light: `make`, `Environment`, "
        "`TimeStep`, `Learner`, `JobTable` and `JaxschedError` load on first use.\n\n"
        f"{directives()}\n## Room by room\n\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n\n{top}"
    )


def _rooms() -> list[str]:
    return present_rooms()


def api_page(room: str) -> str:
    """One room: its public modules, those that programs call first."""
    parts = [f"# jaxsched.{room}", "", ROOMS[room] + ".", ""]
    return "\n".join([*parts, *(_module(name) for name in in_order(room, modules_of(room)))])


def modules_of(room: str) -> list[str]:
    """Names of a room's public modules, packages' own names left out."""
    package = importlib.import_module(f"jaxsched.{room}")
    found = pkgutil.walk_packages(package.__path__, f"jaxsched.{room}.")
    names = sorted(module.name for module in found if not module.ispkg)
    wanted = INNER.get(room)
    public = (name for name in names if not any(w.startswith("_") for w in name.split(".")))
    return [n for n in public if wanted is None or n.rpartition(".")[2] in wanted]


def _module(name: str) -> str:
    return f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n"


def _skip(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of records, which their class's docstring describes."""
    del app, options
    field = type(member).__name__ in ("_tuplegetter", "member_descriptor")
    return True if what == "class" and field else None


def _whole_sentence(
    app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """Keep napoleon from reading what stands before a colon as the type of a constant."""
    del app, name, member, options
    if what in ("attribute", "data") and lines:
        lines.insert(0, "\\ ")
