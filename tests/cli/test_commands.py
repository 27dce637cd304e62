"""The table of commands: what it reaches, and what it costs to look at."""

import ast
import subprocess
import sys
from pathlib import Path

import typer

from jaxsched import cli
from jaxsched.cli import main
from jaxsched.cli.commands import COMMANDS, TRACE_COMMANDS, build_app

FOLDER = Path(cli.__file__).parent


def imports_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_command_imports_the_table_or_the_entry_point():
    for path in FOLDER.rglob("*.py"):
        if path.name in ("main.py", "commands.py") or path == FOLDER / "__init__.py":
            continue
        assert not imports_of(path) & {"jaxsched.cli.main", "jaxsched.cli.commands", "jaxsched.cli"}


def test_commands_are_plain_functions():
    for command in (*COMMANDS.values(), *TRACE_COMMANDS.values()):
        assert type(command) is type(imports_of) and command.__doc__


def test_help_lists_every_command_and_imports_nothing_heavy():
    code = (
        "import sys; from jaxsched.cli import main; status = main(sys.argv[1:]);"
        "heavy = {'jax', 'numpy', 'scipy', 'matplotlib', 'pyarrow', 'orbax'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    for words, table in (([], COMMANDS), (["traces"], TRACE_COMMANDS)):
        command = [sys.executable, "-c", code, *words, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert all(f"\n  {name} " in done.stdout for name in table)


def _options():
    """Every visible option of every command, with the command's words."""
    group = typer.main.get_command(build_app())
    for words, command in [*group.commands.items(), *group.commands["traces"].commands.items()]:
        if hasattr(command, "commands"):
            continue
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                yield f"{words} {parameter.opts[0]}", parameter


NO_DEFAULT = (
    *("--json", "--html", "--plot", "--jobs", "--set", "--option", "--checkpoint", "--part"),
    *("--mean-gap", "--load", "--coordinator", "--num-processes", "--process-id", "--columns"),
    *("--timezone", "--batch", "--peer-python", "--score", "--start", "--track", "--out"),
    *("--policy", "--trace", "--system", "--data", "--config", "--over", "--env"),
    *("--max-time", "--stop-on"),
)
"""Without a default: nothing is written, changed, or asked for, unless they are given."""


def test_every_default_stands_in_the_help():
    for words, parameter in _options():
        default, shown = parameter.default, parameter.show_default
        text = parameter.help or ""
        assert "by default" not in text and "if absent" not in text, words
        if isinstance(shown, str):
            assert default is None or default == [], f"{words}: two defaults"
            assert shown and not text.endswith(f"; {shown}."), words
        elif default is None or default == []:
            assert parameter.required or parameter.opts[0] in NO_DEFAULT, words


def test_defaults_in_words_are_those_of_the_code():
    from jaxsched.advice.spans import HISTORY
    from jaxsched.bench.kinds import UPDATES
    from jaxsched.bench.throughput import REPEATS, ROW_S
    from jaxsched.leaderboard.board import ITERATIONS
    from jaxsched.leaderboard.cells import DRAWS

    shown = {words: str(parameter.show_default) for words, parameter in _options()}
    assert float(shown["bench --budget"]) == ROW_S
    assert shown["bench --repeats"].startswith(f"{REPEATS},")
    assert shown["bench --updates"] == str(UPDATES)
    assert shown["leaderboard --draws"] == str(DRAWS)
    assert shown["leaderboard --iterations"] == str(ITERATIONS)
    assert shown["advise --history"] == str(HISTORY)


def test_the_help_shows_defaults_without_brackets_of_their_own(capsys):
    assert main(["compare", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "[default: the test set]" in text and "[default: the preset's number;" in text
    assert "[default: all heuristics]" in text
