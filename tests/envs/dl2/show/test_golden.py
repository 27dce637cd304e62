"""Golden cases of DL2: job tables with the results of an independent simulator."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import RESOURCES
from jaxsched.envs.dl2 import DL2
from jaxsched.envs.dl2.show.log import config_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems import golden, registry
from tests.golden_check import differences, golden_files, load

FILES = golden_files("dl2")
CASES = [path for path in FILES if "error" not in load(path)["expect"]]
REJECTS = [path for path in FILES if "error" in load(path)["expect"]]
ACTIONS = [path for path in CASES if "actions" in load(path)]


def simulate(case):
    return golden.simulate(registry.get("dl2"), case)


def as_expected(got, expect):
    """The result cut down to the steps and slots that a golden file tells."""
    got = dict(got)
    if "trajectory" in expect:
        got["trajectory"] = [got["trajectory"][row["step"]] for row in expect["trajectory"]]
    if "slots" in expect:
        got["slots"] = got["slots"][: len(expect["slots"])]
    return got


def test_every_file_is_used():
    assert len(CASES) == 20
    assert len(REJECTS) == 1
    assert len(ACTIONS) == 8


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    case = load(path)
    assert differences(case["expect"], as_expected(simulate(case), case["expect"])) == []


@pytest.mark.parametrize("path", REJECTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("play", [{"policy": "fifo"}, {"actions": [0]}, {}], ids=str)
def test_table_is_refused(path, play):
    with pytest.raises(JaxschedError, match="job 0.*accepted") as refusal:
        simulate(load(path) | play)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("path", ACTIONS, ids=lambda path: path.stem)
def test_single_precision_agrees(path):
    """The environment as learners use it: float32, compiled into one scan, a batch of two."""
    case = load(path)
    options, numbers = config_of(case)
    env = DL2(**options)
    params = env.params([from_records(case["jobs"], schema=DL2_JOBS)], **numbers)
    actions = jnp.asarray(case["actions"], jnp.int32)

    def step(state, action):
        observation, mask = env.observe(state, params)
        after, timestep = env.step(jax.random.key(0), state, action, params)
        return after, (state.slot, state.batch, mask, observation, timestep)

    @jax.jit
    @jax.vmap
    def play(episode):
        state, _ = env.reset(jax.random.key(0), params, episode)
        return jax.lax.scan(step, state, actions)[1]

    rows = jax.tree.map(np.asarray, play(jnp.zeros(2, jnp.int32)))
    slot, batch, mask, observation, timestep = jax.tree.map(lambda leaf: leaf[1], rows)
    assert observation.dtype == timestep.reward.dtype == np.float32
    for row in case["expect"]["trajectory"]:
        at = row["step"]
        assert (slot[at], batch[at]) == (row["slot"], row["batch"])
        assert timestep.done[at] == row["done"]
        np.testing.assert_allclose(timestep.reward[at], row["reward"], rtol=2e-5)
        if "mask" in row:
            assert mask[at].tolist() == [bool(bit) for bit in row["mask"]]
            np.testing.assert_allclose(observation[at], row["obs"], rtol=1e-5, atol=1e-6)


def test_worked_example_by_hand():
    """One ResNet-50 job of 20 epochs on two servers (section 14)."""
    case = load(next(path for path in FILES if path.stem == "hand_one_job"))
    rows = simulate(case)["trajectory"]
    tau_2_1 = 185 / 2 + 2 + 1.8 * 2 + 1.4  # 12 s of communication are hidden
    tau_1_1 = 185 + 2 + 1.8 + 1.4
    assert rows[2]["reward"] == pytest.approx(1200 / tau_2_1 / 20, rel=1e-12)
    assert rows[4]["reward"] == pytest.approx(1200 / tau_1_1 / 20, rel=1e-12)
    share = rows[2]["obs"][3 * 8 + 2 * 3]
    assert len(RESOURCES) == 3
    assert share == max(2 / 4, 7 / 16, 25 / 96)
    assert [row["time"] for row in rows] == [0, 0, 0, 1200, 1200]
    assert [row["reward"] for row in (rows[0], rows[1], rows[3])] == [0, 0, 0]


ONE = {"jobs": [{"submit_time": 0, "model": 0, "epochs": 20.0}]}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"config": {"window": 3}, "actions": []}, "unknown key 'window'"),
        ({"config": [], "actions": []}, "must be an object"),
        ({"config": {"J": 0}, "actions": []}, "window is 0; accepted: a whole number from 1"),
        ({"config": {"J": 2.5}, "actions": []}, "window is 2.5; accepted: a whole number from 1"),
        ({"config": {"comm": "mpi"}, "actions": []}, "ps, allreduce"),
        ({"config": {"speed_mode": "slow"}, "actions": []}, "analytic, measured"),
        ({"config": {"overlap": 1.5}, "actions": []}, "overlap"),
        ({"config": {"contention": "high"}, "actions": []}, "contention must be a number"),
        ({"config": {"contention": -1.0}, "actions": []}, "contention"),
        ({"config": {"d_scale": 0}, "actions": []}, "d_scale"),
        ({"config": {"assign_bundle": 1}, "actions": []}, "assign_bundle is 1; accepted: true"),
        ({"config": {"cpus_per_server": 0, "gpus_per_server": 0, "mem_per_server": 0},
          "actions": []}, "not all 0"),
        ({"policy": "drf", "actions": []}, "not both"),
        ({"policy": "best"}, "unknown policy 'best'"),
        ({"policy": "fifo", "policy_options": {"limit": 3}}, "unknown key 'limit'"),
        ({"policy": "fifo", "policy_options": {"cap": 0}}, "cap must be a whole number"),
        ({"policy": "fifo", "policy_options": {"cap": [4]}}, "cap must be a whole number"),
        ({"policy": "optimus", "config": {"comm": "allreduce"}}, "optimus_oracle"),
        ({"actions": [0.5]}, "entry 0 must be a whole number"),
        ({"actions": 3}, "'actions' must be a list"),
        ({"jobs": [], "actions": []}, "at least one job"),
        ({"jobs": [{"submit_time": 0, "model": 8, "epochs": 1}], "actions": []}, "job 0: model"),
        ({"jobs": [{"submit_time": 0, "model": 0, "epochs": 0}], "actions": []}, "job 0: epochs"),
        ({"jobs": [{"submit_time": -1, "model": 0, "epochs": 1}], "actions": []},
         "job 0: submit_time"),
        ({"jobs": [{"submit_time": 0, "epochs": 1}], "actions": []}, "'model' is missing"),
        ({"config": {"num_servers": 1, "cpus_per_server": 4}, "actions": []},
         "one worker and one parameter server"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_cases_are_refused(case, message):
    with pytest.raises(JaxschedError, match=message) as refusal:
        simulate(ONE | case)
    assert "\n" not in str(refusal.value)


def test_the_check_notices():
    expect = load(CASES[1])["expect"]
    assert differences(expect, expect) == []
    for path, value in [
        (("slots", 2, "alloc", 0, "placement", 0), ["p", 0]),
        (("slots", 0, "alloc", 0, "workers"), 3),
        (("metrics", "avg_jct"), expect["metrics"]["avg_jct"] * 1.0001),
        (("jobs", 3, "finish"), -1.0),
    ]:
        spoilt = copy.deepcopy(expect)
        place = spoilt
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        assert differences(expect, spoilt)
