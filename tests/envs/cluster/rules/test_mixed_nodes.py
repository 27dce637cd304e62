"""Servers of different sizes and choices that commit, against the replay engine."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import one_of
from jaxsched.core.recorder import job_recorder
from jaxsched.core.trajectory import record_trajectory
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import COMMITTED_RULES, RULES, SUSPENDING_RULES, rule
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import Cluster, Policy, replay_batch
from tests.trace_replay.cases import expected, jobs_of, random_columns, with_estimates
from tests.trace_replay.committed import committed_starts

SERVERS = "3x2:4,2x4,1x3"
CLUSTER = Cluster.of(SERVERS)
LENGTHS = (30, 30, 17, 30, 30, 5)
TABLES = [
    with_estimates(random_columns(seed, n, CLUSTER.largest_job("strict")), seed)
    for seed, n in enumerate(LENGTHS)
]
COLUMNS = ("start", "finish", "num_servers", "first_server")


def played(env, rules):
    """Records of each rule and table, by name; one program."""
    params, episodes = env.params(TABLES), jnp.arange(len(TABLES))
    policy = one_of(tuple(rule(env, *options) for options in rules.values()))
    found = {}
    for number, name in enumerate(rules):
        outcome = run_episodes(
            env, policy, job_recorder(env), params, episodes, jax.random.key(0), jnp.int32(number)
        )
        assert outcome.finished.all()
        found[name] = jax.device_get(outcome)
    return found


def of_table(outcome, episode, columns=COLUMNS):
    count = LENGTHS[episode]
    return np.array([outcome.records[name][episode][:count] for name in columns])


def test_choices_that_commit():
    """Rules give the engine's schedules and those of a plain event loop, and returns are JCTs."""
    env = ClusterJobs(window=30, servers=SERVERS, commits=True, placement="first_fit")
    orders = {name: RULES[name] for name in ("fifo", "sjf", "lrf", "spf")} | dict(COMMITTED_RULES)
    for name, outcome in played(env, orders).items():
        order = orders[name][0]
        policy = Policy(order, "commit", "first_fit")
        for episode, records in enumerate(replay_batch(TABLES, CLUSTER, policy)):
            mine = of_table(outcome, episode)
            theirs = (records.start, records.end, records.num_servers, records.first_server)
            np.testing.assert_array_equal(mine, theirs)
            jobs = [job[:3] for job in jobs_of(TABLES[episode])]
            plain = committed_starts(jobs, [kind[:3] for kind in CLUSTER.kinds], order, "first_fit")
            np.testing.assert_array_equal(mine[[0, 3]].T, plain)
            assert outcome.episode_return[episode] == pytest.approx(
                -records.jct.mean() / SCALE_S, rel=1e-4
            )


@pytest.mark.parametrize(
    ("suspends", "locality"), [(False, "strict"), (False, "any"), (True, "strict")]
)
def test_rules_are_those_of_a_plain_event_loop(suspends, locality):
    env = ClusterJobs(window=30, servers=SERVERS, suspends=suspends, locality=locality)
    rules = dict(SUSPENDING_RULES) if suspends else {k: RULES[k] for k in ("fifo", "sjf", "qssf")}
    columns = (*COLUMNS, "preemptions") if suspends else COLUMNS
    for name, outcome in played(env, rules).items():
        policy = Policy(*rules[name], locality=locality)
        if name == "las":
            policy = Policy(*rules[name], locality=locality, thresholds=(60, 600, 6000))
        for episode, table in enumerate(TABLES):
            theirs = expected(table, CLUSTER, policy)[: len(columns)]
            np.testing.assert_array_equal(of_table(outcome, episode, columns), theirs)


def test_run_times_are_seen_where_asked_for():
    blind = ClusterJobs(window=4, servers=SERVERS, commits=True)
    env = replace(blind, sees_run_times=True)
    params = env.params(TABLES[:1])
    names = env.observation_spec(params).names
    hidden = blind.observation_spec(params).names
    assert len(names) == len(hidden) + 4 * 5
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    seen = dict(zip(names, np.asarray(timestep.observation).tolist(), strict=True))
    job = int(state.window[0])
    run, gpus = TABLES[0]["duration"][job], TABLES[0]["num_gpus"][job]
    assert seen["position0.run_time"] == pytest.approx(np.log2(1 + run) / 16, rel=1e-5)
    assert seen["position0.f1_size"] == pytest.approx(np.log10(run) * gpus / 100, rel=1e-5)
    assert seen["position0.f1_age"] == 0.0


def test_recordings_show_when_and_where_jobs_ran():
    """Under choices that commit a job starts later than it was chosen; servers have own sizes."""
    env = ClusterJobs(window=30, servers=SERVERS, commits=True, may_wait=False)
    params, how = env.params(TABLES[:1]), SYSTEM.log.recording(env)
    played = record_trajectory(
        env, rule(env, "sjf"), how.recorder, params, how.moment, clock=how.clock
    )
    shown = how.schedule(env, params, 0, played)
    assert [band.rows for band in shown.bands] == [2, 2, 2, 4, 4, 3]
    pieces = shown.pieces
    held = np.bincount(pieces.job, pieces.rows * (pieces.end - pieces.start), minlength=30)
    np.testing.assert_array_equal(held, TABLES[0]["num_gpus"] * TABLES[0]["duration"])
    first = [pieces.start[pieces.job == job].min() for job in range(30)]
    np.testing.assert_array_equal(first, np.asarray(played.records["start"])[:30])


def test_options_of_a_cluster():
    assert ClusterJobs.of_servers(*CLUSTER.servers) == {"servers": SERVERS}
    assert ClusterJobs.of_servers(5, 8) == {"num_servers": 5, "gpus_per_server": 8, "servers": ""}
    env = ClusterJobs(servers=SERVERS)
    assert env.server_gpus() == (2, 2, 2, 4, 4, 3) and env.cluster.num_gpus == 17
    assert env.facts()["cluster"] == "3x2:4,2x4,1x3 GPUs"
    with pytest.raises(JaxschedError, match="suspends with commits; accepted: one or the other"):
        ClusterJobs(suspends=True, commits=True)
    with pytest.raises(JaxschedError, match="servers is '3x'; accepted: servers x GPUs of each"):
        ClusterJobs(servers="3x")
    with pytest.raises(JaxschedError, match="f1.*accepted: env.commits=true, or another order"):
        rule(env, "f1", "block")
