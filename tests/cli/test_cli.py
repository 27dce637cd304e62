"""The command line as a user types it: results, bad input in one line, exit status."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.runs import checkpoints
from jaxsched.runs.directory import RunDirectory
from jaxsched.systems import functions, registry
from tests.command_line import policies_only, refused

GOLDEN = Path(__file__).parents[1] / "golden" / "sched2"
TINY = [
    "--set=env.num_servers=4",
    "--set=env.gpus_per_server=4",
    "--set=env.window=3",
    "--set=loop.num_envs=4",
    "--set=loop.rollout_length=4",
    "--set=loop.num_updates=20",
    "--set=learner.capacity=256",
    "--set=learner.learning_starts=32",
    "--set=learner.batch_size=16",
    "--set=learner.gradient_steps=1",
    "--set=evaluate_every=10",
    "--set=checkpoint_every=10",
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "tiny.csv"
    assert main(["traces", "generate", "sched2-68", "--out", str(path), "--num-traces", "3",
                 "--num-jobs", "20", "--seed", "5"]) == 0  # fmt: skip
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, trace) -> Path:
    path = tmp_path_factory.mktemp("runs") / "tiny"
    with policies_only("sched2", "fifo", "strict"):
        assert train(path, trace) == 0
    return path


@pytest.fixture
def few_rivals():
    """Two heuristics beside the trained policy, where the comparison is not what is tested."""
    with policies_only("sched2", "fifo", "strict"):
        yield


def test_a_run_writes_the_options_that_repeat_it(run, trace):
    document = tomllib.loads((run / "run.toml").read_text())
    settings = dict(word.removeprefix("--set=").split("=") for word in TINY)
    assert document == {
        "command": "train",
        "system": "sched2",
        "trace": str(trace),
        "test-trace": str(trace),
        "set": settings,
    }


def train(path: Path, trace: Path, *more: str) -> int:
    traces = ["--trace", str(trace), "--test-trace", str(trace)]
    return main(["train", "sched2", *TINY, *traces, "--out", str(path), *more])


def test_list_names_everything(capsys):
    assert main(["list"]) == main(["list", "sched2"]) == 0
    words = capsys.readouterr().out
    for word in ("sched2", "strict", "dsif", "quick", "paper", "dqn", "sched2-test-68"):
        assert word in words


def test_simulate_writes_the_layout_of_expect(tmp_path):
    cases = [GOLDEN / "01_worked_example.json", GOLDEN / "02_worked_fifo.json"]
    assert main(["simulate", *map(str, cases), "--out", str(tmp_path)]) == 0
    for case in cases:
        expect = json.loads(case.read_text())["expect"]
        result = json.loads((tmp_path / case.name).read_text())
        assert expect.keys() <= result.keys()
    first = json.loads((tmp_path / cases[0].name).read_text())
    assert first["metrics"]["avg_effectiveness"] == pytest.approx(0.751773, abs=1e-6)


def test_simulate_refuses_tables_and_runs_the_others(tmp_path, capsys):
    good, bad = GOLDEN / "01_worked_example.json", GOLDEN / "06_rejects.json"
    assert main(["simulate", str(bad), str(good), "--out", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 7 and all("reject[" in line for line in lines)
    assert (tmp_path / good.name).exists()
    entries = json.loads((tmp_path / bad.name).read_text())["reject"]
    assert len(entries) == 7 and all(entry["refused"] for entry in entries)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a case"),
        ('{"system": "nope"}', "unknown system"),
        ('{"system": "sched2", "jobs": []}', "either 'policy' or 'actions'"),
        ('{"system": "sched2", "jobs": 3, "actions": []}', "'jobs' must be a list"),
        ('{"system": "sched2", "jobs": [], "actions": [], "config": {"foo": 1}}', "unknown key"),
        (
            '{"system": "sched2", "policy": "best",'
            ' "jobs": [{"submit_time": 0, "num_gpus": 1, "duration": 1, "model": 0}]}',
            "unknown policy",
        ),
        (
            '{"system": "sched2", "actions": [0.5],'
            ' "jobs": [{"submit_time": 0, "num_gpus": 1, "duration": 1, "model": 0}]}',
            "must be a whole number",
        ),
    ],
)
def test_malformed_cases_are_refused_in_one_line(text, says, tmp_path, capsys):
    path = tmp_path / "case.json"
    path.write_text(text)
    assert says in refused(capsys, "simulate", str(path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fly"], "No such command"),
        (["train", "nope"], "unknown system"),
        (["train", "sched2", "--preset", "huge"], "unknown preset"),
        (["train", "sched2", "--set", "loop.speed=1"], "no field 'speed'"),
        (["train", "sched2", "--set", "loop.num_envs=many"], "is not a whole number"),
        (["train", "sched2", "--set", "loop=1"], "is a group"),
        (["train", "das", "--set", "traces=das-mixed"], "set one of traces.train, traces.test"),
        (["train", "das", "--set", "traces.num_train=some"], "is not a whole number"),
        (["train", "das", "--set", "traces.num_train=-1"], "num"),
        (["train", "sched2", "--set", "env.reward=high"], "one of literal, dense"),
        (["train", "sched2", "--set", "network=deep"], "known are paper, positions"),
        (["train", "sched2", "--trace", "no/such.csv"], "neither a file nor a known trace"),
        (["evaluate", "sched2", "--policy", "nope"], "unknown policy"),
        (["evaluate", "sched2", "--policy", "/"], "holds no trained policy"),
        (
            ["evaluate", "sched2", "--policy", "fifo", "--option", "mode=jump"],
            "mode is 'jump'; accepted: skip, block",
        ),
        (["evaluate", "sched2", "--policy", "fifo", "--json", "/proc/x/y.json"], "cannot be"),
        (["compare", "sched2", "--policies", "fifo,best"], "unknown policy"),
        (["compare", "sched2", "--trace", "/"], ""),
        (["export", "/no/such/run"], "holds no trained policy"),
        (["export", "/", "--format", "onnx,pickle"], "unknown export format 'pickle'"),
        (["export", "sched2/fifo"], "a folder to write is needed: --out DIR"),
        (["export", "sched2/fifo", "--out", "x"], "fifo is a rule without weights"),
        (["export", "sched2/best", "--out", "x"], "unknown policy 'best'"),
        (["export", "nope", "--environment", "--out", "x"], "unknown system"),
        (["export", "sched2", "--environment", "--out", "x", "--seed", "1"], "--seed does not go"),
        (["export", "sched2/pretrained", "--columns", "a=num_gpus"], "--columns goes with"),
        (["export", "/", "--num-jobs", "9"], "--num-jobs goes with --environment"),
        (["traces", "describe", "no-such"], "neither a file nor a known trace"),
        (["traces", "generate", "no-such", "--out", "x.csv"], "unknown generator"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, says, capsys):
    assert says in refused(capsys, *arguments)


def test_generated_traces_depend_on_the_seed_alone(trace, tmp_path):
    with trace.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    again = tmp_path / "again.csv"
    main(["traces", "generate", "sched2-68", "--out", str(again), "--num-traces", "3",
          "--num-jobs", "20", "--seed", "5"])  # fmt: skip
    assert again.read_bytes() == trace.read_bytes()


def test_describe_prints_and_plots(trace, tmp_path, capsys):
    plot, figures = tmp_path / "trace.png", tmp_path / "trace.json"
    arguments = ["traces", "describe", str(trace), "--plot", str(plot), "--json", str(figures)]
    assert main(arguments) == 0
    assert "load" in capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG") and json.loads(figures.read_text())


def test_training_leaves_a_complete_run(run, capsys):
    for name in ("config.json", "metrics.jsonl", "comparison.json", "report.html"):
        assert (run / name).stat().st_size > 0
    assert any((run / "tensorboard").iterdir())
    comparison = json.loads((run / "comparison.json").read_text())
    names = [policy["name"] for policy in comparison["policies"]]
    assert names == ["fifo", "strict", "dqn"]
    assert comparison["learning_curve"]["series"][0]["y"]
    command, typed, *words = shlex.split(comparison["command"])
    assert (command, typed) == ("jaxsched", "train") and "sched2" in words
    assert "--num-seeds" not in words  # left at its default
    assert [f"--set={word}" for word in words if "=" in word] == TINY
    assert words[-2:] == ["--out", str(run)]
    assert comparison["paper"]["rows"]


def test_what_a_trained_policy_is_compared_with():
    usual = ["fifo", "sif", "dsif", "saf", "lrf", "spf", "strict", "strict_sif", "delay"]
    assert functions.usual_policies(registry.get("sched2")) == usual


def test_an_existing_run_is_not_overwritten_by_accident(run, trace, capsys):
    traces = ["--trace", str(trace), "--test-trace", str(trace)]
    refused(capsys, "train", "sched2", *TINY, *traces, "--out", str(run))


def test_evaluate_compare_and_export_the_trained_policy(run, trace, tmp_path, capsys):
    values = tmp_path / "values.json"
    assert main(["evaluate", "sched2", "--policy", str(run), "--trace", str(trace),
                 "--json", str(values)]) == 0  # fmt: skip
    evaluated = json.loads(values.read_text())["policies"][0]
    trained = json.loads((run / "comparison.json").read_text())["policies"][-1]
    assert evaluated["metrics"] == trained["metrics"]

    html = tmp_path / "report.html"
    assert main(["compare", "sched2", "--policies", "fifo,strict", "--checkpoint", str(run),
                 "--trace", str(trace), "--html", str(html),
                 "--json", str(values)]) == 0  # fmt: skip
    assert html.stat().st_size > 10_000
    trained = json.loads((run / "comparison.json").read_text())
    assert json.loads(values.read_text())["learning_curve"] == trained["learning_curve"]

    arguments = ["compare", "sched2", "--policies", "fifo", "--servers", "4x4"]
    arguments += ["--trace", str(trace), "--option", "window=4"]
    assert main([*arguments, "--json", str(values)]) == 0
    assert shlex.split(json.loads(values.read_text())["command"])[1:] == arguments

    folder = tmp_path / "export"
    assert main(["export", str(run), "--out", str(folder)]) == 0
    reader = Path(__file__).parents[2] / "examples" / "read_policy.py"
    command = [sys.executable, str(reader), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all agree" in done.stdout
    assert "exists" in refused(capsys, "export", str(run), "--out", str(folder))


def test_a_policy_of_another_version_or_system_is_refused(run, tmp_path, capsys):
    import shutil

    for fact, value in (("behaviour_version", 99), ("system", "other")):
        copy = tmp_path / fact
        shutil.copytree(run, copy)
        changed = 0
        for path in (copy / "policies").rglob("*"):
            if path.is_file():
                text = path.read_bytes()
                old = b'"behaviour_version": 1' if value == 99 else b'"system": "sched2"'
                new = b'"behaviour_version": 99' if value == 99 else b'"system": "other"'
                for form in (old, old.replace(b": ", b":")):
                    if form in text:
                        path.write_bytes(text.replace(form, new.replace(b": ", b":")))
                        changed += 1
                        break
        assert changed
        assert str(value) in refused(capsys, "evaluate", "sched2", "--policy", str(copy))


def test_several_seeds_train_side_by_side(trace, tmp_path, few_rivals, capsys):
    assert train(tmp_path / "seeds", trace, "--num-seeds", "2", "--seed", "3") == 0
    comparison = json.loads((tmp_path / "seeds" / "comparison.json").read_text())
    assert len(comparison["policies"][-1]["metrics"]["avg_jct"]) == 2
    assert [series["seed"] for series in comparison["learning_curve"]["series"]] == [3, 4]

    values, apart = tmp_path / "values.json", []  # as if each had been trained by itself
    for seed in (3, 4):
        apart += ["--checkpoint", str(tmp_path / "seeds" / "policies" / f"seed{seed}")]
    assert main(["compare", "sched2", "--policies", "none", "--trace", str(trace), *apart,
                 "--as-seeds", "--json", str(values)]) == 0  # fmt: skip
    (learned,) = json.loads(values.read_text())["policies"]
    assert learned["metrics"] == comparison["policies"][-1]["metrics"]
    words = refused(capsys, "compare", "sched2", *apart, "--checkpoint", "pretrained", "--as-seeds")
    assert "policy 3 is no training seed of the first one: their environment differs" in words
    assert "--as-seeds needs --checkpoint" in refused(capsys, "compare", "sched2", "--as-seeds")


def test_what_stops_a_session_leaves_a_run_that_goes_on_to_the_same_bits(
    run, trace, tmp_path, few_rivals, capsys, monkeypatch
):
    path, rest = tmp_path / "stopped", "; continue with the same command and --resume"
    with monkeypatch.context() as patch:
        log = RunDirectory.log

        def stop(*arguments):  # while a chunk is computed
            log(*arguments)
            os.kill(os.getpid(), signal.SIGTERM)

        patch.setattr(RunDirectory, "log", stop)
        assert train(path, trace, "--quiet") == 143
    line = f"stopped by SIGTERM{rest} (run: {path})"
    assert capsys.readouterr().err.splitlines() == [f"jaxsched: {line}"]
    words = refused(capsys, "evaluate", "sched2", "--policy", path, "--trace", trace)
    assert "this run has no policy yet: it ended after update 10 before the first" in words

    assert train(path, trace, "--quiet", "--resume", "--max-time", "0.001") == 124
    line = f"stopped: the time of --max-time is up{rest} (run: {path})"
    assert capsys.readouterr().err.splitlines() == [f"jaxsched: {line}"]
    assert checkpoints.steps(path / "checkpoints") == [20]  # all but its evaluation
    monkeypatch.setattr("jaxsched.experiment.plans.sets_of", None)  # refused before traces are read
    assert "'SIGNONE'" in refused(capsys, *line_of(path, trace), "--stop-on", "SIGNONE")
    assert "time limit of '2 h'" in refused(capsys, *line_of(path, trace), "--max-time", "2 h")
    assert "there is a run already" in refused(capsys, *line_of(path, trace))
    assert "no such run" in refused(capsys, *line_of(tmp_path / "no", trace), "--resume")
    assert "seed was 0, now" in refused(capsys, *line_of(path, trace), "--resume", "--seed", 1)
    assert "cannot be written" in refused(capsys, *line_of("/proc/run", trace))
    monkeypatch.undo()
    assert train(path, trace, "--resume") == 0
    ours, theirs = (
        json.loads((folder / "comparison.json").read_text())["policies"][-1]["metrics"]
        for folder in (path, run)
    )
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert "max-time" not in (path / "run.toml").read_text()


def line_of(path, trace):
    return ["train", "sched2", *TINY, "--trace", trace, "--test-trace", trace, "--out", path]


def test_devices_that_are_not_there_are_refused(capsys):
    for command in (
        ["train", "sched2", "--out", "/nowhere"],
        ["evaluate", "sched2", "--policy", "fifo"],
        ["compare", "sched2"],
        ["sweep", "sched2", "--over", "loop.num_envs=4,8", "--out", "/nowhere"],
    ):
        line = refused(capsys, *command, "--devices", "2")
        assert line == "jaxsched: --devices is 2; there is 1 CPU device"
    train = ("train", "sched2", "--out", "/nowhere")
    assert "--devices is 'many'; accepted" in refused(capsys, *train, "--devices", "many")
    assert "--devices is '0'; accepted" in refused(capsys, *train, "--devices", "0")
    assert "--shard is 'jobs'; accepted: envs, seeds" in refused(capsys, *train, "--shard", "jobs")
    assert "--num-processes is missing" in refused(capsys, *train, "--coordinator", "here:1234")
    assert "HOST:PORT is missing" in refused(capsys, *train, "--process-id", "1")


def test_bench_refuses_what_it_does_not_know(capsys):
    assert "unknown benchmark" in refused(capsys, "bench", "speed")
    assert "there is 1 CPU device" in refused(capsys, "bench", "scaling", "--devices", "2")
    assert "there is 1 CPU device" in refused(capsys, "bench", "--devices", "2")
    assert "there is 1 CPU device" in refused(capsys, "bench", "training", "--devices", "2")
    scored = ("bench", "training", "--score", "1")
    assert "there is 1 CPU device" in refused(capsys, *scored, "--devices", "2")
    assert "is for bench scaling" in refused(capsys, "bench", "--process-id", "1")
    assert "unknown system" in refused(capsys, "bench", "throughput", "--system", "nope")
    assert "cannot be" in refused(capsys, "bench", "throughput", "--json", "/proc/x/y.json")
