"""``jaxsched.advise``: a log played by a known policy gives that policy back."""

import json
from functools import partial

import numpy as np
import pytest

import jaxsched
from jaxsched.advice.what_if import wait_of
from jaxsched.errors import JaxschedError
from jaxsched.leaderboard.entries import entries_of
from jaxsched.leaderboard.workloads import prepare_log
from jaxsched.trace_replay import Cluster
from tests.advice.sample import CLUSTER, SECRET, SERVERS, log

POLICIES = ("fifo", "sjf-block", "las")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("advice")


@pytest.fixture(scope="module")
def lines():
    return []


@pytest.fixture(scope="module")
def advice(folder, lines):
    return jaxsched.advise(
        log(), SERVERS, policies=POLICIES, history=0.5, out=folder, progress=lines.append
    )


@pytest.fixture(scope="module")
def rows(advice):
    return {row["policy"]: row for row in advice.document["rows"]}


def test_what_happened_is_the_policy_that_made_it(advice, rows):
    assert advice.document["reference"] == "as recorded"
    found, made = rows["as recorded"], rows["sjf-block"]
    for name in ("avg_wait", "median_wait", "p95_wait", "p99_wait", "avg_jct", "utilization"):
        assert found[name] == pytest.approx(made[name])
    assert found["periods"] == made["periods"]
    assert made["over_reference"]["estimate"] == pytest.approx(1)
    assert made["losers"] == []


def test_waits_by_hand(rows):
    trace = log()
    first, stop = 75, 150 - 7
    wait = (trace["start_time"] - trace["submit_time"])[first:stop]
    assert rows["as recorded"]["avg_wait"] == pytest.approx(wait.mean())
    assert rows["as recorded"]["p95_wait"] == pytest.approx(np.percentile(wait, 95))
    users = trace["user"][first:stop]
    by_user = sorted(wait[users == name].mean() for name in np.unique(users))
    told = sorted(each["wait"] for each in rows["as recorded"]["owners"])
    assert told == pytest.approx(by_user)


def test_shares_of_the_gpu_time_add_up(rows):
    for row in rows.values():
        assert sum(each["share"] for each in row["owners"]) == pytest.approx(1)


def test_no_policy_is_below_the_bound(advice, rows):
    bound = advice.document["bound"]
    assert 0 <= bound["any_s"] <= bound["non_preemptive_s"]
    for row in rows.values():
        assert row["avg_wait"] >= bound["any_s" if row["suspends"] else "non_preemptive_s"] - 1e-6


def test_rules_that_know_run_times_are_not_advised(advice, rows):
    assert advice.document["closest"] in ("fifo", "las")
    for name in advice.document["recommended"]:
        assert rows[name]["knows"] != "run times"


def test_the_smallest_cluster_keeps_the_wait_and_a_smaller_one_does_not(advice):
    ready = prepare_log(log(), CLUSTER)
    assert advice.document["capacity"]
    for fit in advice.document["capacity"]:
        if fit["servers"] is None:
            continue
        entry = entries_of([fit["policy"]])[0]
        for size in range(2, 4):  # the widest job takes two servers
            wait = wait_of(entry.play(ready.table, Cluster(size, 4)))[75:143].mean()
            assert (wait <= fit["target_s"]) == (size >= fit["servers"])


def test_names_of_users_stay_on_the_machine(advice, folder):
    for file in ("advice.html", "advice.json"):
        text = (folder / file).read_text()
        assert not any(name in text for name in SECRET)
        assert "user " in text
    kept = json.loads((folder / "names.json").read_text())
    assert sorted(kept["names"].values()) == sorted(SECRET)
    assert (folder / "names.json").stat().st_mode & 0o077 == 0
    assert set(kept["names"]) == {each["owner"] for each in advice.document["rows"][0]["owners"]}


def test_the_page_says_what_the_values_say(advice, folder):
    page = (folder / "advice.html").read_text()
    for line in advice.conclusions:
        assert line.split(":")[0] in page
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads((folder / "advice.json").read_text())["conclusions"] == advice.conclusions


def test_print_frame_and_progress(advice, lines):
    assert str(advice).startswith(advice.conclusions[0])
    frame = advice.to_pandas()
    assert list(frame.policy) == [row["policy"] for row in advice.document["rows"]]
    assert frame.avg_wait.is_monotonic_increasing
    assert lines[0].startswith("[1/4] as recorded")


quick = partial(jaxsched.advise, policies=["fifo"], capacity=False, iterations=0)


def test_names_are_shown_where_that_is_asked_for_and_nothing_is_written():
    found = quick(log(), SERVERS, names=True)
    assert {each["owner"] for each in found.document["rows"][0]["owners"]} == set(SECRET)


def test_types_of_gpus_are_refused():
    with pytest.raises(JaxschedError, match="'4x2@a': a log does not say .*without types"):
        jaxsched.advise(log(), "4x2@a")


def test_servers_of_different_sizes():
    found = jaxsched.advise(log(), "2x4,2x2", policies=["fifo"], iterations=0)
    assert found.document["cluster"] == {"num_servers": 4, "num_gpus": 12, "size": "2x4,2x2"}
    assert found.document["capacity"] == []


def test_a_log_without_starts_is_compared_with_a_rule():
    trace = log()
    plain = {name: trace[name] for name in ("submit_time", "num_gpus", "duration")}
    found = quick(jaxsched.traces.Trace(plain), SERVERS)
    assert found.document["reference"] == "fifo"
    assert found.document["closest"] is None
    assert any("does not say when jobs started" in line for line in found.conclusions)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"servers": None}, "had up to 12 GPUs in use at once; accepted: servers"),
        ({"servers": "3by4"}, "such as 40x8"),
        ({"by": "group"}, "the log has no group; accepted: user"),
        ({"by": "colour"}, "accepted: group, user"),
        ({"history": 0.95}, "accepted: a share from 0 to 0.9"),
        ({"num_jobs": 20}, "accepted: 20 or more"),
        ({"policies": ["magic"]}, "unknown policy 'magic'"),
        ({"policies": ["edf"]}, "for want of deadlines none of edf"),
    ],
)
def test_bad_input_is_one_line(change, words):
    with pytest.raises(jaxsched.JaxschedError, match=words) as error:
        quick(log(), **{"servers": SERVERS, **change})
    assert "\n" not in str(error.value)


def test_the_command(tmp_path, monkeypatch, capsys):
    from jaxsched.cli.main import main

    monkeypatch.chdir(tmp_path)
    trace = log()
    names = ("submit_time", "num_gpus", "duration", "start_time", "user")
    with open("month.csv", "w", encoding="utf-8") as file:
        file.write(",".join(names) + "\n")
        for row in zip(*(trace[name] for name in names), strict=True):
            file.write(",".join(map(str, row)) + "\n")
    words = ["advise", "month.csv", "--servers", SERVERS, "--policies", "fifo", "--no-capacity"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "as recorded" in out
    assert "page written to runs/advise/advice.html" in out
    assert (tmp_path / "runs/advise/advice.html").exists()
    assert main(words[:2]) == 2
    assert "12 GPUs in use at once" in capsys.readouterr().err


@pytest.mark.extended
def test_a_trained_policy_is_a_row(tmp_path):
    run = jaxsched.train(
        "cluster", preset="quick", out=tmp_path / "mine", traces=[_table()], servers=SERVERS,
        num_jobs=40, set={"loop.num_updates": 1, "env.window": 8},
    )  # fmt: skip
    found = quick(log(), SERVERS, checkpoint=[str(run.path)])
    row = next(row for row in found.document["rows"] if row["policy"] == "mine")
    assert row["learned"]
    assert row["knows"] == "prediction"
    assert row["avg_wait"] >= found.document["bound"]["non_preemptive_s"]
    assert row["restart_s"] is None


def _table():
    return prepare_log(log(), CLUSTER).table
