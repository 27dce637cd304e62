"""Golden cases of MLFS: fixed job tables with the results of an independent simulator."""

import copy
import json
from functools import cache

import pytest

from jaxsched.cli import main
from jaxsched.envs.mlfs.show.cases import BY_POLICY, BY_SWITCH, read_case
from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry
from jaxsched.systems.case_files import in_layout
from tests.golden_check import differences, golden_files, load

FILES = golden_files("mlfs")
CASES = {path.stem: load(path) for path in FILES}
REFUSED = [path for path in FILES if "cases" in CASES[path.stem]]
ONE_RUN = [name for name, case in CASES.items() if "expect" in case]
MANY_RUNS = [
    (name, key, run)
    for name, case in CASES.items()
    for key in (BY_POLICY, BY_SWITCH)
    for run in case.get(key, ())
]
WORKED = "02_chain_worked"


def simulate(case):
    return golden.simulate(registry.get("mlfs"), case)


@cache
def result(name):
    return simulate(CASES[name])


ALWAYS = ("mlf_h",)
"""Each run compiles an environment of its own. The other policies and switches are compared with
the oracle (``rules/test_env_oracle.py``), which reproduces all (``rules/test_oracle.py``)."""


def test_every_kind_is_there():
    assert (len(ONE_RUN), len(REFUSED)) == (14, 1)
    assert {name for name, _, _ in MANY_RUNS} == {"11_policies_60", "12_ablations_60"}
    assert len(MANY_RUNS) == 13


@pytest.mark.parametrize("name", ONE_RUN)
def test_case(name):
    expect = CASES[name]["expect"]
    assert differences(expect, in_layout(result(name), expect)) == []


@pytest.mark.parametrize(
    ("name", "key", "run"),
    [
        pytest.param(*parts, marks=() if parts[2] in ALWAYS else pytest.mark.slow)
        for parts in MANY_RUNS
    ],
    ids=lambda part: part,
)
def test_one_run_of_a_case(name, key, run):
    """Only this run, so that each environment is compiled once and a failure names it."""
    case = CASES[name]
    expect = case[key][run]
    got = simulate({**case, key: {run: expect}})
    assert got[key][run] is got[run]
    assert differences(expect, got[run]) == []


def test_cases_older_than_a_unit_keep_it():
    """The wait counts in hours, or in what a case says."""
    case = CASES[WORKED]
    named = {**case, "config": {**case["config"], "waiting_unit": "day"}}
    found = [int(read_case(one).params.options["waiting_min"]) for one in (case, named)]
    assert found == [60, 24 * 60]


@pytest.mark.parametrize(
    "change",
    [
        (("metrics", "avg_jct"), 601.0),
        (("jobs", 0, "home"), 1),
        (("trajectory", 2, "mask", 1), 0),
        (("trajectory", 1, "reward"), -0.0796),
        (("snapshots", 1, "priority", 0, 3), 13522),
        (("slots",), 11),
    ],
    ids=lambda change: ".".join(map(str, change[0])),
)
def test_the_check_notices(change):
    (*parents, last), value = change
    expect = CASES[WORKED]["expect"]
    got = copy.deepcopy(in_layout(result(WORKED), expect))
    assert differences(expect, got) == []
    place = got
    for key in parents:
        place = place[key]
    assert place[last] != value
    place[last] = value
    assert len(differences(expect, got)) == 1


def test_tables_are_refused(tmp_path, capsys):
    """All of them, each for what is wrong with it, through the command line."""
    (path,) = REFUSED
    good = next(other for other in FILES if other.stem == WORKED)
    assert main(["simulate", str(path), str(good), "--out", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    entries = json.loads((tmp_path / path.name).read_text())["cases"]
    cases = CASES[path.stem]["cases"]
    says = ("gpu_demand", "num_gpus", "cpus", "mem", "req_iter", "gpu_demand", "submit_time")
    assert len(lines) == len(entries) == len(cases) == len(says)
    for index, (line, entry, case, word) in enumerate(
        zip(lines, entries, cases, says, strict=True)
    ):
        assert differences({"reject": case["expect"]["reject"]}, entry) == []
        assert f"cases[{index}]: " in line and word in line
        assert word in entry["error"] and "accepted" in entry["error"]
    expect = CASES[WORKED]["expect"]
    assert differences(expect, json.loads((tmp_path / good.name).read_text())) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"speed": 2}}, "unknown key 'speed'"),
        ({"config": {"gpus": []}}, "accepted: for each of 1 to"),
        ({"config": {"h_r": 0}}, "overload_threshold is 0; accepted"),
        ({"config": {"gamma": 108}}, "children_share is 108; accepted"),
        ({"policy": "sjf"}, "policy is 'sjf'; accepted: mlf_h, mlfs, fair"),
        ({"policy": None}, "'actions' must be a list"),
        ({"policy": None, "actions": [0.5]}, "entry 0 must be a whole number"),
        ({"actions": [0]}, "not both"),
        ({"jobs": []}, "no jobs"),
        ({"jobs": 3}, "'jobs' must be a list"),
        ({BY_POLICY: ["fair"]}, "'expect_by_policy' must be an object"),
        ({BY_SWITCH: {"speed": {}}}, "unknown key 'speed'"),
    ],
    ids=str,
)
def test_bad_cases(change, message):
    case = {"policy": "mlf_h", "jobs": CASES["01_one_task"]["jobs"]} | change
    case = {key: value for key, value in case.items() if value is not None}
    with pytest.raises(JaxschedError) as refusal:
        simulate(case)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
