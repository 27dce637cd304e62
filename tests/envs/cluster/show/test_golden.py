"""Golden cases of the cluster: job tables with the results of plain event loops, and RLTune's."""

import json

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry
from tests.golden_check import GOLDEN, differences, golden_files, load

FILES = golden_files("cluster")
WINDOWS = json.loads((GOLDEN / "mixed_nodes" / "windows.json").read_text())
RLTUNE = {"servers": "16x2:4,20x8", "commits": True, "placement": "first_fit"}
NAMES = {"fcfs": "fifo", "lcfs": "lcfs", "sjf": "sjf-narrow", "lpf": "lpf", "f1": "f1"}


def simulate(case):
    return golden.simulate(registry.get("cluster"), case)


def of_window(window, **decided):
    names = ("submit_time", "num_gpus", "duration")
    rows = zip(*(window[name] for name in names), strict=True)
    jobs = [dict(zip(names, row, strict=True)) for row in rows]
    return {"system": "cluster", "config": RLTUNE, "jobs": jobs, **decided}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case(path):
    case = load(path)
    assert differences(case["expect"], simulate(case)) == []


@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_rltune(number):
    """The starts of RLTune's published environment under all of its rules."""
    window = WINDOWS[number]
    for name, expected in window["policies"].items():
        found = simulate(of_window(window, policy=NAMES[name]))
        assert [job["start"] for job in found["jobs"]] == expected["start_time"]
        slowdown = expected["mean_bounded_slowdown"]
        assert found["metrics"]["bounded_slowdown"] == pytest.approx(slowdown, rel=1e-6)


def test_listed_actions():
    """Where choices commit, a job that fits waits for a large one that was chosen."""
    sizes = ((2, 5), (4, 7), (1, 1), (2, 1))
    jobs = [{"submit_time": 0, "num_gpus": gpus, "duration": run} for gpus, run in sizes]
    config = {"num_servers": 1, "gpus_per_server": 4, "window": 4, "commits": True}
    case = {"system": "cluster", "config": config, "jobs": jobs, "actions": [0, 0, 1, 0]}
    found = simulate(case)
    assert [job["start"] for job in found["jobs"]] == [0, 5, 12, 12]
    assert [row["start"] for row in found["trajectory"]] == [0, 1, 3, 2]
    without = {**case, "config": {**config, "commits": False}, "actions": [0, 1, 0, 0]}
    assert [job["start"] for job in simulate(without)["jobs"]] == [0, 5, 0, None]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"policy": "gittins"}, "policy is 'gittins'; accepted: fifo, "),
        ({}, "either 'policy' or 'actions'"),
        ({"actions": [0], "config": {"suspends": True}}, "scores; accepted: a policy"),
        ({"policy": "las", "config": {"suspends": True, "thresholds": 5}}, "accepted: a list"),
        ({"policy": "fifo", "config": {"servers": "16x"}}, "accepted: servers x GPUs of each"),
        (
            {"policy": "fifo", "jobs": [{"submit_time": 0, "num_gpus": 999, "duration": 1}]},
            "accepted",
        ),
    ],
)
def test_what_is_refused(changes, match):
    case = of_window({**WINDOWS[0], **{k: v[:2] for k, v in WINDOWS[0].items() if k != "policies"}})
    with pytest.raises(JaxschedError, match=match) as refusal:
        simulate({**case, **changes})
    assert "\n" not in str(refusal.value)
