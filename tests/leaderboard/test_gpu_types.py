"""The board on GPUs of different types: speeds by types of jobs, who plays, bounds, refusals."""

import json
import re

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.leaderboard.entries import GAVEL, check_schedule, entries_of
from jaxsched.leaderboard.workloads import Workload, at_load, prepare_draws
from jaxsched.trace_replay import TYPED, Cluster, replay
from jaxsched.traces import Trace, write_trace
from tests.leaderboard.test_own_logs import COUNT, log

SERVERS = Cluster.of("1x4@v100,2x4@k80").servers


def models(columns):
    """The first half trains ResNet-50 with 64 samples, the others say nothing."""
    half = np.arange(COUNT) < COUNT // 2
    model, size = np.where(half, "ResNet-50", ""), np.where(half, 64.0, np.nan)
    return columns | {"model": model, "batch_size": size}


@pytest.fixture
def path(tmp_path):
    write_trace(tmp_path / "log.csv", Trace(models(log()), "log"))
    return tmp_path / "log.csv"


def ready(path, load=None):
    cluster = {"num_servers": 3, "gpus_per_server": 4, "kinds": SERVERS.kinds}
    return prepare_draws(
        Workload("log", str(path), load, **cluster, speeds="gavel", own=True), None
    )


def test_jobs_have_the_speeds_of_what_they_train(path):
    """The log's models are known, with their batch sizes; the others draw, at every load alike."""
    (found,) = ready(path)
    gpus, speed = (found.table[name][: COUNT // 2] for name in ("num_gpus", "speed_k80"))
    np.testing.assert_array_equal(speed, np.select([gpus == 1, gpus == 2], [141, 160], 255))
    assert (found.table["speed_v100"] == 1000).all()
    assert f"gavel: {COUNT // 2} known, {COUNT // 2} drawn" in " ".join(found.notes)
    (loaded,), (later,) = ready(path, 0.5), at_load([found], 2.0)
    for other in (loaded, later):
        np.testing.assert_array_equal(other.table["speed_k80"], found.table["speed_k80"])


def test_the_command(path, tmp_path, capsys):
    speeds = tmp_path / "own.csv"
    speeds.write_text("job_type,num_gpus,v100,k80\nx,1,1000,100\n")

    def play(*words):
        names = ("fifo-skip", "srtf", "fifo-any", "least-slowdown", "fifo-fastest", *GAVEL)
        assert main(["leaderboard", "--trace", str(path), "--servers", str(SERVERS),
                     "--policies", ",".join(names), "--iterations", "1", "--processes", "1",
                     "--out", str(tmp_path / "out"), "--json", str(tmp_path / "all.json"),
                     *words]) == 0  # fmt: skip
        (piece,) = json.loads((tmp_path / "all.json").read_text())["pieces"].values()
        return piece, capsys.readouterr().out

    piece, printed = play("--speeds", "gavel")
    assert piece["servers"] == "1x4@v100,2x4@k80"
    assert "not played, for want of GPUs of one type: srtf, fifo-any" in piece["notes"]
    rows = {row["policy"]: row for row in piece["standings"]}
    assert rows["gavel-maxmin"]["knows"] == "nothing" and rows["gavel-maxmin"]["suspends"]
    assert rows["gavel-makespan"]["knows"] == "run times"
    assert set(rows) == {"fifo-skip", "least-slowdown", "fifo-fastest", *GAVEL}  # not as recorded
    assert all(row["own_ratio"] >= 1 for row in rows.values())
    (draw,) = ready(path)
    window = slice(COUNT // 10, COUNT - COUNT // 10)
    exact = replay(draw.table, draw.cluster, TYPED["least-slowdown"]).jct[window].mean()
    assert rows["least-slowdown"]["figures"]["avg_jct"] == pytest.approx(exact)
    other, _ = play("--speeds", str(speeds))  # other speeds are other jobs
    assert other["digest"] != piece["digest"]
    assert "gavel-maxmin" in printed


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--speeds", "gavel"), "--speeds goes with --servers that have types"),
        (("--speeds", "gavel", "--servers", "2x8"), "--speeds goes with --servers that have"),
        (("--servers", "2x8@v100"), "has no column 'speed_v100' .*, or --speeds"),
        (("--servers", "2x8@a", "--speeds", "gavel"), "gavel has no GPUs of type 'a'"),
        (("--servers", "2x8@v100", "--speeds", "none"), "--speeds is 'none', which cannot be read"),
    ],
)
def test_what_is_refused_in_one_line(path, tmp_path, capsys, words, match):
    out = ["--out", str(tmp_path / "out"), "--processes", "1", "--policies", "fifo"]
    assert main(["leaderboard", "--trace", str(path), *out, *words]) != 0
    said = capsys.readouterr().err.strip()
    assert re.search(match, said) and len(said.splitlines()) == 1


def test_schedules_of_ones_own_may_be_as_fast_as_the_fastest_type():
    table = JobTable({"submit_time": [0], "num_gpus": [1], "duration": [10], "speed_a": [2000]})
    cluster = Cluster.of("1x1@a")
    records = replay(table, cluster, TYPED["fifo-fastest"])
    assert records.end.tolist() == [5]
    check_schedule("mine", records, table, cluster)
    with pytest.raises(JaxschedError, match="job 0 runs shorter than it must"):
        check_schedule("mine", records._replace(end=records.end - 1), table, cluster)


def test_names():
    assert [entry.name for entry in entries_of(list(GAVEL))] == list(GAVEL)
    assert not {entry.name for entry in entries_of(None)} & {*GAVEL, *TYPED}
