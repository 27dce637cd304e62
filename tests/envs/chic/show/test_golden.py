"""Golden cases of Chic: fixed workload tables with the results of an independent simulator."""

import copy
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.envs.chic import Chic
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.show import log as rec
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems import golden, registry
from tests.golden_check import differences, golden_files, load

FILES = golden_files("chic")
CASES = [path for path in FILES if "error" not in load(path)["expect"]]
REFUSED = [path for path in FILES if "error" in load(path)["expect"]]
ACTIONS = [path for path in CASES if "actions" in load(path)]


def name_of(path):
    return path.stem


def simulate(case):
    return golden.simulate(registry.get("chic"), case)


@cache
def result(path):
    return simulate(load(path))


def aligned(expect, got):
    """``got`` with the listed steps only; ``remaining`` is left out (null) in large cases."""
    expect, got = copy.deepcopy(expect), dict(got)
    if "trajectory" in expect:
        got["trajectory"] = [got["trajectory"][row["step"]] for row in expect["trajectory"]]
        for row in expect["trajectory"]:
            if row.get("remaining", 0) is None:
                del row["remaining"]
    return expect, got


def test_every_file_is_used():
    assert len(FILES) == 20
    assert len(ACTIONS) == 14
    assert len(REFUSED) == 1


@pytest.mark.parametrize("path", CASES, ids=name_of)
def test_case(path):
    case = load(path)
    expect, got = aligned(case["expect"], result(path))
    assert differences(expect, got) == []


@pytest.mark.parametrize("path", ACTIONS, ids=name_of)
def test_phases_are_those_of_the_case(path):
    """Every training phase is listed in a case, and no other step has a time after it."""
    case = load(path)
    got = result(path)["trajectory"]
    phases = [row["step"] for row in case["expect"]["trajectory"] if "time_after" in row]
    assert [row["step"] for row in got if "time_after" in row] == phases
    assert [row["step"] for row in got] == list(range(len(case["actions"])))


@pytest.mark.parametrize("path", REFUSED, ids=name_of)
def test_table_is_refused(path):
    with pytest.raises(JaxschedError, match="job 0") as refusal:
        simulate(load(path))
    assert "accepted" in str(refusal.value)


def test_the_check_notices():
    expect, result_of_it = aligned(load(CASES[0])["expect"], result(CASES[0]))
    for keys, value in [(("metrics", "avg_jct"), 2455.9), (("jobs", 0, "remaining"), 1)]:
        got = copy.deepcopy(result_of_it)
        *parents, last = keys
        place = got
        for key in parents:
            place = place[key]
        place[last] = value
        assert differences(expect, got)


# In single precision, as one compiled loop


@partial(jax.jit, static_argnames="env")
def play(env, params, actions):
    recorder = rec.recorder(env)

    def step(carry, action):
        state, seen, records = carry
        row = {"mask": seen.action_mask, "obs": seen.observation, "time": state.time}
        row["terminal"] = env.terminal(state, params)
        state, seen = env.step(jax.random.key(0), state, action, params)
        records = recorder.update(records, seen, True)
        row |= {"reward": seen.reward, "done": seen.done}
        return (state, seen, records), row

    state, seen = env.reset(jax.random.key(0), params, jnp.int32(0))
    carry = (state, seen, recorder.init(params))
    (_, _, records), rows = jax.lax.scan(step, carry, actions)
    return records, rows


@pytest.mark.parametrize(
    "name",
    ["decision_time", "invalid_actions", "random_pair", "random_window_2", "round_robin_30"],
)
def test_single_precision(name):
    case = load(next(path for path in ACTIONS if path.stem == name))
    config = dict(case["config"])
    options = {"window": config.pop("I", 3), "pair": config.pop("pair", False)}
    env = Chic(**options)
    table = from_records(case["jobs"], schema=CHIC_JOBS)
    params = env.params([table], **config)
    records, rows = play(env, params, jnp.array(case["actions"], jnp.int32))
    expected = case["expect"]["trajectory"]
    for key, rtol in {"time": 1e-6, "reward": 1e-4, "done": 0, "mask": 0, "terminal": 0}.items():
        listed = [(row["step"], row[key]) for row in expected if key in row]
        steps, values = zip(*listed, strict=True)
        got = np.asarray(rows[key])[list(steps)]
        np.testing.assert_allclose(got, np.array(values), rtol=rtol, atol=rtol and 2e-5)
    listed = [(row["step"], row["obs"]) for row in expected if "obs" in row]
    for step, values in listed:
        np.testing.assert_allclose(rows["obs"][step], values, rtol=1e-6)
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    metrics = rec.summarise(env, params, [0], batched)
    for key, value in case["expect"]["metrics"].items():
        np.testing.assert_allclose(metrics[key], value, rtol=1e-4)
    left = rec.remaining(params, 0, records.progress)
    assert left.tolist() == [job["remaining"] for job in case["expect"]["jobs"]]


def test_round_robin_chooses_what_the_case_lists():
    """The actions of this case are the rule's own."""
    case = load(next(path for path in ACTIONS if path.stem == "round_robin_30"))
    env = Chic()
    params = env.params([from_records(case["jobs"], schema=CHIC_JOBS)])
    policy = baseline("round_robin", env)
    outcome = run_episodes(
        env, policy, rec.recorder(env), params, jnp.zeros(1, jnp.int32), jax.random.key(0)
    )
    metrics = rec.summarise(env, params, [0], outcome.records)
    for key, value in case["expect"]["metrics"].items():
        np.testing.assert_allclose(metrics[key], value, rtol=1e-4)


# Cases that are refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"window": 2}}, "unknown key 'window'; known are capacity, I"),
        ({"config": []}, "'config' must be an object"),
        ({"config": {"I": 0}}, "window is 0; accepted: a whole number from 1"),
        ({"config": {"I": True}}, "window is True"),
        ({"config": {"pair": 1}}, "pair is 1; accepted: true or false"),
        ({"config": {"capacity": [1, 2]}}, "accepted: three whole numbers"),
        ({"config": {"capacity": [10, 120.5, 600]}}, "accepted: three whole numbers"),
        ({"config": {"time_unit": 0}}, "time_unit is 0; accepted: a number above 0"),
        ({"config": {"p1": -1}}, "p1 is -1; accepted: a number from 0 on"),
        ({"config": {"stall_seconds": "1"}}, "stall_seconds is '1'"),
        ({"config": {"max_time": 0.5}, "jobs": [{"submit_time": 1, "model": 0, "iterations": 1}]},
         "max_time is 0.5 s, not after the first submission"),
        ({"actions": [0.5]}, "actions: entry 0 must be a whole number"),
        ({"actions": 3}, "'actions' must be a list"),
        ({"policy": "optimus"}, "not both"),
        ({"jobs": None}, "'jobs' must be a list"),
        ({"jobs": []}, "no jobs"),
        ({"jobs": [{"submit_time": 0, "model": 0}]}, "job 0: 'iterations' is missing"),
        ({"jobs": [{"submit_time": 0, "model": 3, "iterations": 1}]}, "job 0: model is 3"),
        ({"jobs": [{"submit_time": 0, "model": 0, "iterations": 0}]}, "iterations is 0"),
        ({"jobs": [{"submit_time": 0, "model": 0, "iterations": 1.5}]}, "iterations"),
        ({"jobs": [{"submit_time": -1, "model": 0, "iterations": 1}]}, "job 0: submit_time is -1"),
        ({"actions": None, "policy": "drf"}, "policy is 'drf'; accepted: 'optimus'"),
        ({"actions": None, "policy": "optimus", "config": {"on_block": "wait"}}, "on_block is"),
        ({"actions": None, "policy": "optimus", "config": {"interval": -1}}, "interval is -1"),
        ({"actions": None, "policy": "optimus", "config": {"I": 3}}, "unknown key 'I'"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_cases(change, message):
    case = {
        "system": "chic",
        "config": {},
        "jobs": [{"submit_time": 0, "model": 0, "iterations": 5}],
        "actions": [6],
    } | change
    case = {key: value for key, value in case.items() if value is not None or key == "jobs"}
    with pytest.raises(JaxschedError, match=".") as refusal:
        simulate(case)
    text = str(refusal.value)
    assert message in text
    assert "\n" not in text


def test_tables_are_sorted_by_submission():
    """Stably: of two workloads submitted together the first in the file comes first."""
    jobs = [(50, 0), (0, 1), (50, 2), (0, 0)]
    records = [{"submit_time": t, "model": m, "iterations": 100} for t, m in jobs]
    case = {"jobs": records, "actions": [8, 8], "config": {"I": 4}}
    last = simulate(case)["trajectory"][-1]
    types = np.array(last["obs"][:-1]).reshape(4, 6)[:, :3]
    assert types.argmax(axis=1).tolist() == [1, 0, 0, 2]
    assert last["time"] == 50.0


def test_any_whole_number_is_an_action():
    """What is out of range trains."""
    jobs = [{"submit_time": 0, "model": 0, "iterations": 100}]
    got = simulate({"jobs": jobs, "actions": [7, -1, 10**30, 6], "config": {}})
    assert [row["time_after"] for row in got["trajectory"]] == [1200.0, 2400.0, 3600.0, 4800.0]
    assert [row["action"] for row in got["trajectory"]] == [7, -1, 10**30, 6]
    assert got["jobs"] == [{"start": None, "finish": None, "remaining": 100}]
    assert got["metrics"]["avg_jct"] == got["metrics"]["utilization"] == 0.0
