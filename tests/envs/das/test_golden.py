"""Golden cases of DAS: fixed job tables with the results of an independent simulator."""

import copy
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.cli.simulate import in_layout
from jaxsched.envs.das import DAS, cases
from jaxsched.envs.das.cases import simulate
from jaxsched.errors import JaxschedError
from jaxsched.traces.registry import das_stream
from tests.golden_check import differences, golden_files, load

pytestmark = pytest.mark.optimised

FILES = golden_files("das")
KIND = {path: load(path)["kind"] for path in FILES}
PLAYED = [path for path in FILES if KIND[path] in ("episode", "surrogate")]
REFUSED = [path for path in FILES if KIND[path] == "load_error"]
(SEGMENTS,) = (path for path in FILES if KIND[path] == "table_results")
SEGMENT = 1  # the shortest


def name_of(path):
    return path.stem


@cache
def result(path):
    return simulate(load(path))


def test_every_kind_is_there():
    assert len(PLAYED) == 14
    assert len(REFUSED) == 1


@pytest.mark.parametrize("path", PLAYED, ids=name_of)
def test_case(path):
    expect = load(path)["expect"]
    assert differences(expect, in_layout(result(path), expect)) == []


@pytest.mark.parametrize("path", REFUSED, ids=name_of)
def test_table_is_refused(path):
    with pytest.raises(JaxschedError, match="job 1") as refusal:
        simulate(load(path))
    assert "accepted" in str(refusal.value)


def test_the_check_notices():
    path = next(path for path in PLAYED if path.stem == "hand_two_machines")
    expect = load(path)["expect"]
    changes = (("metrics", "avg_fee"), 0.171), (("jobs", 1, "machines", 0, 1), 3)
    for (*parents, last), value in changes:
        got = copy.deepcopy(result(path))
        place = got
        for key in parents:
            place = place[key]
        place[last] = value
        assert differences(expect, got)


@pytest.mark.parametrize("cluster", cases.CLUSTERS)
def test_reference_heuristics(cluster):
    """One 1000-job test episode of the standard workload per cluster, two rules."""
    case = load(SEGMENTS)
    start = case["segment_starts"][SEGMENT]
    env = DAS(num_servers=cases.CLUSTERS[cluster])
    params = env.params([das_stream()], starts=[start], episode_jobs=case["segment_length"])
    rules = ("fifo_loadbalance", "tetris") if cluster == "small" else ("drf_firstfit",)
    for rule in rules:
        found = cases.play_heuristic(env, rule, params)
        for key, values in case["expect"][f"{cluster}/{rule}"].items():
            np.testing.assert_allclose(found[key], [values[SEGMENT]], rtol=1e-5, err_msg=key)


def test_hash_values():
    """Against the formula in plain integers."""
    for a, b, c in [(0, 0, 0), (1000003, 31, 8), (2**31 + 5, 7, 1)]:
        mixed = (a * 73856093 % 2**32) ^ (b * 19349663 % 2**32) ^ (c * 83492791 % 2**32)
        assert cases.hash_values(a, b, c) == (mixed >> 8) % 1000


JOB = {
    "submit_time": 0, "num_instances": 1, "gpus_per_instance": 1, "cpus_per_instance": 0,
    "mem_per_instance": 0, "duration": 5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"speed": 2}}, "unknown key 'speed'"),
        ({"config": {"num_servers": 0}}, "num_servers is 0; accepted: a whole number from 1"),
        ({"config": {"on_no_fit": "wait"}}, "on_no_fit is 'wait'; accepted: skip or block"),
        ({"config": {"mem_per_server": 16384, "cpus_per_server": 4096}}, "accepted: at most 32"),
        ({"config": {"net_pct": 100, "gpus_per_server": 64}}, "contention reaches"),
        ({"config": {"price": -1}}, "price is -1; accepted: a number from 0 on"),
        ({"config": {"fee_ref": 0}}, "fee_ref is 0; accepted: a number above 0"),
        ({"jobs": []}, "no jobs"),
        ({"jobs": [{**JOB, "submit_time": 5}, JOB]}, "job 1: submit_time is 0"),
        ({"jobs": [JOB, {**JOB, "duration": 0}]}, "job 1: duration is 0"),
        ({"jobs": [JOB, {**JOB, "duration": 2**24}]}, "job 1: duration is 16777216"),
        ({"jobs": [JOB, {**JOB, "gpus_per_instance": 9}]}, "job 1: 1 instances of (9, 0, 0)"),
        ({"jobs": [{**JOB, "duration": 2**24 - 1}] * 99}, "episode 0 could last until"),
        ({"policy": "sjf"}, "unknown policy 'sjf'; known are"),
        ({"policy": "lazy"}, "accepted: lazy=True"),
        ({"policy": None}, "one of both"),
        ({"policy": None, "actions": 3}, "'actions' must be a list"),
        ({"policy": None, "actions": {"hash_salt": -1}}, "hash_salt is -1"),
        ({"policy": None, "actions": [{"priority": [1], "affinity": [[1]]}]}, "actions[0]"),
        ({"kind": "dream"}, "kind is 'dream'; accepted: episode"),
        ({"kind": "surrogate", "steps": -1}, "steps is -1"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_cases(change, message):
    case = {"system": "das", "jobs": [JOB], "policy": "fifo_firstfit"} | change
    case = {key: value for key, value in case.items() if value is not None}
    with pytest.raises(JaxschedError) as refusal:
        simulate(case)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_episodes_are_cut_and_shifted():
    """A cut episode plays as the table of its rows does."""
    env = DAS(num_servers=8, window=8)
    table = das_stream().take(slice(100, 160))
    cut = env.params([table], starts=[0, 17, 30], episode_jobs=30)
    whole = env.params([table.take(slice(17, 47))])
    assert (env.num_episodes(cut), env.max_jobs(cut)) == (3, 30)
    found, expected = (cases.play_heuristic(env, "tetris", params) for params in (cut, whole))
    for key, values in expected.items():
        assert found[key][1] == values[0]
    for options, message in (
        ({"starts": [0]}, "go together"),
        (
            {"starts": [31], "episode_jobs": 30},
            "episode 0 starts at row 31; accepted: from 0 to 30",
        ),
        ({"starts": [0], "episode_jobs": 61}, "episode_jobs is 61"),
        ({"starts": [0.5], "episode_jobs": 3}, "whole numbers"),
    ):
        with pytest.raises(JaxschedError, match=message):
            env.params([table], **options)


def test_lazy_is_free_of_contention():
    """One job at a time: the least fee, at full speed."""
    table = das_stream().take(slice(300, 330))
    env, lazy = DAS(window=8), DAS(window=8, lazy=True)
    eager = cases.play_heuristic(env, "eager", env.params([table]))
    found = cases.play_heuristic(lazy, "lazy", lazy.params([table]))
    assert found["avg_inflation"] == 1.0
    assert found["finished"] == eager["finished"] == found["steps"] == 30
    assert found["avg_fee"] < eager["avg_fee"]
    assert found["avg_jct"] > eager["avg_jct"]


def test_a_drawn_episode_is_any_of_them():
    env = DAS(window=4)
    params = env.params([das_stream().take(slice(0, 9))], starts=[0, 2, 6], episode_jobs=3)
    drawn = jax.jit(jax.vmap(lambda key: env.reset(key, params)[0].episode))(
        jax.random.split(jax.random.key(0), 64)
    )
    assert set(np.asarray(drawn).tolist()) == {0, 1, 2}
    assert jnp.all(drawn == drawn.astype(int))
