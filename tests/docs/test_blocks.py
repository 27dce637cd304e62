"""Code of README and docs: Python runs, commands are ones that the command line knows.

``test_commands`` runs those that are cheap.
"""

import re
import shlex
from contextlib import nullcontext

import pytest
import typer

from jaxsched.cli.commands import build_app
from jaxsched.systems import presets, registry
from tests.docs.commands import ALL
from tests.docs.pages import ROOT, blocks, name_of, pages
from tests.optimising import optimising

SLOW = {
    "README.md": "1,024 and 4,096 environments; tests/systems runs its first block",
    "docs/adapters.md": "six environments; tests/adapters has each form",
    "docs/how_to/cluster_environment.md": "five programs; tests/envs/cluster has each",
    "docs/replay.md": "plays and draws an episode; tests/cli does so in other ways",
}
"""Pages whose Python takes longer, and why."""
EXTENDED = {"docs/how_to/own_loop.md": "a training and eight programs"}
"""Pages whose Python runs in the extended tests, and why."""


def marks_of(page: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (page in SLOW) + [pytest.mark.extended] * (page in EXTENDED)


RUNNING = [
    pytest.param(page, id=name_of(page), marks=marks_of(name_of(page)))
    for page in pages()
    if any(block.language == "python" for block in blocks(page))
]
EXAMPLE = "weighted"  # the system of examples/new_environment.py


@pytest.mark.parametrize("page", RUNNING)
def test_python_runs(page, tmp_path, monkeypatch):
    """The blocks of a page, one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__docs__"}
    with optimising() if name_of(page) in SLOW else nullcontext():
        for number, block in enumerate(blocks(page)):
            if block.language == "python":
                exec(compile(block.code, f"{name_of(page)}, block {number}", "exec"), names)


def test_there_are_commands_to_check():
    assert len(ALL) > 60
    assert {"README.md", "docs/quickstart.md", "docs/scaling.md"} <= {page for page, _ in ALL}


@pytest.fixture(scope="module")
def app():
    return typer.main.get_command(build_app())


@pytest.mark.parametrize(("page", "words"), ALL, ids=lambda text: text[:60])
def test_commands_are_known(app, page, words):
    """Commands, options, systems and presets; what stands for the reader's own is left."""
    text = re.sub(r"\[(--?\S+) ([^\]]*)\]", r"\1 \2", words).replace("|", "_")
    command, arguments = app, shlex.split(text, comments=True)[1:]
    while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
        command, arguments = command.commands[arguments[0]], arguments[1:]
    assert not hasattr(command, "commands"), f"{page}: no such command: {words}"
    context = command.context_class(command, info_name="jaxsched")
    values, given, _ = command.make_parser(context).parse_args(args=list(arguments))
    system = values.get("system") or next(iter(given), None)
    takes = {parameter.name for parameter in command.params}
    if "system" in takes and isinstance(system, str) and system.islower():
        assert system in (*registry.names(), EXAMPLE), f"{page}: no such system: {words}"
    preset = values.get("preset")
    if preset and system in registry.names():
        assert presets.preset(registry.get(system), preset) is not None


def test_wrong_commands_are_found(app):
    for words in ("jaxsched train sched2 --presett quick", "jaxsched trian sched2"):
        with pytest.raises(Exception, match="presett|no such command"):
            test_commands_are_known(app, "here", words)


def test_examples_that_pages_include_exist():
    for page in pages():
        for name in re.findall(r"\{literalinclude\} (\S+)", page.read_text(encoding="utf-8")):
            assert (page.parent / name).resolve().is_relative_to(ROOT)
            assert (page.parent / name).exists(), (name_of(page), name)
