"""A real controller under its own order, under users' limits and under forecasts.

Two minutes on one node of eight GPUs that each job takes whole, so that starts come one after the
other, and the order in which they come is the policy's.
"""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from jaxsched.trace_replay import POLICIES, Cluster, replay
from tests.slurm import toy

LENGTHS = (5, 1, 5, 1, 1, 5, 1)
"""Seconds of the jobs, in order of submission; long and short ones have accounts of their own."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(toy.missing()), reason=toy.missing() or "there is one"),
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    cluster = toy.Toy(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.stop()


def played(slurm, words, folder):
    """Submissions and starts of the jobs, with ``jaxsched slurm`` running beside.

    Accounts are of this play alone: forecasts go by what an account's jobs have taken so far.
    """
    process = None
    if words:
        command = [sys.executable, "-m", "jaxsched", "slurm", "--every", "1", "--out",
                   str(folder), *words]  # fmt: skip
        process = subprocess.Popen(
            command, env=slurm.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert "wait" in process.stdout.readline()
    slurm.submit(6, account="first", minutes=10)
    jobs = [
        slurm.submit(length, account=f"{folder.name}-{length}s", minutes=5 * length)
        for length in LENGTHS
    ]
    times = slurm.wait_for(jobs)
    if process is not None:
        process.send_signal(signal.SIGTERM)
        assert "priorities put back" in process.communicate(timeout=30)[0]
    return [times[number] for number in jobs]


def order_of(times):
    return np.argsort([start for _, start in times], kind="stable").tolist()


def wait_of(times):
    return float(np.mean([start - submit for submit, start in times]))


def replayed(policy):
    """Order of the starts in the replay engine."""
    count = len(LENGTHS)
    jobs = {
        "submit_time": np.r_[0, np.ones(count, int)],
        "num_gpus": np.full(count + 1, 8),
        "duration": np.r_[6, LENGTHS],
    }
    start = replay(jobs, Cluster(1, 8), POLICIES[policy]).start[1:]
    return np.argsort(start, kind="stable").tolist()


def test_starts_come_in_the_order_of_the_replay(slurm, tmp_path):
    alone = played(slurm, [], tmp_path / "alone")
    assert order_of(alone) == replayed("fifo")
    limits = played(slurm, ["--policy", "sjf-est"], tmp_path / "limits")
    assert order_of(limits) == replayed("sjf")
    assert wait_of(limits) < wait_of(alone)
    past = tmp_path / "learnt"
    past.mkdir()
    now = int(time.time()) - 10**6
    with (past / "ended.jsonl").open("w") as file:
        for k in range(40):
            account, length = (("5s", 30_000), ("1s", 40))[k % 2]
            begin = now + 20_000 * k
            file.write(
                json.dumps([-k, begin, begin, begin + length, 8, f"root/learnt-{account}"]) + "\n"
            )
    learnt = played(slurm, ["--policy", "qssf"], past)
    assert order_of(learnt) == replayed("sjf")
    assert wait_of(learnt) < wait_of(alone)
    for name, times in (("alone", alone), ("limits", limits), ("learnt", learnt)):
        print(f"{name}: mean wait {wait_of(times):.1f} s")


def test_starts_follow_the_network(slurm, tmp_path):
    """Whatever it forecasts: jobs start in the order that it wants."""
    times = played(slurm, ["--policy", "learned-once"], tmp_path)
    print(f"learned-once: mean wait {wait_of(times):.1f} s")
    wanted = max((line["wanted"] for line in logged(tmp_path)), key=len)
    assert len(wanted) == len(LENGTHS)
    numbers = [int(name) for name in wanted]
    assert order_of(times) == [number - min(numbers) for number in numbers]


def logged(folder):
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


def test_shadow_mode_changes_nothing(slurm, tmp_path):
    times = played(slurm, ["--policy", "sjf-est", "--dry-run"], tmp_path)
    assert order_of(times) == replayed("fifo")
    lines = logged(tmp_path)
    wanted = max((line["wanted"] for line in lines), key=len)
    assert len(wanted) == len(LENGTHS)
    assert any(line["wanted"] != line["slurm"] for line in lines)
