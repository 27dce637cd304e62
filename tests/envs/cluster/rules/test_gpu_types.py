"""GPUs of different types in the environment, against the replay engine and a plain event loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import one_of
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import rule
from jaxsched.envs.cluster.rules.observation import OF_TYPES
from jaxsched.envs.cluster.show.log import recorder, summarise
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions
from jaxsched.trace_replay import Cluster, Policy, replay_batch
from jaxsched.trace_replay.records import summary
from jaxsched.trace_replay.speeds import read_speeds, with_speeds
from jaxsched.trace_replay.tables import as_table
from tests.trace_replay.test_gpu_types import CLUSTER, TABLES, plain

SERVERS, COUNT = str(CLUSTER.servers), 20
SOME = TABLES[:6]
ORDERS = {"fifo": ("fifo", "block"), "sjf": ("sjf", "skip"), "slow": ("slowdown", "skip")}


def play(env, rules, tables):
    """Records of each rule and table, by name; one program."""
    params, episodes = env.params(tables), jnp.arange(len(tables))
    policy = one_of(tuple(rule(env, *options) for options in rules.values()))
    found = {}
    for number, name in enumerate(rules):
        outcome = run_episodes(
            env, policy, recorder(env), params, episodes, jax.random.key(0), jnp.int32(number)
        )
        assert outcome.finished.all()
        found[name] = jax.device_get(outcome)
    return params, found


@pytest.mark.parametrize(("choice", "least"), [("listed", 0), ("fastest", 60)])
def test_rules_are_those_of_a_plain_event_loop(choice, least):
    env = ClusterJobs(window=COUNT, servers=SERVERS, type_choice=choice, least_speed_percent=least)
    params, played = play(env, ORDERS, SOME)
    for name, outcome in played.items():
        order, mode = ORDERS[name]
        policy = Policy(order, mode, type_choice=choice, least_speed_percent=least)
        said = summarise(env, params, np.arange(len(SOME)), outcome.records)
        for episode, records in enumerate(replay_batch(SOME, CLUSTER, policy)):
            columns = ("start", "finish", "num_servers", "first_server")
            mine = np.array([outcome.records[column][episode] for column in columns])
            np.testing.assert_array_equal(mine, plain(SOME[episode], CLUSTER, policy))
            assert outcome.episode_return[episode] == pytest.approx(
                -records.jct.mean() / SCALE_S, rel=1e-4
            )
            for figure, value in summary(records, CLUSTER).items():
                assert said[figure][episode] == pytest.approx(value, rel=1e-6)


def test_choices_that_commit():
    env = ClusterJobs(window=COUNT, servers=SERVERS, commits=True, type_choice="fastest")
    _, played = play(env, {"sjf": ("sjf", "skip")}, SOME)
    policy = Policy("sjf", "commit", type_choice="fastest")
    for episode, table in enumerate(SOME):
        columns = ("start", "finish", "num_servers", "first_server")
        mine = [played["sjf"].records[column][episode] for column in columns]
        np.testing.assert_array_equal(mine, plain(table, CLUSTER, policy))


def test_positions_say_how_fast_their_jobs_would_run():
    jobs = {"submit_time": [0, 0, 0], "num_gpus": [4, 4, 4], "duration": [9, 9, 9],
            "speed_v100": [1000, 2000, 0], "speed_k80": [500, 100, 0],
            "speed_a100": [0, 0, 3000]}  # fmt: skip
    env = ClusterJobs(window=4, servers="1x4@v100,2x4@k80,1x4@a100", type_choice="fastest")
    params = env.params([jobs])
    state, _ = env.reset(jax.random.key(0), params)
    names = env.observation_spec(params).names

    def seen(state):
        values = np.asarray(env.observe(state, params)[0])
        return [[float(values[names.index(f"position{q}.{name}")]) for name in OF_TYPES]
                for q in range(4)]  # fmt: skip

    def logarithm(value):
        return np.log2(1 + value) / 16

    np.testing.assert_allclose(
        seen(state), [[logarithm(1), 1], [logarithm(2), 1], [logarithm(3), 1], [0, 0]], rtol=1e-6
    )
    after, _ = env.step(jax.random.key(0), state, jnp.int32(0), params)
    np.testing.assert_allclose(
        seen(after), [[logarithm(0.1), 0.05], [logarithm(3), 1], [0, 0], [0, 0]], rtol=1e-6
    )
    assert len(names) == len(ClusterJobs(window=4).observation_spec(params).names) + 8


def test_futures_keep_what_has_run():
    """A running job's end moves with its redrawn work at its speed; the past stays."""
    jobs = {"submit_time": [0] * 8, "num_gpus": [4] * 8, "duration": list(range(10, 90, 10)),
            "speed_v100": [1000] * 8, "speed_k80": [300] * 8}  # fmt: skip
    env = ClusterJobs(window=8, servers="1x4@v100,1x4@k80")
    params = env.params([jobs])
    state, _ = env.reset(jax.random.key(0), params)
    for _ in range(3):  # the second runs from 0 to 67, the others have ended
        state, _ = env.step(jax.random.key(0), state, jnp.int32(0), params)
    ends = set()
    for seed in range(8):
        after, redrawn = env.resample_future(jax.random.key(seed), state, params)
        duration = np.asarray(redrawn.jobs.duration[0])
        ended, runs = (int(after.free_from[0][np.asarray(after.job[0]) == j][0]) for j in (2, 1))
        assert ended == 40 == int(state.time)
        assert runs == -(-1000 * int(duration[1]) // 300) > 40
        ends.add(runs)
        assert int(after.time) == int(state.time)
    assert len(ends) > 2


def test_speeds_by_types_of_jobs():
    """Speeds of Gavel's measurements are those that a table is given by hand."""
    bare = {name: SOME[0][name] for name in ("submit_time", "num_gpus", "duration")}
    cluster = Cluster.of("2x8@v100,2x8@k80")
    own = with_speeds(as_table(bare, Cluster(2, 8)), read_speeds("gavel"), ("v100", "k80"))
    env = ClusterJobs(servers=str(cluster.servers), speeds="gavel")
    for one, other in zip(env.params([bare]).jobs.typed, env.params([own]).jobs.typed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"servers": "1x2@a", "suspends": True}, "suspends with GPUs of different types"),
        ({"servers": "1x2@a", "locality": "any"}, "locality any with GPUs of different types"),
        ({"speeds": "gavel"}, "speeds with GPUs that have no types; accepted: servers such as"),
        ({"least_speed_percent": 101}, "least_speed_percent is 101"),
        ({"servers": "1x2@a,1x2"}, "a type for some GPUs only"),
    ],
)
def test_what_is_refused_in_one_line(options, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        ClusterJobs(**options)
    assert len(str(caught.value).splitlines()) == 1


def test_tables_and_rules_that_are_refused():
    env = ClusterJobs(servers="1x8@a,1x8@b", speeds="gavel")
    with pytest.raises(JaxschedError, match="gavel has no GPUs of type 'a'; accepted: v100, p100"):
        env.params([SOME[0]])
    with pytest.raises(JaxschedError, match="order is 'slowdown', which goes with GPUs of diff"):
        rule(ClusterJobs(), "slowdown")
    assert "least-slowdown" in functions.usual_policies(SYSTEM, env)
    assert "least-slowdown" not in functions.usual_policies(SYSTEM)
