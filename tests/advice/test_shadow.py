"""A log of passes in the shadow plays the log in the order that the policy wanted."""

import json

import numpy as np
import pytest

import jaxsched
from jaxsched.leaderboard.workloads import prepare_log
from jaxsched.queues.control import Control, Settings
from jaxsched.queues.decisions import shadow_scores
from jaxsched.queues.slurm import Slurm
from jaxsched.trace_replay import POLICIES, replay
from tests.advice.sample import CLUSTER, SERVERS, log
from tests.slurm.fake import Fake

FIGURES = ("avg_wait", "median_wait", "p95_wait", "p99_wait", "avg_jct", "utilization")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a shadow that saw every job wait, with limits in the order of run times."""
    return watched(tmp_path_factory.mktemp("shadow"), policy="sjf-est")


def watched(folder, *, policy, dry_run=True, first=0):
    """The sample log goes by in a queue; passes come at submissions, from the job ``first`` on."""
    trace, fake = log(), Fake()
    settings = Settings(policy, 30.0, 1e9, 200, dry_run=dry_run)
    control = Control(Slurm(fake.runner), settings, folder, clock=lambda: fake.now)
    moments = [
        (time, kind, k)
        for k in range(len(trace))
        for kind, time in enumerate((trace["end_time"][k], trace["submit_time"][k]))
    ]
    moments += [(time, 2, k) for k, time in enumerate(trace["start_time"])]
    for time, kind, k in sorted(moments):
        fake.now, number = 10_000 + int(time), 100 + k
        if kind == 0:
            fake.end(number)
        elif kind == 1:
            fake.submit(number, gpus=int(trace["num_gpus"][k]), limit=int(trace["duration"][k]))
            fake.jobs[number]["priority"] = 10_000 - k
            if k >= first:
                assert not control.step().failure
        else:
            fake.start(number)
    return folder


def advised(shadow):
    return jaxsched.advise(
        log(), SERVERS, policies=["fifo", "sjf"], shadow=shadow, history=0.5, names=True,
        capacity=False, iterations=0,
    )  # fmt: skip


def test_the_order_that_was_wanted_is_a_row_like_its_policy(folder):
    advice = advised(folder)
    rows = {row["policy"]: row for row in advice.document["rows"]}
    row = rows["sjf-est, shadow"]
    for name in FIGURES:
        assert row[name] == pytest.approx(rows["sjf"][name])
    assert row["avg_wait"] < rows["fifo"]["avg_wait"]
    assert (row["knows"], row["suspends"], row["learned"]) == ("estimates", False, False)
    assert advice.document["shadow"] == ["sjf-est, shadow"]
    assert "sjf-est, shadow" not in advice.document["recommended"]
    assert any("saw 68 of the 68 jobs" in note for note in advice.document["notes"])
    (line,) = (line for line in advice.conclusions if "that the policy wanted" in line)
    assert "as it happened" in line
    assert advised(folder / "decisions.jsonl").document["rows"] == advice.document["rows"]


def test_jobs_that_no_pass_saw_go_first_as_they_came(tmp_path):
    """By a replay of ranks: what was there before the shadow, then the others by limit."""
    advice = advised(watched(tmp_path, policy="lrf", first=100))
    table = prepare_log(log(), CLUSTER).table
    trace = log()
    waits = trace["start_time"] >= trace["submit_time"][100]
    rank = np.where(waits, table["num_gpus"] + 1, 1)
    records = replay(table.with_columns(estimate=rank), CLUSTER, POLICIES["sjf-est"])
    wait = (records.start - records.submit)[75:143].mean()
    (row,) = (row for row in advice.document["rows"] if row["policy"] == "lrf, shadow")
    assert 0 < np.sum(waits[75:143]) < 68
    assert row["avg_wait"] == pytest.approx(wait)
    assert any(f"saw {np.sum(waits[75:143])} of" in note for note in advice.document["notes"])


def test_scores_are_logged_once_and_the_last_one_counts(folder, tmp_path):
    scores = shadow_scores(folder)["sjf-est"]
    assert scores == {str(100 + k): 60.0 * value for k, value in enumerate(log()["duration"])}
    lines = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    assert sum(len(line["scores"]) for line in lines) == len(scores)
    file = tmp_path / "decisions.jsonl"
    passes = ({"1": 5.0, "2": None}, {"1": 3.0})
    file.write_text(
        "".join(
            json.dumps({"policy": "sjf-est", "dry_run": True, "scores": each}) + "\n"
            for each in passes
        )
        + '{"policy": "sj'
    )
    assert shadow_scores(file) == {"sjf-est": {"1": 3.0, "2": float("inf")}}


def test_what_is_no_log_of_a_shadow_is_one_line(folder, tmp_path):
    with pytest.raises(
        jaxsched.JaxschedError, match="cannot be read; accepted: the decisions of a"
    ):
        advised(tmp_path)
    with pytest.raises(jaxsched.JaxschedError, match="no pass in the shadow saw a job"):
        advised(watched(tmp_path, policy="sjf-est", dry_run=False))
    lines = (folder / "decisions.jsonl").read_text().splitlines()
    file = tmp_path / "damaged.jsonl"
    file.write_text("\n".join([lines[0], '{"dry_run": true}', lines[1]]) + "\n")
    with pytest.raises(jaxsched.JaxschedError, match="line 2: is no pass"):
        advised(file)
    file.write_text(lines[0].replace('"100"', '"7"') + "\n")
    with pytest.raises(jaxsched.JaxschedError, match="saw none of the 68 jobs"):
        advised(file)
    trace = log()
    nameless = jaxsched.traces.Trace(
        {name: trace[name] for name in ("submit_time", "num_gpus", "duration", "start_time")}
    )
    with pytest.raises(jaxsched.JaxschedError, match="jobs have no names"):
        jaxsched.advise(nameless, SERVERS, policies=["fifo"], shadow=folder, iterations=0)
