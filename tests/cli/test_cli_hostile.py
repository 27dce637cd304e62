"""The command line in the hands of a clumsy user: strange names, and options without a meaning."""

import io
import json
import os
import sys

import pytest

from jaxsched.cli import main
from jaxsched.experiment.spellings import RENAMED, present_settings
from jaxsched.systems import presets, registry
from tests.command_line import refused

JOBS = "submit_time,num_gpus,duration,user\n0,1,100,[/b]\n10,2,200,:smile:\n40,4,90,[red]x\n"
TABLE = "submit_time,num_gpus,duration,model\n0,1,100,0\n10,2,200,1\n"


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "[b]jobs$\\frac$.csv"
    path.write_text(JOBS)
    return path


def test_names_are_printed_as_they_are(jobs, tmp_path, capsys):
    folder = tmp_path / "out["
    folder.mkdir()
    out = folder / "b]x.csv"  # with the folder: what looks like a closing tag
    assert main(["traces", "import", str(jobs), "--out", str(out)]) == 0
    assert main(["traces", "describe", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"trace written to {out}" in said and jobs.name.removesuffix(".csv") in said
    assert all(f"name {user}" in said for user in ("[/b]", ":smile:", "[red]x"))


def test_outputs_may_lie_in_new_folders(jobs, tmp_path):
    plot, figures = tmp_path / "a" / "b" / "p.png", tmp_path / "c" / "f.json"
    arguments = ["traces", "describe", str(jobs), "--plot", str(plot), "--json", str(figures)]
    assert main(arguments) == 0
    assert plot.stat().st_size > 3_000 and figures.stat().st_size > 100
    assert main([*arguments[:3], "--json", os.devnull]) == 0
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    "arguments",
    [
        ["traces", "generate", "sched2-68", "--num-traces", "1", "--num-jobs", "3", "--out"],
        ["traces", "generate", "philly-like", "--num-jobs", "50", "--out"],
        ["traces", "import", "{jobs}", "--out"],
        ["traces", "convert", "philly-sample", "--system", "sched2", "--num-traces", "1",
         "--num-jobs", "3", "--out"],
        ["traces", "describe", "{jobs}", "--json"],
        ["simulate", "{case}", "--json"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)  # fmt: skip
def test_every_command_makes_missing_folders(arguments, jobs, tmp_path):
    case = tmp_path / "case.json"
    case.write_text('{"system": "sched2", "reject": []}')
    words = [word.format(jobs=jobs, case=case) for word in arguments]
    out = tmp_path / "a" / "b" / "out.csv"
    assert main([*words, str(out)]) == 0
    assert out.stat().st_size > 0


@pytest.mark.parametrize(
    ("ending", "magic"),
    [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")],
)
def test_figures_have_the_format_of_their_ending(ending, magic, jobs, tmp_path):
    written = []
    for name in ("a", "b"):
        plot = tmp_path / f"{name}{ending}"
        assert main(["traces", "describe", str(jobs), "--plot", str(plot)]) == 0
        written.append(plot.read_bytes())
    assert written[0].startswith(magic) and written[0] == written[1]


def test_figures_of_other_endings_are_refused(jobs, tmp_path, capsys):
    for name in ("x.xyz", "x", "x.jpg"):
        line = refused(capsys, "traces", "describe", jobs, "--plot", tmp_path / name)
        assert line.endswith(f"{name}: expected a name that ends in .png or .svg or .pdf")
        assert not (tmp_path / name).exists()


def test_letters_that_a_terminal_cannot_show(tmp_path, monkeypatch):
    path = tmp_path / "日本.csv"
    path.write_text(JOBS)
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    assert main(["traces", "describe", str(path)]) == 0
    assert b"\\u65e5\\u672c" in screen.getvalue()


def test_options_without_a_meaning_are_refused(jobs, tmp_path, capsys):
    for option in (("--load", 0), ("--num-jobs", 2), ("--seed", 3), ("--mean-gap", 0)):
        assert "is described as it is" in refused(capsys, "traces", "describe", jobs, *option)
    named = refused(capsys, "traces", "describe", "sched2-68", "--format", "itp")
    assert "sched2-68: is a name; accepted: --format with a file" in named
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    accepted = "accepted: --cut with published traces and workloads"
    bad = {
        ("--cut",): f"table.csv: holds job tables; {accepted}",
        ("--load", 0): "load is 0.0; accepted: a number above 0",
        ("--mean-gap", -9): "mean_gap_s is -9.0; accepted: seconds above 0",
        ("--load", 1, "--mean-gap", 9): "load is 1.0; accepted: none where mean_gap_s is given",
        ("--load", 1e9): "table.csv: load is 1e+09, so that all jobs come within",
    }
    for option, said in bad.items():
        for command in (
            ("traces", "describe", table),
            ("traces", "convert", table, "--system", "sched2", "--out", tmp_path / "x.csv"),
            ("evaluate", "sched2", "--policy", "fifo", "--trace", table),
            ("train", "sched2", "--preset", "quick", "--trace", table, "--out", tmp_path / "r"),
        ):
            assert said in refused(capsys, *command, *option)
    assert not (tmp_path / "r").exists()
    elastic = refused(capsys, "evaluate", "chic", "--policy", "optimus", "--load", 0.5)
    assert elastic.endswith("so offer no load; accepted: --mean-gap")
    assert not (tmp_path / "x.csv").exists()


def test_numbers_take_the_first_of_job_tables(tmp_path, capsys):
    path, out = tmp_path / "tables.csv", tmp_path / "out.csv"
    jobs = [(t, k, 1 + t + k) for t in range(3) for k in range(4)]
    lines = [f"{t},{10 * k},1,{duration},0" for t, k, duration in jobs]
    path.write_text("\n".join(["trace,submit_time,num_gpus,duration,model", *lines]) + "\n")
    convert = ["traces", "convert", "--system", "sched2", "--out", str(out)]
    numbers = ["--num-traces", "2", "--num-jobs", "3"]
    assert main([*convert, str(path), *numbers]) == 0
    assert "tables.csv (first 2 of 3 tables, first 3 jobs of each)" in capsys.readouterr().out
    assert out.read_text().splitlines()[1:] == [
        line for (t, k, _), line in zip(jobs, lines, strict=True) if t < 2 and k < 3
    ]
    for command in (
        convert,
        ["traces", "describe"],
        ["evaluate", "sched2", "--policy", "fifo", "--trace"],
        ["train", "sched2", "--out", str(tmp_path / "run"), "--trace"],
    ):
        line = refused(capsys, *command, path, "--num-traces", 4)
        assert "tables.csv: has 3 tables; accepted: --num-traces up to 3" in line
        line = refused(capsys, *command, path, "--num-jobs", 5)
        assert "has 4 jobs in one of the tables; accepted: --num-jobs up to 4" in line


def test_numbers_take_the_first_of_shipped_tables(capsys):
    said = refused(capsys, "evaluate", "sched2", "--policy", "fifo", "--num-traces", 31)
    assert "sched2-test-68: has 30 tables; accepted: --num-traces up to 30" in said
    assert (
        main(["traces", "describe", "sched2-test-68", "--num-traces", "2", "--num-jobs", "9"]) == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "(first 2 of 30 tables, first 9 jobs of each)" in said and "jobs 18 " in said


def test_training_sets_from_job_tables(tmp_path):
    from jaxsched.experiment.options import TraceOptions
    from jaxsched.experiment.splits import sets_of

    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    system = registry.get("sched2")
    sets = sets_of(
        system, presets.preset(system, "quick"), str(path), None, TraceOptions(num_jobs=1)
    )
    assert [len(table) for part in sets for table in part.tables] == [1, 1, 1]
    apart = sets_of(system, presets.preset(system, "quick"), "sched2-68", str(path),
                  TraceOptions(num_traces=2, num_jobs=7))  # fmt: skip
    assert [len(table) for table in apart.train.tables] == [7, 7]
    assert [len(table) for table in apart.test.tables] == [2]


HUGE = "9" * 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "sched2", "--seed", HUGE], "--seed"),
        (["train", "sched2", "--seed", "4294967295", "--num-seeds", "2"], "beyond 4294967295"),
        (["train", "sched2", "--num-seeds", HUGE], "--num-seeds"),
        (["train", "sched2", "--trace-seed", HUGE], "--trace-seed"),
        (["train", "sched2", "--trace-seed", "-1"], "--trace-seed"),
        (["train", "sched2", "--set", f"loop.num_envs={HUGE}"], "is not a whole number from"),
        (["train", "sched2", "--set", f"loop.num_envs={HUGE * 300}"], "is not a whole number"),
        (["train", "sched2", "--set", f"learner.learning_rate={HUGE * 20}"], "is not a number"),
        (["evaluate", "sched2", "--policy", "fifo", "--num-jobs", HUGE], "--num-jobs"),
        (["evaluate", "sched2", "--policy", "fifo", "--servers", f"{HUGE}x8"], "whole number"),
        (["evaluate", "sched2", "--policy", "fifo", f"--option=window={HUGE * 20}"], "too large"),
        (["export", "/", "--seed", HUGE], "--seed"),
        (["bench", "throughput", "--batch", HUGE], "--batch"),
        (["traces", "generate", "sched2-68", "--out", "x.csv", "--seed", HUGE], "--seed"),
        (["traces", "generate", "sched2-68", "--out", "x.csv", "--num-traces", HUGE], "--num-t"),
        (["traces", "describe", "philly-sample", "--servers", f"{HUGE}x8"], "servers"),
    ],
)  # fmt: skip
def test_numbers_too_large_for_a_program_are_refused_in_one_line(
    arguments, says, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, *arguments)
    assert says in line and len(line) < 250
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("digits", [400, 6000])
@pytest.mark.parametrize("key", ["jobs", "config"])
def test_numbers_of_many_digits_in_a_case(key, digits, tmp_path, capsys):
    job = {"submit_time": 0, "num_gpus": 1, "duration": 1, "model": 0}
    case = {"system": "sched2", "policy": "fifo", "jobs": [job], "config": {"time_scale": 1}}
    whole = json.dumps(case)
    old = '"duration": 1' if key == "jobs" else '"time_scale": 1'
    path = tmp_path / "case.json"
    path.write_text(whole.replace(old, old + "0" * digits))
    assert path.read_text() != whole
    line = refused(capsys, "simulate", path)
    assert f"a number has {digits + 1} digits; accepted: up to 300" in line


def test_what_overflows_all_the_same_is_one_line(monkeypatch, capsys):
    def overflow():
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(registry, "names", overflow)
    assert "a number is too large: int too large" in refused(capsys, "list")


def test_old_spellings_are_understood_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(RENAMED["policy"], "first", "fifo")
    monkeypatch.setitem(RENAMED["option"], "slots", "window")
    monkeypatch.setitem(RENAMED["setting"], "loop.pace", "loop.speed")
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    values = tmp_path / "v.json"
    where = ["--trace", str(table), "--json", str(values)]
    for command in (["evaluate", "sched2", "--policy"], ["compare", "sched2", "--policies"]):
        assert main([*command, "first", "--option", "slots=3", *where]) == 0
        assert capsys.readouterr().err.splitlines() == [
            "jaxsched: the policy 'first' is now spelt 'fifo'",
            "jaxsched: the option 'slots' is now spelt 'window'",
        ]
        assert [p["name"] for p in json.loads(values.read_text())["policies"]] == ["fifo"]
    assert main(["train", "sched2", "--set", "loop.pace=3"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "jaxsched: the setting 'loop.pace' is now spelt 'loop.speed'"
    assert "no field 'speed'" in second


@pytest.mark.parametrize("command", [["train", "sched2"], ["bench", "training"]], ids=" ".join)
def test_an_old_kind_of_network_is_understood_and_said(command, capsys):
    settings = ["--set", "network=slots", "--set", "loop.num_envs=0.5"]
    assert main([*command, *settings]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "jaxsched: the network 'slots' is now spelt 'positions'"
    assert "loop.num_envs" in second and "is not a whole number" in second
    kinds = registry.get("sched2").networks.aliases
    assert present_settings(["network=slots"], {}, kinds) == ["network=positions"]
    assert present_settings(["loop.network=slots"], {}, kinds) == ["loop.network=slots"]
