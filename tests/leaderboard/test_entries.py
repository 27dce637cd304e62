"""Policies of one's own: what is taken, what is refused, and what priorities come to."""

import sys

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.leaderboard import entries_of
from jaxsched.leaderboard.entries import check_schedule
from jaxsched.trace_replay import POLICIES, Cluster, replay
from tests.trace_replay.cases import found, random_columns

CLUSTER = Cluster(3, 4)

OWN = """
import numpy as np
from jaxsched.trace_replay import POLICIES, Policy, replay

best_fit = Policy("sjf", "block")

def shortest(table, cluster):
    return table["duration"] * 0.5
shortest.knows, shortest.learned = "run times", True

def narrowest(table, cluster):
    return -1.0 / table["num_gpus"]

def own_engine(table, cluster):
    return replay(table, cluster, POLICIES["srtf"])
own_engine.suspends = True

def hasty(table, cluster):
    records = own_engine(table, cluster)
    return records._replace(start=records.start - 1)

def too_few(table, cluster):
    return [1.0]

def broken(table, cluster):
    return 1 / 0

def odd(table, cluster):
    return table["duration"]
odd.knows = "everything"

number = 7
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "my_rules"
    sys.modules.pop("my_rules", None)


@pytest.fixture(scope="module")
def table():
    from jaxsched.trace_replay.tables import as_table

    return as_table(random_columns(3, 20, CLUSTER.num_gpus), CLUSTER)


@pytest.mark.parametrize(
    ("name", "same"),
    [("best_fit", "sjf-block"), ("shortest", "sjf"), ("narrowest", "lrf"), ("own_engine", "srtf")],
)
def test_own_policies_play_as_those_that_they_are(module, table, name, same):
    (entry,) = entries_of((), (f"{module}:{name}",))
    records = entry.play(table, CLUSTER)
    np.testing.assert_array_equal(found(records), found(replay(table, CLUSTER, POLICIES[same])))
    assert entry.suspends == (same == "srtf")
    told = {"shortest": ("run times", True), "best_fit": ("run times", False)}
    assert (entry.knows, entry.learned) == told.get(name, ("unstated", False))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("too_few", "my_rules:too_few: returned .* a number for each of the 20 jobs"),
        ("broken", r"my_rules:broken: ZeroDivisionError: .* \(my_rules.py:\d+\)"),
        ("hasty", "my_rules:hasty: job .* starts before its submission"),
    ],
)
def test_wrong_answers_are_one_line(module, table, name, says):
    (entry,) = entries_of((), (f"{module}:{name}",))
    with pytest.raises(JaxschedError, match=says):
        entry.play(table, CLUSTER)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ("my_rules:number", "is 7; accepted: a Policy, or a function"),
        ("my_rules:absent", "is None; accepted: a Policy"),
        ("my_rules:odd", "knows is 'everything'; accepted: nothing, "),
        ("my_rules", "accepted: module:name"),
        ("no_such_module:f", "no_such_module:f: cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_no_policy_is_refused(module, own, says):
    with pytest.raises(JaxschedError, match=says):
        entries_of((), (own,))


def test_names_are_known_and_different(module):
    with pytest.raises(JaxschedError, match="unknown policy 'best'; accepted: fifo, "):
        entries_of(("fifo", "best"))
    with pytest.raises(JaxschedError, match="two policies are called 'fifo'"):
        entries_of(("fifo", "fifo"))
    entries = {entry.name: entry for entry in entries_of(None)}
    assert list(entries) == list(POLICIES)
    assert entries["drf"].shares and not entries["las"].shares and entries["las"].suspends
    assert {entry.knows for entry in entries.values()} >= {"nothing", "run times"}


def test_schedules_that_cannot_be_are_refused(table):
    good = replay(table, CLUSTER, POLICIES["fifo-skip"])
    check_schedule("x", good, table, CLUSTER)
    at_once = good._replace(
        start=table["submit_time"], end=table["submit_time"] + table["duration"]
    )
    with pytest.raises(JaxschedError, match="x: jobs hold more than 12 GPUs together"):
        check_schedule("x", at_once, table, CLUSTER)
    with pytest.raises(JaxschedError, match="x: job 0 runs shorter than it must"):
        check_schedule("x", good._replace(end=good.end - 1), table, CLUSTER)
    with pytest.raises(JaxschedError, match="x: job 0 has another submission"):
        check_schedule("x", good._replace(num_gpus=good.num_gpus + 1), table, CLUSTER)
