"""The command line with MLFS: rules, traces, golden cases, throughput, refusals."""

import json
from pathlib import Path

import pytest

from jaxsched.bench.throughput import throughput
from jaxsched.cli import main
from tests.golden_check import differences, load
from tests.instances import mlfs_tables

GOLDEN = Path(__file__).parents[1] / "golden" / "mlfs"
FEW = ["--num-traces", "1", "--num-jobs", "20"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    values, page = folder / "values.json", folder / "report.html"
    assert main(["compare", "mlfs", "--policies", "fifo,mlf_h,mlf_hc", *FEW,
                 "--json", str(values), "--html", str(page)]) == 0  # fmt: skip
    return json.loads(values.read_text()), page


def test_the_system_is_listed(capsys):
    assert main(["list", "mlfs"]) == 0
    text = capsys.readouterr().out
    for word in ("graphene", "mlf_hc", "quick", "mlfs-small-x3", "mlfs-small-mixed"):
        assert word in text


def test_rules_are_compared(compared):
    result, page = compared
    assert result["primary"] == "avg_jct" and "best_rule" not in result  # which does not play
    assert [entry["name"] for entry in result["policies"] if entry.get("apart")] == ["mlf_hc"]
    assert result["facts"]["cluster"].startswith("5 servers of 4 GPUs")
    metrics = {entry["name"]: entry["metrics"] for entry in result["policies"]}
    assert list(metrics) == ["fifo", "mlf_h", "mlf_hc"]
    assert all(found["finished"] == [20] for found in metrics.values())
    assert metrics["fifo"]["migrations"] == [0]
    assert metrics["mlf_hc"]["iterations"] < metrics["mlf_h"]["iterations"]
    assert metrics["mlf_hc"]["avg_jct"] < metrics["mlf_h"]["avg_jct"]
    assert page.stat().st_size > 10_000


def test_a_file_plays_like_the_trace_it_was_made_of(compared, tmp_path):
    trace, values = tmp_path / "tasks.csv", tmp_path / "values.json"
    assert main(["traces", "generate", "mlfs-small-x3", "--out", str(trace), *FEW]) == 0
    assert main(["evaluate", "mlfs", "--policy", "mlf_h", "--trace", str(trace),
                 "--json", str(values)]) == 0  # fmt: skip
    (entry,) = json.loads(values.read_text())["policies"]
    (before,) = (other for other in compared[0]["policies"] if other["name"] == "mlf_h")
    assert entry["metrics"] == before["metrics"]


@pytest.mark.slow
def test_results_have_the_layout_of_expect(tmp_path):
    paths = [GOLDEN / f"{name}.json" for name in ("02_chain_worked", "03_simultaneous")]
    assert main(["simulate", *map(str, paths), "--out", str(tmp_path)]) == 0
    for path in paths:
        assert differences(load(path)["expect"], load(tmp_path / path.name)) == []


def test_traces_are_described(capsys):
    assert main(["traces", "describe", "mlfs-small-x3", "--system", "mlfs", *FEW]) == 0
    assert "on 5 x 4 GPUs" in capsys.readouterr().out


def test_real_traces_become_tasks(capsys):
    assert main(["traces", "describe", "philly-sample", "--system", "mlfs", *FEW]) == 0
    text = capsys.readouterr().out
    assert "philly-sample on 5 x 4 GPUs" in text


@pytest.mark.slow
def test_throughput_is_measured():
    options = {"gpus": [2, 1], "max_active": 3, "max_offers": 4, "slot_every": 16}
    result = throughput("mlfs", batches=[2], repeats=1, options=options, tables=mlfs_tables(0),
                        steps_per_repeat=128)  # fmt: skip
    assert result["environment"]["gpus"] == [2, 1]
    assert {row["figure"] for row in result["rows"]} == {"environment", "policy"}
    assert all(0 < row["decision_share"] < 1 for row in result["rows"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaluate", "mlfs", "--policy", "sjf"], "unknown policy 'sjf'"),
        (["evaluate", "mlfs", "--policy", "fair", "--option", "mode=skip"], "no option 'mode'"),
        (["compare", "mlfs", "--policies", "fair,best"], "unknown policy 'best'"),
        (["compare", "mlfs", "--trace", "chic-1.80"], "column"),
        (["bench", "throughput", "--system", "mlfs", "--set", "env.order=sjf"], "order: 'sjf'"),
        (["bench", "throughput", "--system", "mlfs", "--set", "env.gpus=4"], "gpus"),
        (["train", "mlfs", "--preset", "huge"], "unknown preset"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, says, capsys):
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and says in lines[0]


@pytest.mark.parametrize(
    ("arguments", "old", "present"),
    [
        (["train", "mlfs", "--set", "env.h_r=0"], "env.h_r", "env.overload_threshold"),
        (["train", "das", "--set", "env.reward_mode=0"], "env.reward_mode", "env.reward"),
        (["bench", "throughput", "--system", "mlfs", "--set", "env.h_r=0"], "env.h_r",
         "env.overload_threshold"),
        (["bench", "training", "--system", "mlfs", "--set", "env.h_r=0"], "env.h_r",
         "env.overload_threshold"),
    ],
)  # fmt: skip
def test_old_names_of_options_are_understood_and_said(arguments, old, present, capsys):
    assert main(arguments) == 2
    first, second = capsys.readouterr().err.strip().splitlines()
    assert f"{old!r} is now spelt {present!r}" in first
    assert present.removeprefix("env.") in second
