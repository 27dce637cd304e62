"""Golden cases of SCHED2: fixed job tables with the results of an independent simulator."""

import copy

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry
from tests.golden_check import differences, golden_files, load

FILES = golden_files("sched2")
CASES = [path for path in FILES if "expect" in load(path)]
REJECTS = [
    pytest.param(table, id=table["why"]) for path in FILES for table in load(path).get("reject", [])
]
FRAGMENTATION = {"fragmentation": 1e-5, "fragmentation_curve": 1e-5}
DENSE = {"reward": 1e-5, "return": 1e-5}


def simulate(case):
    return golden.simulate(registry.get("sched2"), case)


def test_every_file_is_used():
    assert len(CASES) == 23
    assert len(REJECTS) == 7


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    case = load(path)
    atol = FRAGMENTATION | (DENSE if case["config"]["reward"] == "dense" else {})
    assert differences(case["expect"], simulate(case), 1e-5, atol) == []


@pytest.mark.parametrize("table", REJECTS)
@pytest.mark.parametrize("play", [{"policy": "fifo"}, {"actions": [0]}], ids=["policy", "actions"])
def test_table_is_refused(table, play):
    case = {"system": "sched2", "config": table["config"], "jobs": table["jobs"], **play}
    with pytest.raises(JaxschedError) as refusal:
        simulate(case)
    message = str(refusal.value)
    assert message
    assert "\n" not in message
    assert "accepted" in message


def spoil(result, path, value):
    """A copy of ``result`` with one entry replaced."""
    result = copy.deepcopy(result)
    *parents, last = path
    place = result
    for key in parents:
        place = place[key]
    place[last] = value
    return result


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", "makespan"), 511),
        (("metrics", "avg_wait"), 60.001),
        (("metrics", "avg_wait"), float("nan")),
        (("metrics", "fragmentation"), 0.2967),
        (("jobs", 2), None),
        (("jobs", 2, "reused"), 0),
        (("trajectory", 5, "mask"), [1, 0, 0, 0]),
        (("trajectory", 5, "mask"), [1, 0, 0]),
        (("jobs",), {}),
    ],
)
def test_the_check_notices(path, value):
    expect = load(CASES[0])["expect"]
    assert differences(expect, spoil(expect, path, value), 1e-5, FRAGMENTATION)
    assert differences(expect, {key: expect[key] for key in expect if key != path[0]})


def test_the_check_allows_what_it_should():
    expect = load(CASES[0])["expect"]
    more = spoil(expect, ("metrics", "avg_wait"), 60.0001) | {"more": 1}
    assert differences(expect, more, 1e-5, FRAGMENTATION) == []
    near = spoil(expect, ("metrics", "fragmentation"), expect["metrics"]["fragmentation"] + 9e-6)
    assert differences(expect, near, 1e-5, FRAGMENTATION) == []
    assert differences(expect, near, 1e-5)
