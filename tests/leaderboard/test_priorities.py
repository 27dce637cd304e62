"""A workload with spot jobs on the board: what is left out of it, and both kinds of jobs apart."""

import numpy as np
import pytest

from jaxsched.leaderboard import prepare
from jaxsched.leaderboard.board import play
from jaxsched.leaderboard.choosing import workloads_of
from jaxsched.leaderboard.entries import entries_of
from jaxsched.leaderboard.text import workload_table
from jaxsched.leaderboard.workloads import BY_NAME_ONLY
from jaxsched.traces.clusters import generate_trace

SPOT = BY_NAME_ONLY[0]._replace(num_jobs=300, load=0.8)


@pytest.fixture(scope="module")
def board():
    ready = prepare(SPOT, None)
    return ready, play([ready], entries_of(["gfs", "fifo-skip"]), asked_load=0.8, iterations=0)


def test_long_jobs_are_left_out(board):
    ready, _ = board
    days = generate_trace("spot-gpu-like", 0, 300)["duration"] / 86400
    assert 0 < np.sum(days > 3) == 300 - len(ready.table)
    assert f"{np.sum(days > 3)} jobs of more than 3 days left out" in ready.notes
    assert ready.table["duration"].max() <= 3 * 86400 and set(ready.table["priority"]) == {0, 1}


def test_both_kinds_stand_apart(board):
    _, found = board
    lines = workload_table(found)
    assert "evicted" in lines[-4] and lines[-3].split()[0] in ("gfs", "fifo-skip")
    rows = {row.policy: row.figures for row in found.standings}
    assert rows["fifo-skip"]["eviction_rate"] == rows["fifo-skip"]["wasted_gpu_s"] == 0
    assert rows["gfs"]["high_avg_wait"] <= rows["fifo-skip"]["high_avg_wait"]


def test_it_is_played_by_name_only():
    everything = [workload.name for workload in workloads_of()]
    assert "helios-venus" in everything and "spot-gpu-like" not in everything
    (found,) = workloads_of(names="spot-gpu-like", load=0.8)
    assert found.name == "spot-gpu-like" and found.load == 0.8
