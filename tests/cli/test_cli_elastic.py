"""The command line with the elastic systems: train in stages, compare, hand over."""

import json
from pathlib import Path

import pytest

from jaxsched.cli import main
from tests.command_line import policies_only

GOLDEN = Path(__file__).parents[1] / "golden"
DL2 = [
    "--set=env.num_servers=3",
    "--set=env.window=3",
    "--set=env.max_slots=100",
    "--set=supervised.data.tables=2",
    "--set=supervised.loop.num_updates=20",
    "--set=supervised.evaluate_every=10",
    "--set=loop.num_envs=4",
    "--set=loop.rollout_length=8",
    "--set=loop.num_updates=4",
    "--set=evaluate_every=2",
    "--set=checkpoint_every=2",
]
CHIC = [
    "--preset=quick-pair",
    "--set=env.max_decisions=8",  # an untrained policy takes all that there are, in every phase
    "--set=loop.num_envs=8",
    "--set=loop.rollout_length=128",
    "--set=loop.num_updates=4",
    "--set=learner.num_trajectories=7",
    "--set=learner.inner_steps=1",
    "--set=network=mlp-8",
    "--set=checkpoint_every=2",
]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for name, jobs in {"dl2-sim": "5", "chic-1.80": "4"}.items():
        path = folder / f"{name.split('-')[0]}.csv"
        assert main(["traces", "generate", name, "--out", str(path), "--num-traces", "2",
                     "--num-jobs", jobs]) == 0  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, traces):
    folder = tmp_path_factory.mktemp("runs")
    with policies_only("dl2"):
        for system, settings in {"dl2": DL2, "chic": CHIC}.items():
            assert train(system, settings, traces, folder / system, "--num-seeds", "2") == 0
        yield folder


def train(system, settings, traces, out, *more):
    trace = str(traces / f"{system}.csv")
    return main(["train", system, *settings, "--trace", trace, "--test-trace", trace,
                 "--out", str(out), *more])  # fmt: skip


@pytest.mark.parametrize(("system", "learned"), [("dl2", "dl2"), ("chic", "chic_pair")])
def test_training_ends_with_a_comparison(system, learned, runs):
    result = json.loads((runs / system / "comparison.json").read_text())
    entries = {entry["name"]: entry for entry in result["policies"]}
    assert entries[learned]["kind"] == "learned"
    assert len(entries[learned]["metrics"][result["primary"]]) == 2  # one list per seed
    assert result["paper"]["rows"]
    assert "gantt" not in result
    assert (runs / system / "report.html").stat().st_size > 10_000


def test_the_supervised_stage_is_a_run_of_its_own(runs):
    stage = runs / "dl2" / "stages" / "supervised"
    assert (stage / "policies" / "seed1").is_dir()
    last = json.loads((stage / "metrics.jsonl").read_text().splitlines()[-1])
    assert any(name.startswith("evaluation/") for name in last)


def test_a_finished_stage_is_not_run_again(runs, traces):
    before = (runs / "dl2" / "stages" / "supervised" / "metrics.jsonl").read_bytes()
    first = json.loads((runs / "dl2" / "comparison.json").read_text())
    assert train("dl2", DL2, traces, runs / "dl2", "--num-seeds", "2", "--resume") == 0
    assert (runs / "dl2" / "stages" / "supervised" / "metrics.jsonl").read_bytes() == before
    again = json.loads((runs / "dl2" / "comparison.json").read_text())
    assert again["policies"] == first["policies"]


@pytest.mark.parametrize(("system", "rule"), [("dl2", "drf"), ("chic", "optimus")])
def test_trained_policies_are_compared_and_handed_over(system, rule, runs, traces, tmp_path):
    run, values = runs / system, tmp_path / "values.json"
    assert main(["compare", system, "--policies", rule, "--checkpoint", str(run), "--trace",
                 str(traces / f"{system}.csv"), "--json", str(values)]) == 0  # fmt: skip
    assert [entry["name"] for entry in json.loads(values.read_text())["policies"]] == [rule, system]
    assert main(["export", str(run), "--out", str(tmp_path / "policy")]) == 0
    manifest = json.loads((tmp_path / "policy" / "manifest.json").read_text())
    assert manifest["system"] == system


def test_real_traces_become_elastic_jobs(capsys):
    for system, rule in {"dl2": "fifo", "chic": "round_robin"}.items():
        arguments = ["--trace", "philly-sample", "--num-traces", "2", "--num-jobs", "6"]
        assert main(["evaluate", system, "--policy", rule, *arguments]) == 0
    assert "philly-sample" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "dl2", "--set", "network=deep"], "unknown network 'deep'"),
        (["train", "dl2", "--set", "supervised.teacher=nobody"], "unknown policy 'nobody'"),
        (
            ["train", "chic", "--set", "loop.num_envs=9"],
            "num_envs is 9; the learner needs it to be equal to 256",
        ),
        (["train", "chic", "--set", "hidden=64"], "--set hidden: is no more; accepted: network"),
        (["evaluate", "dl2", "--policy", "drf", "--option", "mode=skip"], "no option 'mode'"),
        (["evaluate", "chic", "--policy", "drf"], "unknown policy 'drf'"),
        (["compare", "dl2", "--trace", "chic-1.80"], "has no column 'epochs'"),
        (["compare", "chic", "--preset", "huge"], "unknown preset"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, says, capsys):
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and says in lines[0]


@pytest.mark.parametrize("case", ["dl2/task_never_fits.json", "chic/never_fits.json"])
def test_refused_tables_end_with_status_2(case, capsys):
    assert main(["simulate", str(GOLDEN / case)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "job 0" in lines[0]
