"""The table of commands: what it reaches, and what it costs to look at."""

import ast
import subprocess
import sys
from pathlib import Path

from jaxsched import cli
from jaxsched.cli.commands import COMMANDS, TRACE_COMMANDS

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
