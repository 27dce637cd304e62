"""What all commands share: options from a file, silence, results on standard output, completion."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from jaxsched.cli import main
from jaxsched.cli.commands import COMMANDS, TRACE_COMMANDS, build_app
from jaxsched.cli.examples import EXAMPLES
from jaxsched.experiment import splits
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.splits import sets_of
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry
from tests.command_line import refused

FEW = ["--num-traces", "1", "--num-jobs", "10"]


def command_of(words):
    """The command that words begin with, and the words after it."""
    import typer

    group = typer.main.get_command(build_app())
    name, rest = words[0], words[1:]
    while hasattr(group.commands[name], "commands"):
        group, name, rest = group.commands[name], rest[0], rest[1:]
    return group.commands[name], rest


def test_every_command_has_examples_that_parse():
    assert set(EXAMPLES) == {*COMMANDS, *(f"traces {name}" for name in TRACE_COMMANDS)}
    for name, lines in EXAMPLES.items():
        for line in lines:
            program, *words = line.split()
            assert program == "jaxsched" and line.startswith(f"jaxsched {name}")
            command, rest = command_of(words)
            if "--config" in rest:
                continue
            given = command.make_context(name, rest).params
            changes = [*(given.get("settings") or ()), *(given.get("over") or ())]
            if changes:
                recipe = presets.preset(registry.get(given["system"]), given["preset"])
                override(recipe, [change.split(",")[0] for change in changes])


def test_help_groups_options_and_fits_80_columns(capsys):
    assert main(["train", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles[:2] == ["Arguments:", "Options:"]
    assert titles[-2:] == ["Of every command:", "Examples:"] and "Traces:" in titles
    traces, devices = lines.index("Traces:"), lines.index("Devices and processes:")
    assert traces < next(i for i, line in enumerate(lines) if "--num-jobs" in line) < devices
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_file_gives_what_was_not_typed(tmp_path, capsys, where):
    path = tmp_path / "run.toml"
    path.write_text(
        'command = "evaluate"\nsystem = "sched2"\npolicy = "sif"\nnum-traces = 2\n'
        'num-jobs = 10\njson = "-"\n'
    )
    words = ["--config", str(path)], ["--num-traces", "1"]
    assert main(["evaluate", *words[where == "after"], *words[where == "before"]]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"]["count"] == 1
    assert [policy["name"] for policy in result["policies"]] == ["sif"]


def test_settings_of_a_file_and_typed_ones_add_up(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text('system = "dl2"\n[set.loop]\nnum_envs = 3\n[set]\nnothing = 1\n')
    assert "no field 'nothing'" in refused(capsys, "train", "--config", path)
    path.write_text('system = "dl2"\n[set]\n"loop.num_envs" = 3\n')
    line = refused(capsys, "train", "--config", path, "--set", "loop.nothing=1")
    assert "no field 'nothing'" in line


@pytest.mark.parametrize(
    "text, words",
    [
        ("a = ", "is not TOML"),
        ('command = "sweep"', "is for the command 'sweep'"),
        ("nothing = 1", "no option 'nothing'"),
        ("seed = [1, 2]", "accepted: one value"),
        ("resume = 3", "accepted: true, false"),
        ("seed = 2020-01-01", "no value of an option"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, capsys, text, words):
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert words in refused(capsys, "train", "sched2", "--config", path)
    assert "cannot be read" in refused(capsys, "train", "--config", tmp_path / "absent.toml")


def test_quiet_shows_nothing_but_errors(tmp_path, capsys):
    result = tmp_path / "result.json"
    command = ["evaluate", "sched2", "--policy", "sif", *FEW, "--quiet", "--json", str(result)]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == "" and result.exists()
    assert "unknown policy" in refused(capsys, "evaluate", "sched2", "--policy", "x", "--quiet")
    assert main(["list"]) == 0
    assert capsys.readouterr().out, "the next command is not quiet"


def test_a_result_has_standard_output_to_itself(capsys):
    command = ["evaluate", "sched2", "--policy", "sif", *FEW, "--json", "-"]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["system"] == "sched2"
    assert "effectiveness" in captured.err and not os.path.exists("-")


def test_no_color_is_heeded(capsys, monkeypatch):
    colour = re.compile(r"\x1b\[(?:\d+;)*[349][0-7](?:;\d+)*m")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["evaluate", "sched2", "--policy", "sif", *FEW]) == 0
    assert colour.search(capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["evaluate", "sched2", "--policy", "sif", *FEW]) == 0
    assert not colour.search(capsys.readouterr().out)


@pytest.mark.parametrize(
    "typed, found",
    [
        ("jaxsched evaluate sch", {"sched2"}),
        ("jaxsched train dl2 --preset test", {"testbed"}),
        ("jaxsched evaluate sched2 --policy strict", {"strict", "strict_sif"}),
        ("jaxsched compare sched2 --trace sched2-test", {"sched2-test-68"}),
        ("jaxsched tra", {"train", "traces"}),
    ],
)
def test_a_shell_completes_names(typed, found):
    words = typed.split()
    environment = os.environ | {
        "_JAXSCHED_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "import sys; sys.argv[0] = 'jaxsched'; from jaxsched.cli import main; sys.exit(main([]))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert found <= set(done.stdout.split()), done.stderr


def test_doctor_tells_what_is_here(capsys, monkeypatch, tmp_path):
    from jaxsched.runs import machine

    assert main(["doctor", "--json", "-"]) == 0
    captured = capsys.readouterr()
    facts = json.loads(captured.out)
    assert facts["devices"][0]["platform"] == "cpu" and facts["problems"] == []
    assert facts["versions"]["jax"] in captured.err and "nothing is wrong" in captured.err
    monkeypatch.setattr(machine, "version_of", lambda name: "0.1" if name == "jax" else None)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "jax is 0.1; accepted" in shown and "flax is not installed" in shown


def test_doctor_says_what_a_preset_needs(capsys, monkeypatch):
    few = TraceOptions(num_traces=1, num_jobs=10)
    monkeypatch.setattr(splits, "sets_of", lambda *arguments: sets_of(*arguments[:-1], few))
    tiny = (
        "env.num_servers=4 env.window=3 loop.num_envs=4 loop.rollout_length=4 "
        "learner.capacity=256 learner.learning_starts=32 learner.batch_size=16"
    )
    words = [word for setting in tiny.split() for word in ("--set", setting)]
    assert main(["doctor", "sched2", *words, "--json", "-"]) == 0
    captured = capsys.readouterr()
    (stage,) = json.loads(captured.out)["stages"]
    assert stage["updates"] == 2500 and stage["env_steps"] == 2500 * 16
    assert stage["peak_bytes"] > 0 and stage["total_s"] > 2500 * stage["update_s"]
    assert "together about" in captured.err
    assert "name its system" in refused(capsys, "doctor", "--set", "loop.num_envs=4")


def test_written_files_are_toml_that_says_what_was_typed():
    command, _ = command_of(["train"])
    typed = ["dl2", "--set", "loop.num_envs=4", "--set", "name=a=b", "--seed", "3", "--cut"]
    context = command.make_context("train", typed)
    from jaxsched.cli.config_file import as_toml
    from jaxsched.cli.options import given

    document = tomllib.loads(as_toml("train", given(context, without=("out",))))
    assert document == {
        "command": "train",
        "system": "dl2",
        "seed": 3,
        "cut": True,
        "set": {"loop.num_envs": "4", "name": "a=b"},
    }
