"""The board on servers with limits of CPUs and memory: who plays, jobs that no servers hold."""

import json

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.leaderboard.workloads import Workload, prepare
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.traces import Trace, write_trace
from tests.leaderboard.test_own_logs import COUNT, log

SERVERS = Cluster.of("2x8/32")
SIZE = {"num_servers": 2, "gpus_per_server": 8, "own": True}


@pytest.fixture
def path(tmp_path):
    """Six cores a GPU or two, by turns; one job asks for more than there is."""
    columns = log()
    cpus = columns["num_gpus"] * np.where(np.arange(COUNT) % 2, 2, 6)
    cpus[7] = 99
    write_trace(tmp_path / "log.csv", Trace(columns | {"cpus": cpus}, "log"))
    return tmp_path / "log.csv"


def test_the_command(path, tmp_path):
    assert main(["leaderboard", "--trace", str(path), "--servers", str(SERVERS.servers),
                 "--policies", "fifo,srtf,fifo-any,gavel-maxmin", "--iterations", "1",
                 "--processes", "1", "--out", str(tmp_path / "out"),
                 "--json", str(tmp_path / "all.json")]) == 0  # fmt: skip
    (piece,) = json.loads((tmp_path / "all.json").read_text())["pieces"].values()
    assert piece["servers"] == "2x8/32" and "1 jobs capped at the cpus of servers" in piece["notes"]
    left_out = "for want of servers without limits of CPUs and memory: "
    assert f"not played, {left_out}srtf, fifo-any, gavel-maxmin" in piece["notes"]
    (row,) = (row for row in piece["standings"] if not row["recorded"])
    draw = prepare(Workload("log", str(path), None, **SIZE, kinds=SERVERS.kinds), None)
    window = slice(COUNT // 10, COUNT - COUNT // 10)
    exact = replay(draw.table, SERVERS, POLICIES["fifo"]).jct[window].mean()
    assert row["figures"]["avg_jct"] == pytest.approx(exact)
    free = replay(draw.table, Cluster(2, 8), POLICIES["fifo"]).jct[window].mean()
    assert exact > free


def test_boards_without_limits_know_no_cpus(path):
    """Failures are drawn from the columns of a table; those of old boards stay."""
    ready = prepare(Workload("log", str(path), None, **SIZE), None)
    assert not {"cpus", "memory_gb"} & ready.table.columns.keys()
