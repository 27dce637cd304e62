"""Messages name an argument as its caller types it."""

import ast
import re
from pathlib import Path

import pytest

import jaxsched
from jaxsched import JaxschedError
from jaxsched.arguments import argument, entry_of, options_typed
from tests.command_line import refused

PACKAGE = Path(jaxsched.__file__).parent
OPTION = re.compile(r"(^|[\s(`'])--[a-z]")
OF_COMMANDS = ("cli", "bench", "leaderboard")
"""Rooms that commands alone enter."""
NO_ARGUMENTS = {
    "arguments.py": "the spellings themselves",
    "provenance.py": "words for git",
    "runtime.py": "a flag of XLA",
    "serve/listening.py": "only the command listens",
    "serve/run.py": "only the command listens",
    "queues/kueue.py": "options of kubectl",
    "queues/slurm.py": "options of squeue",
    "traces/readers/sacct/__init__.py": "options of sacct",
    "traces/readers/sacct/documents.py": "options of sacct",
}


def texts(file):
    """The texts of a file that are no docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and not isinstance(parents[node], ast.Expr):
            yield node.value


def test_library_spells_no_option_itself():
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE)
        if place.parts[0] in OF_COMMANDS or "peer_workers" in place.parts:
            continue
        found = [text for text in texts(file) if OPTION.search(text)]
        assert bool(found) == (str(place) in NO_ARGUMENTS), (place, found)


def test_two_spellings():
    assert argument("num_jobs") == "num_jobs" and entry_of("set", "seed") == "set['seed']"
    with options_typed():
        assert argument("num_jobs") == "--num-jobs" and argument("traces") == "--trace"
        assert entry_of("set", "seed") == "--set seed"
    assert argument("traces") == "traces"


@pytest.mark.parametrize(
    ("call", "words", "name", "said"),
    [
        ({"devices": "many"}, ("--devices", "many"), "devices", " is 'many'"),
        ({"devices": 999}, ("--devices", "999"), "devices", " is 999; there"),
        ({"servers": "4"}, ("--servers", "4"), "servers", " is '4'"),
        ({"windo": 3}, ("--set", "env.windo=3"), "windo", ": no field 'windo'"),
        ({"part": "1:0"}, ("--part", "1:0"), "part", " is '1:0'"),
        (
            {"traces": "sched2-test-68", "num_traces": 999},
            ("--trace", "sched2-test-68", "--num-traces", "999"),
            "sched2-test-68: has 30 tables; accepted: num_traces",
            " up to 30",
        ),
    ],
)
def test_same_refusal_in_both_spellings(call, words, name, said, capsys):
    with pytest.raises(JaxschedError, match=f"^{re.escape(name + said)}"):
        jaxsched.compare("sched2", policies=["fifo"], **call)
    line = refused(capsys, "compare", "sched2", "--policies", "fifo", *words)
    option = words[0 if "num_traces" not in call else 2]
    option = f"{option} env.{name}" if option == "--set" else option
    assert f"{option}{said}" in line


def test_changes_of_a_recipe_are_entries():
    with pytest.raises(JaxschedError, match=r"^set\['loop.speed'\]: no field 'speed'; known"):
        jaxsched.train("sched2", set={"loop.speed": 1})
