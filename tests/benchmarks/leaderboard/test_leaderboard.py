"""The leaderboard on small tables: sizes of clusters, figures, files, text and the script."""

import json

import numpy as np
import pytest

from benchmarks.leaderboard import WORKLOADS, Prepared, Standings, Workload, play, prepare
from benchmarks.leaderboard import __main__ as script
from benchmarks.leaderboard.board import interval
from benchmarks.leaderboard.coverage import shares
from benchmarks.leaderboard.picture import draw
from benchmarks.leaderboard.text import geometric_mean, overall, overall_table, workload_table
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster, replay, summary
from jaxsched.traces import Trace, write_trace

SOME = {name: POLICIES[name] for name in ("fifo", "sjf", "srtf", "fifo-any")}


def trace_file(folder, count=200, name="hand"):
    rng = np.random.default_rng(0)
    columns = {
        "submit_time": np.cumsum(rng.exponential(100, count)),
        "num_gpus": rng.choice([0.5, 1, 2, 8, 24], count, p=[0.2, 0.5, 0.1, 0.15, 0.05]),
        "duration": np.where(rng.random(count) < 0.05, np.nan, rng.lognormal(6, 1, count)),
        "group": rng.choice(["a", "b"], count),
    }
    path = folder / f"{name}.csv.gz"
    write_trace(path, Trace(columns, name))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces")
    trace_file(path)
    return path


@pytest.fixture(scope="module")
def ready(folder):
    return prepare(Workload("hand", "hand.csv.gz"), folder)


@pytest.fixture(scope="module")
def board(ready):
    lines = []
    found = play([ready], SOME, iterations=3, report=lines.append)
    assert len(lines) == 1 + len(SOME) and lines[0].startswith("bounds: ")
    return found


def offered(prepared):
    table = prepared.table
    work = np.sum(table["num_gpus"] * table["duration"])
    return work / prepared.cluster.num_gpus / (table["submit_time"][-1] - table["submit_time"][0])


def test_the_cluster_is_as_small_as_the_load_allows(folder, ready):
    assert ready.load == pytest.approx(offered(ready)) and ready.load <= 0.9
    fewer = Cluster(ready.cluster.num_servers - 1, 8)
    assert offered(ready._replace(cluster=fewer)) > 0.9
    dropped = 200 - len(ready.table)
    assert 0 < dropped < 30
    assert ready.notes[0] == f"{dropped} rows without GPUs or run time dropped"
    assert set(ready.table["group"].tolist()) == {0, 1}


def test_times_are_stretched_on_a_given_cluster(folder, ready):
    fixed = prepare(Workload("hand", "hand.csv.gz", 0.5, num_servers=2), folder)
    assert fixed.cluster == Cluster(2, 8)
    assert fixed.load == pytest.approx(0.5, rel=1e-3) == offered(fixed)
    assert fixed.table["num_gpus"].max() == 16
    assert any(note.endswith("jobs capped at 16 GPUs") for note in fixed.notes)
    assert fixed.digest == ready.digest


def test_the_beginning_and_the_end_can_be_left_out(folder, ready):
    part = prepare(Workload("hand", "hand.csv.gz", from_day=0.1), folder, num_jobs=50)
    later = np.flatnonzero(ready.table["submit_time"] >= 8640)
    assert len(part.table) == 50 and part.table["submit_time"][0] == 0
    np.testing.assert_array_equal(part.table["duration"], ready.table["duration"][later[:50]])
    assert f"the first 0.1 days left out ({later[0]} jobs)" in part.notes
    with pytest.raises(JaxschedError, match="workload 'hand': 0 jobs are left after day 9"):
        prepare(Workload("hand", "hand.csv.gz", from_day=9), folder)


def test_jobs_that_come_at_once_have_no_load(tmp_path):
    columns = {name: np.ones(3) for name in ("submit_time", "num_gpus", "duration")}
    write_trace(tmp_path / "t.csv", Trace(columns))
    with pytest.raises(JaxschedError, match="workload 'w': all jobs come at once"):
        prepare(Workload("w", "t.csv"), tmp_path)


def test_figures_are_those_of_the_replay(ready, board):
    for row in board.standings:
        records = replay(ready.table, ready.cluster, SOME[row.policy])
        assert row.figures == summary(records, ready.cluster)
        assert row.avg_jct.estimate == pytest.approx(np.mean(records.jct))
        assert np.isnan(row.avg_jct.low) and np.isnan(row.over_reference.high), "one draw"
        assert row.jct_ratio >= row.own_ratio >= 1 and row.makespan_ratio >= 1
    by_name = {row.policy: row for row in board.standings}
    assert board.reference == "fifo"  # no fifo-skip here, so the first one
    assert by_name["fifo"].over_reference.estimate == 1
    over = by_name["sjf"].over_reference
    times = by_name["sjf"].avg_jct.estimate / by_name["fifo"].avg_jct.estimate
    assert over.estimate == pytest.approx(times)
    for name, kind in (("sjf", "non_preemptive"), ("srtf", "preemptive")):
        row, bound = by_name[name], board.bounds[kind]["avg_jct_s"]
        assert row.own_ratio == pytest.approx(row.avg_jct.estimate / bound)
        common = board.bounds["preemptive"]["avg_jct_s"]
        assert row.jct_ratio == pytest.approx(row.avg_jct.estimate / common)
    assert board.bounds["preemptive"]["avg_jct_s"] <= board.bounds["non_preemptive"]["avg_jct_s"]


def test_several_draws_have_intervals(ready):
    draws = [prepare(Workload("l", "philly-like", num_servers=2, num_jobs=n), None, seed=seed)
             for n, seed in ((60, 1), (60, 2), (60, 3))]  # fmt: skip
    board = play(draws, {"sjf": POLICIES["sjf"], "srtf": POLICIES["srtf"]}, iterations=2)
    assert board.num_draws == 3 and board.load == pytest.approx(np.mean([d.load for d in draws]))
    for row in board.standings:
        times = [replay(d.table, d.cluster, POLICIES[row.policy]).jct.mean() for d in draws]
        assert row.avg_jct.estimate == pytest.approx(np.mean(times))
        assert row.avg_jct.low < row.avg_jct.estimate < row.avg_jct.high
    same = board.standings[0].over_reference
    assert (same.low, same.estimate, same.high) == pytest.approx((1, 1, 1))
    assert "3 draws of 60 jobs" in workload_table(board)[0]


def test_intervals_are_students():
    found = interval([1.0, 2.0, 3.0], np.ones(3))
    half = 4.302653 / np.sqrt(3)  # the 97.5 % quantile of two degrees of freedom
    assert (found.estimate, found.low, found.high) == pytest.approx((2, 2 - half, 2 + half))
    ratio = interval([2.0, 4.0], [1.0, 2.0])
    assert (ratio.low, ratio.estimate, ratio.high) == pytest.approx((2, 2, 2))


def test_coverage_counts_what_holds():
    rng = np.random.default_rng(2)
    means = rng.normal(100, 10, 60)
    ours = [mean + np.repeat(rng.normal(0, 1, 4), 50) for mean in means]
    found = shares(ours, [series / 2 for series in ours], 10)
    assert found["mean"] == pytest.approx(np.mean(ours)) and found["ratio"] == 1.0
    assert 0.9 < found["draws"] < 1.0, "Student's intervals of independent draws hold it"
    assert found["blocks"] < 0.3, "blocks of one draw do not know how draws differ"


def test_owners_are_asked_for(ready, folder):
    alone = ready._replace(table=ready.table.with_columns(group=np.zeros(len(ready.table), int)))
    both = {"fifo": POLICIES["fifo"], "drf": POLICIES["drf"]}
    for prepared, names in ((ready, ["fifo", "drf"]), (alone, ["fifo"])):
        small = prepared._replace(table=prepared.table.window(0, 30))
        found = play([small], both, iterations=1)
        assert [row.policy for row in found.standings] == names


def test_json_loses_nothing(board):
    text = json.dumps(board.to_json(), allow_nan=False)
    assert json.dumps(Standings.from_json(json.loads(text)).to_json()) == text  # NaN is not itself


def test_text_and_picture(board, tmp_path):
    lines = workload_table(board)
    assert lines[0].startswith("hand: ") and board.digest[:12] in lines[0]
    rows = lines[-len(SOME) - 1 : -1]
    assert {line.split()[0] for line in rows} == {"fifo", "fifo-any", "sjf*", "srtf*"}
    estimates = [float(line.split()[1]) for line in rows]
    assert estimates == sorted(estimates)
    table = overall_table([board, board])
    assert len(table) == 3 + len(SOME) and table[-1].startswith("* decides by true run times")
    ratios = overall([board, board])["srtf"]
    assert geometric_mean(ratios) == pytest.approx(ratios[0])
    assert f"{ratios[0]:.2f}" in next(line for line in table if line.startswith("srtf"))
    draw(tmp_path / "board.png", [board] * 5)
    assert (tmp_path / "board.png").stat().st_size > 20_000


def test_script_plays_each_workload_once(folder, tmp_path, monkeypatch, capsys):
    arguments = ["leaderboard.py", "--trace", str(folder / "hand.csv.gz"), "--policies", "fifo,sjf"]
    arguments += ["--jobs", "60", "--iterations", "2", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    assert script.main() == 0
    first = capsys.readouterr().out
    assert "[1/1 hand] sjf: " in first and "average JCT over the lower bound" in first
    document = json.loads((tmp_path / "leaderboard.json").read_text())
    assert document["workloads"]["hand"]["num_jobs"] == 60 and "device" in document
    assert script.main() == 0
    assert "[1/1 hand]" not in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*arguments, "--jobs", "50"])
    assert script.main() == 0
    assert "[1/1 hand] 50 jobs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policies", "fifo,best"], "unknown policy 'best'; accepted: fifo, "),
        (["--workloads", "mars"], "unknown workload 'mars'; accepted: philly, "),
        (["--trace", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["--trace", "a/x.csv", "--trace", "b/x.csv"], "traces are named x, x; accepted: files"),
        (["--workloads", "philly-like", "--jobs", "0"], "num_jobs is 0; accepted: two or more"),
        (["--trace", "x.csv", "--load", "nan"], "load is nan; accepted: a number above 0"),
    ],
)
def test_script_refuses_in_one_line(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.setattr("sys.argv", ["leaderboard.py", *arguments, "--out", str(tmp_path)])
    assert script.main() == 2
    message = capsys.readouterr().err
    assert says in message and message.count("\n") == 1


def test_script_plays_changed_workloads_again(folder, tmp_path, monkeypatch, capsys):
    arguments = ["leaderboard.py", "--trace", str(folder / "hand.csv.gz"), "--policies", "fifo"]
    arguments += ["--jobs", "60", "--iterations", "0", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    assert script.main() == 0
    monkeypatch.setattr("sys.argv", [*arguments, "--load", "0.3"])
    capsys.readouterr()
    assert script.main() == 0
    assert "[1/1 hand] 60 jobs" in capsys.readouterr().out
    found = json.loads((tmp_path / "leaderboard.json").read_text())
    for odd in ("[]", "{}", "x", json.dumps({**found, "workloads": {"hand": [1]}})):
        (tmp_path / "leaderboard.json").write_text(odd)
        assert script.main() == 0
        assert "[1/1 hand] 60 jobs" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*arguments, "--out", str(folder / "hand.csv.gz")])
    assert script.main() == 2


def test_generated_workloads_need_no_files():
    generated = [workload for workload in WORKLOADS if workload.is_generated]
    assert len(generated) >= 5
    small = generated[0]._replace(num_jobs=300)
    one, same = prepare(small, None), prepare(small, None)
    assert isinstance(one, Prepared) and one.digest == same.digest
    assert prepare(small, None, seed=1).digest != one.digest
    assert one.load <= 0.9
