"""Servers that fail, are drained or reserved in the environment, against a plain event loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import one_of
from jaxsched.core.trajectory import record_trajectory
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import rule
from jaxsched.envs.cluster.show.log import recorder, recording, summarise
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.runs.saved_policies import smallest_params
from jaxsched.trace_replay import Policy, replay_batch
from jaxsched.trace_replay.outages import Outages
from jaxsched.trace_replay.records import summary
from tests.trace_replay import test_outages as failing
from tests.trace_replay import test_reservations as reserved
from tests.trace_replay import test_shares as shared

ORDERS = {"fifo": ("fifo", "block"), "sjf": ("sjf", "skip")}
SKIPPING = {"fifo": ORDERS["fifo"], "skip": ("fifo", "skip")}
COSTS = ({}, {"checkpoint_s": 4, "restart_s": 3})
COLUMNS = ("start", "finish", "num_servers", "first_server")


def play(env, tables, outages, orders=ORDERS):
    """Parameters, and records of each order and table, by name; one program."""
    params, episodes = env.params(tables, outages=outages), jnp.arange(len(tables))
    policy = one_of(tuple(rule(env, *options) for options in orders.values()))
    found = {}
    for number, name in enumerate(orders):
        outcome = run_episodes(
            env, policy, recorder(env), params, episodes, jax.random.key(0), jnp.int32(number)
        )
        assert outcome.finished.all()
        found[name] = jax.device_get(outcome)
    return params, found


def assert_engine(env, tables, outages, oracle, orders=ORDERS, **options):
    """Play the orders, compare job by job and metric by metric; how often jobs were stopped."""
    params, played = play(env, tables, outages, orders)
    stopped = 0
    for name, outcome in played.items():
        policy = Policy(*orders[name], **options)
        said = summarise(env, params, np.arange(len(tables)), outcome.records)
        replayed = replay_batch(tables, env.cluster, policy, outages=outages)
        for episode, records in enumerate(replayed):
            mine = np.array([outcome.records[column][episode] for column in COLUMNS])
            expected = oracle(tables[episode], env.cluster, policy, outages[episode])
            np.testing.assert_array_equal(mine, expected[:4])
            count = len(records.end)
            for column, values in (("preemptions", records.preemptions), ("held", records.held)):
                np.testing.assert_array_equal(outcome.records[column][episode][:count], values)
            assert outcome.episode_return[episode] == pytest.approx(
                -records.jct.mean() / SCALE_S, rel=1e-4
            )
            for figure, value in summary(records, env.cluster).items():
                assert said[figure][episode] == pytest.approx(value, rel=1e-6)
            stopped += records.preemptions.sum()
    return stopped


def some(outages_of, cluster, count):
    return [outages_of(k, cluster.num_servers, **COSTS[k % 2]) for k in range(count)]


@pytest.mark.parametrize("types", [False, True], ids=["alike", "types"])
@pytest.mark.parametrize("window", [4, 20])
def test_failures_are_those_of_a_plain_event_loop(types, window):
    """Under ``fifo`` with mode ``block`` a small window is as good: the oldest job is in it."""
    cluster = failing.CLUSTER if types else failing.ALIKE
    tables = (failing.TABLES if types else failing.NARROW)[:8]
    env = ClusterJobs(window=window, servers=str(cluster.servers))
    orders = ORDERS if window > 4 else {"fifo": ORDERS["fifo"]}
    outages = some(failing.random_outages, cluster, len(tables))
    assert assert_engine(env, tables, outages, lambda *case: failing.plain(*case)[0], orders) >= 5


@pytest.mark.parametrize("run_times", ["true", "estimates"])
@pytest.mark.parametrize("name", sorted(reserved.CASES))
def test_reservations_are_those_of_a_plain_event_loop(name, run_times):
    cluster, tables = reserved.tables_of(name)
    env = ClusterJobs(window=20, servers=str(cluster.servers), run_times=run_times)
    outages = some(reserved.some_reserved, cluster, 8)
    assert_engine(env, tables[:8], outages, reserved.plain, SKIPPING, run_times=run_times)


@pytest.mark.parametrize("placement", ["pack", "fgd"])
def test_shares_with_reservations(placement):
    cluster = shared.CLUSTERS["cpus"]
    tables = [shared.shared_columns(seed, cluster) for seed in range(6)]
    outages = [reserved.some_reserved(k, cluster.num_servers) for k in range(len(tables))]
    env = ClusterJobs(window=24, servers=str(cluster.servers), placement=placement)
    assert_engine(env, tables, outages, shared.plain, SKIPPING, placement=placement)


def test_quotas_with_failures():
    cluster, tables = failing.ALIKE, failing.NARROW[:6]
    env = ClusterJobs(window=20, servers=str(cluster.servers), quotas="equal")
    outages = some(failing.random_outages, cluster, len(tables))
    orders = {"skip": ("fifo", "skip")}
    oracle = failing.plain
    assert_engine(env, tables, outages, lambda *case: oracle(*case)[0], orders, isolated=True)


JOBS = {"submit_time": [0, 0, 5], "num_gpus": [8, 4, 4], "duration": [100, 50, 20]}


def test_a_failure_by_hand():
    """The job on both servers is stopped at 80, when one of them fails, and starts over at 130.

    It waits at its old place, while the others start at 80 and, on the server that is back, at 90.
    """
    env = ClusterJobs(servers="2x4", window=4)
    params = env.params([JOBS], outages=[Outages([1], [80], [90], [0])])
    key, seen = jax.random.key(0), []
    state, timestep = env.reset(key, params)
    names = env.observation_spec(params).names
    for action in (0, 1, 1, 0):
        state, timestep = env.step(key, state, jnp.int32(action), params)
        free = float(timestep.observation[names.index("free")])
        mask = timestep.action_mask.astype(int).tolist()
        seen.append((int(state.time), free, state.window.tolist(), mask, float(timestep.reward)))
    assert [each[0] for each in seen] == [80, 90, 130, 230]
    assert [each[1] for each in seen] == [0.5, 0.5, 1, 1]
    assert [each[2] for each in seen] == [[0, 1, 2, 3], [0, 2, 3, 3], [0, 3, 3, 3], [3] * 4]
    assert [each[3] for each in seen[:3]] == [[0, 1, 1, 0, 1], [0, 1, 0, 0, 1], [1, 0, 0, 0, 0]]
    spent = [5 * 2 + 75 * 3, 10 * 3, 20 * 3 + 20 * 2, 100]
    np.testing.assert_allclose([each[4] for each in seen], np.array(spent) / -3 / SCALE_S)
    assert timestep.terminated
    again, timestep = env.step(key, state, jnp.int32(0), params)
    assert timestep.reward == 0
    for mine, before in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(mine, before)


def test_pictures_end_runs_where_failures_cut_them():
    cluster, tables = failing.ALIKE, failing.NARROW[:6]
    outages = some(failing.random_outages, cluster, len(tables))
    env = ClusterJobs(window=20, servers=str(cluster.servers))
    how, params = recording(env), env.params(tables, outages=outages)
    records = replay_batch(tables, cluster, Policy("sjf", "skip"), outages=outages)
    for episode, expected in enumerate(records):
        played = record_trajectory(
            env, rule(env, "sjf"), how.recorder, params, how.moment, clock=how.clock,
            episode=episode,
        )  # fmt: skip
        shown = how.schedule(env, params, episode, played).pieces
        held = np.bincount(
            shown.job, shown.rows * (shown.end - shown.start), minlength=len(expected.end)
        )
        np.testing.assert_array_equal(held, expected.held * expected.num_gpus)


def test_outages_by_options(tmp_path):
    """Those that a table is told are those that the options tell; drawn ones differ by table."""
    log, list_ = tmp_path / "failures.csv", tmp_path / "reservations.csv"
    log.write_text("server,begin,end,what\n1,80,90,fail\n")
    list_.write_text("servers,begin,end\n0-1,300,400\n")
    told = Outages([1, 0, 1], [80, 300, 300], [90, 400, 400], [0] * 3, 30, 0, [0, 1, 1])
    env = ClusterJobs(servers="3x4", failures=str(log), reservations=str(list_), checkpoint_s=30)
    one, other = env.params([JOBS]).jobs.events, env.params([JOBS], outages=[told]).jobs.events
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert "servers are reserved" in env.facts()["rules"] and "every 30 s" in env.facts()["rules"]
    assert env.knows() == "run times"
    assert ClusterJobs(reservations=str(list_), run_times="estimates").knows() == "estimates"
    drawn = ClusterJobs(servers="3x4", failures="0.01:0.01")
    assert drawn.knows() == "prediction"
    tables = [JOBS, {**JOBS, "duration": [100, 50, 21]}]
    begin = drawn.params(tables).jobs.events.begin
    assert not np.array_equal(begin[0], begin[1])
    np.testing.assert_array_equal(drawn.params(tables).jobs.events.begin, begin)


def test_saved_policies_are_read_with_reservations(tmp_path):
    path = tmp_path / "reservations.csv"
    path.write_text("servers,begin,end\n0-1,300,400\n")
    env = ClusterJobs(servers="3x4", reservations=str(path), run_times="estimates", failures="9:1")
    assert smallest_params(SYSTEM, env).jobs.expected.tolist() == [[60, 1]]


def test_nothing_is_kept_where_no_server_is_away():
    env = ClusterJobs(servers="3x4", window=4)
    params = env.params([JOBS], outages=[None])
    state, _ = env.reset(jax.random.key(0), params)
    assert params.jobs.events is None and state.failing is None and state.waiting is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"failures": "720:4", "suspends": True},
            "suspends with servers that fail or are reserved",
        ),
        ({"failures": "720:4", "commits": True}, "commits with servers that fail or are reserved"),
        ({"checkpoint_s": 5}, "checkpoint_s without failures or reservations; accepted: with one"),
    ],
)
def test_what_is_refused_in_one_line(options, match):
    with pytest.raises(JaxschedError, match=f"cluster: {match}") as caught:
        ClusterJobs(**options)
    assert len(str(caught.value).splitlines()) == 1


def test_tables_that_are_refused():
    none = Outages([1], [80], [90], [0])
    for options in ({"suspends": True}, {"commits": True}):
        with pytest.raises(JaxschedError, match="with servers that fail or are reserved; accepted"):
            ClusterJobs(**options).params([JOBS], outages=[none])
    env = ClusterJobs(servers="3x4")
    with pytest.raises(JaxschedError, match="outages of 2 job tables of 1; accepted: of each"):
        env.params([JOBS], outages=[none, none])
    with pytest.raises(JaxschedError, match="server 3 of 3; accepted: from 0 to 2"):
        env.params([JOBS], outages=[Outages([3], [80], [90], [0])])
    with pytest.raises(JaxschedError, match="has no column 'estimate', by which jobs start before"):
        ClusterJobs(servers="3x4", run_times="estimates").params(
            [JOBS], outages=[Outages([1], [80], [90], [0], reserved=[1])]
        )
    params = env.params([JOBS], outages=[none])
    state, _ = env.reset(jax.random.key(0), params)
    with pytest.raises(
        JaxschedError, match="futures with servers that fail or are reserved cannot"
    ):
        env.resample_future(jax.random.key(0), state, params)
