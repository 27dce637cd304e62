"""The script that trains a policy on a small cluster and plays it on a larger one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SMALL = ("--servers", "2", "--times", "2", "--jobs", "40", "--train", "4", "--test", "4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "shown"),
    [((), 3), (("--branch",), 3), (("--suspend", "--restart", "300"), 5)],
    ids=("starts", "branches", "suspends"),
)
def test_it_plays_one_policy_on_two_clusters(options, shown):
    command = [sys.executable, "-m", "benchmarks.once.train_cluster", "--updates", "1", *options]
    found = subprocess.run(
        [*command, *SMALL],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert found.returncode == 0, found.stderr
    rows = [line.split() for line in found.stdout.splitlines()]
    assert [row[0] for row in rows if row[1] == "servers,"] == ["2", "4"]
    named = ("learned", "fifo-skip", "sjf", "las", "srtf")
    hours = [float(row[1]) for row in rows if row[0] in named]
    assert len(hours) == 2 * shown and all(5 < hour < 50 for hour in hours)
