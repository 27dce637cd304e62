"""Policies, clusters and options: one spelling in every command, and what became of older ones."""

import json

import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.runs import trainer
from jaxsched.systems import golden
from tests.command_line import refused

ENDS = ["--trace", "no/such.csv"]
"""What a command is refused for after all its options were understood."""


@pytest.mark.parametrize(
    ("arguments", "present"),
    [
        (["replay", "sched2-test-68", "--env", "size=3"], "--set env.size"),
        (["bench", "throughput", "--option", "windo=3"], "--set env.windo"),
        (["export", "sched2", "--policy", "fifo", "--out", "x"], "sched2/fifo"),
        (["export", "sched2", "--environment", "--option", "windo=3", "--out", "x"],
         "--set env.windo"),
        (["traces", "describe", "sched2-68", "--servers", "3", "--num-jobs", "0"], ""),
        (["traces", "describe", "chic-1.80", "--system", "chic", "--servers", "3",
          "--gpus-per-server", "2"], "--servers 3x2"),
    ],
)  # fmt: skip
def test_an_older_spelling_goes_on_with_a_line(arguments, present, capsys):
    assert main(arguments) == 2
    *before, last = capsys.readouterr().err.strip().splitlines()
    if present:
        (line,) = before
        assert line.startswith("jaxsched: ") and line.endswith(f"is now spelt {present}")
    assert last.startswith("jaxsched: ") or not present


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluate", "sched2", "--policy", "fifo", "--window", "4"], "--option window=VALUE"),
        (["compare", "sched2", "--mode", "block"], "--mode: accepted: --option mode=VALUE"),
        (["compare", "mlfs", "--mlfc=true"], "--mlfc: accepted: --option mlfc=VALUE"),
        (["compare", "sched2", "--nosuch", "1"], "No such option: --nosuch"),
        (["evaluate", "sched2", "--policy", "das/tetris"], "is of das; accepted: a policy of sch"),
        (["compare", "sched2", "--policies", "fifo,sched2/nope"], "unknown policy 'nope'"),
        (["compare", "sched2", "--checkpoint", "fifo"], "is a rule of sched2; accepted: a trained"),
        (["headroom", "sched2", "--policy", "das/tetris"], "is of das"),
        (["train", "sched2", "--start", "sched2/fifo"], "is a rule of sched2"),
        (["replay", "sched2/nope"], "unknown policy 'nope'"),
        (["export", "pretrained"], "name one, as in sched2/pretrained"),
        (["export", "fifo"], "is a rule of sched2, dl2, mlfs, cluster; accepted: SYSTEM/POLICY"),
        (["serve", "sched2/nope"], "unknown policy 'nope'"),
        (["serve", "nowhere"], "nowhere: holds no trained policy"),
        (["evaluate", "sched2", "--policy", "fifo", "--servers", "40"], "such as 40x8"),
        (["evaluate", "chic", "--policy", "optimus", "--servers", "4x8"], "one pool without"),
        (["evaluate", "sched2", "--policy", "fifo", "--servers", "4x64"], "gpus_per_server"),
        (["evaluate", "sched2", "--policy", "fifo", "--set", "window=3"], "known are env"),
        (["evaluate", "sched2", "--policy", "fifo", "--set", "env.size=3"], "no field 'size'"),
        (["headroom", "sched2", "--servers", "4x4", "--set", "env.num_servers=3"], "one of both"),
        (["evaluate", "sched2", "--policy", "fifo", "--jobs", "times.json"], ".csv or .parquet"),
        (["traces", "convert", "sched2-68", "--servers", "4x4", "--out", "x.csv"], "--system"),
        (["traces", "generate", "pai-like", "--servers", "4", "--out", "x.csv"], "such as 40x8"),
    ],
)
def test_what_is_refused(arguments, says, capsys):
    assert says in refused(capsys, *arguments)


def test_training_takes_the_cluster_and_says_its_load(tmp_path, monkeypatch, capsys):
    """Issue 47: the traces were rescaled for 15 x 8 GPUs without a word."""

    def stop(*arguments, **options):
        raise JaxschedError("enough")

    monkeypatch.setattr(trainer, "train", stop)
    for name, cluster in (("a", ["--set", "env.num_servers=20"]), ("b", ["--servers", "20x8"])):
        arguments = ["train", "sched2", *cluster, "--load", "0.9", "--num-jobs", "20"]
        assert main([*arguments, "--out", str(tmp_path / name)]) == 2
        said = capsys.readouterr().out
        assert "cluster: 20 servers x 8 GPUs; load of the training traces 0.900 of 160" in said
        config = json.loads((tmp_path / name / "config.json").read_text())["config"]
        assert config["recipe"]["env"]["num_servers"] == 20
        for notes in config["notes"].values():
            assert any("for a load of 0.9 on 20 x 8 GPUs" in note for note in notes)


def test_cases_are_simulated_under_rules(tmp_path, capsys):
    case = {"system": "sched2", "jobs": [[0, 1, 60, 0]], "policy": "das/tetris"}
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case))
    assert "accepted: sched2/RULE" in refused(capsys, "simulate", path)
    for word in ("sched2/pretrained", "pretrained-large"):
        assert "accepted: a rule, since" in refused(capsys, "simulate", path, "--policy", word)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden, "simulate", lambda of, case: seen.append(case) or {})
        for words in ([], ["--policy", "sched2/sif"], ["--policy", "sif"]):
            path.write_text(json.dumps({**case, "policy": "sched2/fifo"}))
            assert main(["simulate", str(path), *words]) == 0
    assert [one["policy"] for one in seen] == ["fifo", "sif", "sif"]
