"""The leaderboard on small tables: sizes of clusters, loads, figures, files, text and picture."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.leaderboard.coverage import shares
from jaxsched.errors import JaxschedError
from jaxsched.leaderboard import (
    WORKLOADS,
    Prepared,
    Standings,
    Workload,
    at_load,
    entries_of,
    play,
    prepare,
)
from jaxsched.leaderboard.board import interval
from jaxsched.leaderboard.picture import draw
from jaxsched.leaderboard.text import (
    geometric_mean,
    overall,
    overall_table,
    sweep_table,
    workload_table,
)
from jaxsched.leaderboard.window import window_of
from jaxsched.pictures import data_path
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.trace_replay.bounds import lower_bounds
from jaxsched.traces import Trace, write_trace
from tests.leaderboard.small import trace_file

SOME = ("fifo", "sjf", "srtf", "fifo-any")


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
    return play([ready], entries_of(SOME), asked_load=0.9, iterations=3)


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
    assert ready.notes[1].startswith("shares of a GPU rounded up in ")
    assert 15 < float(ready.notes[1].split()[-4].rstrip("%")) < 25, "a fifth asks for half a GPU"
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


def test_other_loads_stretch_the_times(ready):
    (found,) = at_load([ready], 0.5)
    assert found.cluster == ready.cluster and found.digest == ready.digest
    assert found.load == pytest.approx(0.5, rel=1e-3) == offered(found)
    np.testing.assert_array_equal(found.table["duration"], ready.table["duration"])
    factor = ready.load / 0.5
    expected = np.floor(ready.table["submit_time"] * factor)
    np.testing.assert_array_equal(found.table["submit_time"], expected)
    assert found.notes[-1] == f"submission times multiplied by {factor:.4g}"
    with pytest.raises(JaxschedError, match="all jobs come at once"):
        at_load([ready], 1e9)


def test_figures_are_those_of_the_window(ready, board):
    within = window_of(ready.table).jobs
    assert (within.start, within.stop) == (
        len(ready.table) // 10,
        board.num_measured + within.start,
    )
    for row in board.standings:
        records = replay(ready.table, ready.cluster, POLICIES[row.policy])
        jct = records.jct[within]
        assert row.avg_jct.estimate == row.figures["avg_jct"] == pytest.approx(np.mean(jct))
        assert row.figures["p99_jct"] == pytest.approx(np.percentile(jct, 99))
        assert row.figures["makespan"] == records.end.max()
        assert np.isnan(row.avg_jct.low) and np.isnan(row.over_reference.high), "one draw"
        assert row.jct_ratio >= row.own_ratio >= 1 and row.seconds is None
    by_name = {row.policy: row for row in board.standings}
    assert board.reference == "fifo"  # no fifo-skip here, so the first one
    assert by_name["fifo"].over_reference.estimate == 1
    over = by_name["sjf"].over_reference
    times = by_name["sjf"].avg_jct.estimate / by_name["fifo"].avg_jct.estimate
    assert over.estimate == pytest.approx(times)
    for name, kind in (("sjf", "non_preemptive_s"), ("srtf", "any_s")):
        row = by_name[name]
        assert row.own_ratio == pytest.approx(row.avg_jct.estimate / board.bounds[kind])
        assert row.jct_ratio == pytest.approx(row.avg_jct.estimate / board.bounds["any_s"])
    assert board.bounds["any_s"] <= board.bounds["non_preemptive_s"]


def test_bounds_are_of_the_measured_jobs(ready, board):
    within = window_of(ready.table).jobs
    columns = (ready.table[name][within] for name in ("submit_time", "num_gpus", "duration"))
    servers = ready.cluster.num_servers
    found = lower_bounds(*columns, num_servers=servers, gpus_per_server=8, iterations=3)
    assert board.bounds["any_s"] == found.preemptive.avg_jct_s
    assert board.bounds["non_preemptive_s"] == found.non_preemptive.avg_jct_s


def test_several_draws_have_intervals():
    draws = [prepare(Workload("l", "philly-like", num_servers=2, num_jobs=60), None, seed=seed)
             for seed in (1, 2, 3)]  # fmt: skip
    entries = entries_of(("sjf", "srtf"))
    board = play(draws, entries, asked_load=0.9, iterations=2, timed=True)
    assert board.num_draws == 3
    for row in board.standings:
        times = [
            replay(d.table, d.cluster, POLICIES[row.policy]).jct[window_of(d.table).jobs].mean()
            for d in draws
        ]
        assert row.avg_jct.estimate == pytest.approx(np.mean(times))
        assert 0 < row.avg_jct.low < row.avg_jct.estimate < row.avg_jct.high
        assert 0 < row.seconds < 60
    same = board.standings[0].over_reference
    assert (same.low, same.estimate, same.high) == pytest.approx((1, 1, 1))
    assert "3 draws of 60 jobs" in workload_table(board)[0]


def test_intervals_are_students_of_logarithms():
    found = interval([1.0, 2.0, 3.0], np.ones(3))
    half = 12.706205 / np.sqrt(3) / 2  # the 97.5 % quantile of one degree of freedom
    expected = (2, 2 * np.exp(-half), 2 * np.exp(half))
    assert (found.estimate, found.low, found.high) == pytest.approx(expected)
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


def test_owners_are_asked_for(ready):
    alone = ready._replace(table=ready.table.with_columns(group=np.zeros(len(ready.table), int)))
    for prepared, names in ((ready, ["fifo", "drf"]), (alone, ["fifo"])):
        small = prepared._replace(table=prepared.table.window(0, 30))
        found = play([small], entries_of(("fifo", "drf")), asked_load=0.9, iterations=1)
        assert [row.policy for row in found.standings] == names


def test_json_loses_nothing(board):
    text = json.dumps(board.to_json(), allow_nan=False)
    assert json.dumps(Standings.from_json(json.loads(text)).to_json()) == text  # NaN is not itself


def test_text(board):
    lines = workload_table(board)
    assert lines[0].startswith("hand: ") and board.digest[:12] in lines[0]
    assert f"load {board.load:.2f} in the window" in lines[0]
    assert ("not stationary" in lines[0]) != board.stationary
    rows = lines[-len(SOME) - 1 : -1]
    assert {line.split()[0] for line in rows} == {"fifo", "fifo-any", "sjf*", "srtf*"}
    estimates = [float(line.split()[1]) for line in rows]
    assert estimates == sorted(estimates)
    table = overall_table([board, board])
    assert len(table) == 4 + len(SOME) and table[-1].startswith("* knows run times")
    ratios = overall([board, board])["srtf"]
    assert geometric_mean(ratios) == pytest.approx(ratios[0])
    assert f"{ratios[0]:.2f}" in next(line for line in table if line.startswith("srtf"))
    sweep = sweep_table([replace(board, asked_load=0.5), board])
    assert sweep[1].split()[-2:] == [f"{load}{'' if board.stationary else '!'}"
                                     for load in (0.5, 0.9)]  # fmt: skip
    assert len(sweep) == 4 + len(SOME)


def test_figure_for_papers(board, tmp_path):
    sweeps = [[replace(board, asked_load=load) for load in (0.5, 0.9)]] * 2
    for ending in ("pdf", "png"):
        draw(tmp_path / f"board.{ending}", sweeps, [board] * 2)
    png = (tmp_path / "board.png").read_bytes()
    width = int.from_bytes(png[16:20]) / 170
    assert width == pytest.approx(3.35, abs=0.02), "a column"
    with data_path(tmp_path / "board.pdf").open(newline="") as file:
        bars = [row for row in csv.DictReader(file) if row["panel"] == "panel 0"]
    by_name = {row.policy: row for row in board.standings}
    assert {bar["x"] for bar in bars} == set(SOME)
    for bar in bars:
        assert float(bar["y"]) == pytest.approx(by_name[bar["x"]].jct_ratio)
        assert ("knows run times" in bar["series"]) == by_name[bar["x"]].clairvoyant


def test_generated_workloads_need_no_files():
    generated = [workload for workload in WORKLOADS if workload.is_generated]
    assert len(generated) >= 5
    small = generated[0]._replace(num_jobs=300)
    one, same = prepare(small, None), prepare(small, None)
    assert isinstance(one, Prepared) and one.digest == same.digest
    assert prepare(small, None, seed=1).digest != one.digest
    assert one.load <= 0.9
