"""The command line with DAS: rules, golden cases, training in stages, refusals."""

import gzip
import json
from pathlib import Path

import pytest

from jaxsched.cli import main
from tests.command_line import policies_only
from tests.exports.recorded import read_alone
from tests.golden_check import differences, load

GOLDEN = Path(__file__).parents[1] / "golden" / "das"
TINY = [
    "--set=env.num_servers=8",
    "--set=env.window=4",
    "--set=network=das:variant=DA,width=8,heads=2,history=4,walk_length=8",
    "--set=value_network=action",
    "--set=imitation.teacher=tetris",
    "--set=imitation.loop.num_envs=2",
    "--set=imitation.loop.rollout_length=16",
    "--set=imitation.loop.num_updates=2",
    "--set=imitation.learner.batch_size=2",
    "--set=imitation.learner.sequence_length=16",
    "--set=loop.num_envs=2",
    "--set=loop.rollout_length=32",
    "--set=loop.num_updates=4",
    "--set=learner.num_minibatches=2",
    "--set=evaluate_every=2",
    "--set=imitation.evaluate_every=2",
    "--set=checkpoint_every=2",
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "das.csv"
    assert main(["traces", "generate", "das-normal", "--out", str(path), "--num-traces", "2",
                 "--num-jobs", "10"]) == 0  # fmt: skip
    return str(path)


def train(trace, out, *more):
    return main(["train", "das", *TINY, "--trace", trace, "--test-trace", trace,
                 "--out", str(out), *more])  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory, trace):
    """A trained run, compared with the heuristics that the paper's claims are about."""
    out = tmp_path_factory.mktemp("runs") / "das"
    with policies_only("das"):
        assert train(trace, out) == 0
        yield out


def test_the_system_is_listed(capsys):
    assert main(["list", "das"]) == 0
    text = capsys.readouterr().out
    for word in ("tetris", "quick-large", "das-normal", "das-test"):
        assert word in text


def test_rules_play_the_shipped_test_traces(tmp_path):
    values = tmp_path / "values.json"
    assert main(["evaluate", "das", "--policy", "tetris", "--trace", "das-test",
                 "--json", str(values)]) == 0  # fmt: skip
    (entry,) = json.loads(values.read_text())["policies"]
    expected = load(GOLDEN / "workload_test_segments.json")["expect"]["small/tetris"]
    for name in ("avg_jct_min", "avg_fee", "makespan"):
        assert entry["metrics"][name] == pytest.approx(expected[name], rel=1e-5)


def test_rules_are_compared_on_a_file(trace, tmp_path):
    values = tmp_path / "values.json"
    rules = ["fifo_firstfit", "tetris", "lazy", "random"]
    assert main(["compare", "das", "--policies", ",".join(rules), "--trace", trace,
                 "--json", str(values)]) == 0  # fmt: skip
    result = json.loads(values.read_text())
    assert result["primary"] == "avg_jct_min"
    assert [entry["name"] for entry in result["policies"]] == rules
    jct, fee = (
        {entry["name"]: sum(entry["metrics"][name]) for entry in result["policies"]}
        for name in ("avg_jct_min", "avg_fee")
    )
    assert max(jct, key=jct.get) == "lazy"
    assert min(fee, key=fee.get) == "lazy"


def test_results_have_the_layout_of_expect(tmp_path):
    paths = [GOLDEN / f"{name}.json" for name in ("hand_two_machines", "rwgp_node")]
    assert main(["simulate", *map(str, paths), "--out", str(tmp_path)]) == 0
    for path in paths:
        assert differences(load(path)["expect"], load(tmp_path / path.name)) == []


COLUMNS = "submit_time,num_instances,gpus_per_instance,cpus_per_instance,mem_per_instance,duration"
RESULT = "small/fifo_firstfit"


def table_case(folder, table):
    """A case of two episodes of three jobs, cut from a table beside it."""
    path = folder / "case.json"
    path.write_text(json.dumps({
        "system": "das", "kind": "table_results", "table": table, "segment_starts": [0, 4],
        "segment_length": 3, "expect": {RESULT: {}},
    }))  # fmt: skip
    return path


@pytest.mark.parametrize(("named", "there"), [("jobs.csv", "jobs.csv.gz"), ("jobs.csv.gz",) * 2])
def test_cases_play_the_table_beside_them(named, there, tmp_path, monkeypatch):
    """Jobs that do not slow each other down: each takes its duration."""
    hours = [1, 2, 6, 9, 4, 3, 5]
    rows = [f"{60 * k},1,1,0,1,{3600 * h}" for k, h in enumerate(hours)]
    (tmp_path / there).write_bytes(gzip.compress("\n".join([COLUMNS, *rows]).encode()))
    table_case(tmp_path, named)
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "case.json", "--json", "result.json"]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert list(result) == [RESULT]
    assert result[RESULT]["avg_jct_min"] == pytest.approx([180, 240])
    assert result[RESULT]["avg_fee"] == pytest.approx([3 * 2.84, 4 * 2.84])


@pytest.mark.parametrize("table", ["jobs.csv", "workload_20000.csv.gz", "../jobs.csv", "", 3])
def test_cases_without_their_table_are_refused(table, tmp_path, capsys):
    """Also where the name is that of the shipped workload: only its own folder counts."""
    (tmp_path / "here").mkdir()
    (tmp_path / "jobs.csv").write_text(f"{COLUMNS}\n0,1,1,0,1,60\n")
    path, out = table_case(tmp_path / "here", table), tmp_path / "result.json"
    assert main(["simulate", str(path), "--json", str(out)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "beside the case" in lines[0] and not out.exists()


def test_traces_are_described(capsys):
    assert main(["traces", "describe", "das-normal", "--system", "das", "--num-traces", "1",
                 "--num-jobs", "50"]) == 0  # fmt: skip
    text = capsys.readouterr().out
    assert "on 8 x 8 GPUs" in text
    (load_line,) = (line for line in text.splitlines() if line.strip().startswith("load"))
    assert float(load_line.split()[1]) == pytest.approx(45 / 64, abs=0.02)


def test_real_traces_become_gangs(capsys):
    arguments = ["--trace", "philly-sample", "--num-traces", "1", "--num-jobs", "10"]
    assert main(["evaluate", "das", "--policy", "fifo_loadbalance", *arguments]) == 0
    assert "philly-sample" in capsys.readouterr().out


def test_training_ends_with_a_comparison(run):
    result = json.loads((run / "comparison.json").read_text())
    entries = {entry["name"]: entry for entry in result["policies"]}
    assert entries["das"]["kind"] == "learned"
    assert any("Table 1" in row["item"] for row in result["paper"]["rows"])
    assert (run / "report.html").stat().st_size > 10_000
    assert (run / "stages" / "imitation" / "policies").is_dir()


def test_trained_policies_are_evaluated_again(run, trace, tmp_path):
    values = tmp_path / "values.json"
    assert main(["compare", "das", "--policies", "tetris", "--checkpoint", str(run), "--trace",
                 trace, "--json", str(values)]) == 0  # fmt: skip
    entries = {e["name"]: e for e in json.loads(values.read_text())["policies"]}
    first = json.loads((run / "comparison.json").read_text())["policies"]
    (before,) = (entry for entry in first if entry["name"] == "das")
    assert entries["das"]["metrics"] == before["metrics"]


def test_a_finished_run_is_not_trained_again(run, trace):
    before = json.loads((run / "comparison.json").read_text())["policies"]
    logged = (run / "metrics.jsonl").read_bytes()
    assert train(trace, run, "--resume") == 0
    assert (run / "metrics.jsonl").read_bytes() == logged
    assert json.loads((run / "comparison.json").read_text())["policies"] == before


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["environment", "policy"])
def test_throughput_is_measured(figure, tmp_path):
    values = tmp_path / "values.json"
    assert main(["bench", "throughput", "--system", "das", "--batch", "2", "--repeats", "1",
                 "--figure", figure, "--set", "env.window=4", "--budget", "60",
                 "--json", str(values)]) == 0  # fmt: skip
    rows = json.loads(values.read_text())["rows"]
    assert {row["figure"] for row in rows} == {figure}


def test_its_policy_is_handed_over(run, tmp_path):
    assert main(["export", str(run), "--format", "onnx", "--out", str(tmp_path / "policy")]) == 0
    done = read_alone("read_onnx.py", tmp_path / "policy")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_is_handed_over_plays_the_same(run, trace, tmp_path):
    """The default tests load such a folder and follow its decisions over an episode."""
    folder, values = tmp_path / "policy", tmp_path / "values.json"
    assert main(["export", str(run), "--out", str(folder)]) == 0
    assert main(["evaluate", "das", "--policy", str(folder), "--trace", trace,
                 "--json", str(values)]) == 0  # fmt: skip
    first = json.loads((run / "comparison.json").read_text())["policies"]
    (before,) = (entry for entry in first if entry["name"] == "das")
    assert json.loads(values.read_text())["policies"][0]["metrics"] == before["metrics"]
    found = []
    for policy in ("pretrained", "scored"):
        assert main(["evaluate", "das", "--policy", policy, "--trace", trace,
                     "--json", str(values)]) == 0  # fmt: skip
        found.append(json.loads(values.read_text())["policies"][0]["metrics"])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate", str(GOLDEN / "never_fits.json")], "job 1"),
        (["evaluate", "das", "--policy", "sjf"], "unknown policy 'sjf'"),
        (["evaluate", "das", "--policy", "tetris", "--option", "mode=skip"], "no option 'mode'"),
        (["train", "das", "--set", "env.on_no_fit=wait"], "not one of skip, block"),
        (["train", "das", "--preset", "huge"], "unknown preset"),
        (["compare", "das", "--trace", "chic-1.80"], "column"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, says, capsys):
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and says in lines[0]
