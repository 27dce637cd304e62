"""The runner of golden cases, whatever the system."""

from dataclasses import replace

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry
from jaxsched.systems.system import Cases

SCHED2 = registry.get("sched2")
JOB = {"submit_time": 0, "num_gpus": 1, "duration": 5, "model": 0}
CASE = {"jobs": [JOB], "actions": [0, 1, 0], "config": {"window": 1}}
JOBS = {
    "sched2": JOB,
    "chic": {"submit_time": 0, "model": 0, "iterations": 5},
    "dl2": {"submit_time": 2400, "model": 0, "epochs": 9.0},
    "das": {
        "submit_time": 0, "num_instances": 1, "gpus_per_instance": 1, "cpus_per_instance": 0,
        "mem_per_instance": 0, "duration": 5,
    },
}  # fmt: skip


def system_of(read):
    return replace(SCHED2, cases=Cases(read, SCHED2.cases.whole))


def test_an_episode_under_several_names_is_played_once():
    episode, told = SCHED2.cases.read(CASE), []

    def result(trajectory, metrics):
        told.append(metrics)
        return {"steps": len(trajectory.moments["done"])}

    runs = {"a": episode._replace(result=result)}
    system = system_of(lambda case: {**runs, "again": runs, "other": lambda: {"steps": 0}})
    found = golden.simulate(system, {})
    assert found == {"a": {"steps": 3}, "again": {"a": {"steps": 3}}, "other": {"steps": 0}}
    assert len(told) == 1 and told[0]["finished"] == 1
    assert golden.episode_of(system, {}) is runs["a"]


@pytest.mark.parametrize("content", [{}, lambda: {}], ids=["nothing", "no episode"])
def test_what_is_no_episode_has_no_schedule(content):
    with pytest.raises(JaxschedError, match="has no schedule"):
        golden.episode_of(system_of(lambda case: content), {})


def test_steps_after_the_end_are_listed():
    found = golden.simulate(SCHED2, CASE)["trajectory"]
    assert [(row["step"], row["action"], row["done"]) for row in found] == [
        (0, 0, True),
        (1, 1, True),
        (2, 0, True),
    ]


@pytest.mark.parametrize("system", JOBS)
def test_a_case_may_list_no_action(system):
    found = golden.simulate(registry.get(system), {"jobs": [JOBS[system]], "actions": []})
    assert found["trajectory"] == [] and found["metrics"]["finished"] == 0
    assert found["jobs"][0]["start"] is found["jobs"][0]["finish"] is None
    if system == "dl2":
        assert found["final"]["slot"] == 2 and found["final"]["workers"] == [0]
