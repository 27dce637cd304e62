"""Who trains the groups of a sweep: options, refusals and the split into groups, without Ray."""

import pickle
import sys

import pytest

import jaxsched
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.experiment import ray_worker
from jaxsched.experiment.engines import engine_of
from jaxsched.experiment.groups import Session
from jaxsched.experiment.sweep_plan import plan_sweep
from jaxsched.experiment.sweeping import run_sweep
from jaxsched.runs.sweep import Axis, groups_of, read_axes
from jaxsched.systems import registry
from tests.command_line import refused
from tests.experiment.test_front_door import TABLES
from tests.runs.test_sweep import RECIPE

OVER = Axis("learner.learning_rate", ("0.1", "0.2"))


def row(group):
    member = group.members[0]
    values = {**group.common, **member.values}
    score = 1.0 if group.name == "group0" else 0.5
    return {"values": values, "seed": member.seed, "score": score, "update": 1, "last": score,
            "policy": f"{group.name}/policies/seed0"}  # fmt: skip


def test_groups_are_split_into_programs():
    axes = read_axes(["learner.learning_rate=0.1,0.2", "loop.rollout_length=4,8"])
    whole, split = groups_of(RECIPE, axes, [0, 1, 2]), groups_of(RECIPE, axes, [0, 1, 2], 4)
    assert [len(group.members) for group in split] == [4, 2, 4, 2]
    assert [group.name for group in split] == ["group0", "group1", "group2", "group3"]
    assert split[0].members + split[1].members == whole[0].members
    assert split[2].common == whole[1].common
    with pytest.raises(JaxschedError, match="side_by_side is 0; accepted"):
        jaxsched.sweep("sched2", over={"loop.num_updates": [1]}, side_by_side=0)


def test_groups_that_end_in_any_order_make_one_table(tmp_path):
    planned = plan_sweep(
        registry.get("sched2"), tmp_path / "a", axes=[OVER], preset="plain-ppo", trace=TABLES,
        side_by_side=1,
    )  # fmt: skip
    asked = []

    def backwards(planned, groups, session):
        asked.append([group.name for group in groups])
        for group in reversed(groups):
            yield group, [row(group)]

    found = run_sweep(planned, Session(), backwards)
    assert [one["policy"][:6] for one in found.rows] == ["group0", "group1"]
    again = run_sweep(planned, Session(resume=True), backwards)
    assert asked == [["group0", "group1"]]  # the record has all of them
    assert again.rows == found.rows and again.best == {OVER.path: "0.1"}
    assert "effectiveness on the validation traces" in str(found)
    assert found.save(tmp_path / "rows.csv").read_text().count("\n") == 3
    with pytest.raises(JaxschedError, match="ends in .png"):
        found.save(tmp_path / "rows.txt")


def test_values_come_back_as_they_were_given():
    from jaxsched.experiment.sweeping import _by_word

    assert _by_word("a", [1e-4, "1e-4", None, [1, 2]]) == {
        "0.0001": 1e-4,
        "1e-4": "1e-4",
        "null": None,
        "[1, 2]": [1, 2],
    }
    for values, message in (
        ("ab", "over\\['a'\\] is 'ab'; accepted: a list of values"),
        ([1, 1], "a value comes twice"),
        ([object()], "accepted: a number, text, flag, list or None"),
    ):
        with pytest.raises(JaxschedError, match=message):
            _by_word("a", values)


def test_options_of_engines_are_checked(monkeypatch, capsys):
    for given, message in (
        ({"name": "slurm"}, "engine is 'slurm'; accepted: ray"),
        ({"name": None, "num_gpus": 1}, "num_gpus is given; accepted: with the engine 'ray'"),
        ({"name": "ray", "devices": "all"}, "devices is 'all'; accepted with the engine"),
        ({"name": "ray", "num_gpus": 1.5}, "a whole number, or a part of one GPU"),
        ({"name": "ray", "num_cpus": -1}, "num_cpus is -1; accepted: a number from 0 on"),
        ({"name": "ray", "max_retries": -1}, "max_retries is -1; accepted"),
    ):
        with pytest.raises(JaxschedError, match=message):
            engine_of(**given)
    words = ["sweep", "sched2", "--over", "seed=1", "--coordinator", "a:1", "--num-processes", "2"]
    words += ["--process-id", "0", "--engine", "ray"]
    assert "--engine ray in one of several processes" in refused(capsys, *words)


def test_a_missing_package_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["sweep", "sched2", "--over", "loop.num_updates=1", "--engine", "ray"]
    line = refused(capsys, *words, "--out", tmp_path / "a")
    assert "the package ray, which is not installed; pip install 'jaxsched[ray]'" in line
    assert not (tmp_path / "a").exists()
    assert main is not None


def test_a_worker_with_other_versions_refuses(monkeypatch):
    shared = {"versions": {**ray_worker.versions(), "jax": "0.1"}}
    outcome = ray_worker.train(shared, "group 1 of 1", pickle.dumps(None), None)
    assert "; accepted: jaxsched 0.1.0, jax 0.1, jaxlib " in outcome["refused"]
    _, task = ray_worker.definitions()
    monkeypatch.setitem(sys.modules, "jaxsched.experiment", None)
    assert "has no jaxsched" in task(shared, "", b"", None)["refused"]


def test_tables_go_to_other_processes():
    copy = pickle.loads(pickle.dumps(TABLES[0]))
    assert copy.digest() == TABLES[0].digest() and copy.name == TABLES[0].name
