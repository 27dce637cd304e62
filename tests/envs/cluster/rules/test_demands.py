"""Servers with limits of CPUs and memory in the environment, against a plain event loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxsched
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.runs.saved_policies import smallest_params
from jaxsched.trace_replay import Policy, from_trace
from jaxsched.traces.formats import load
from tests.envs.cluster.rules.test_gpu_types import play
from tests.trace_replay.test_demands import CLUSTERS, plain, with_demands
from tests.trace_replay.test_gpu_types import TABLES

ORDERS = {"fifo": ("fifo", "block"), "sjf": ("sjf", "skip")}
COLUMNS = ("start", "finish", "num_servers", "first_server")


@pytest.mark.parametrize("name", ["sizes", "types"])
@pytest.mark.parametrize("commits", [False, True])
def test_rules_are_those_of_a_plain_event_loop(name, commits):
    cluster = CLUSTERS[name]
    tables = [with_demands(table, seed, cluster) for seed, table in enumerate(TABLES[:6])]
    env = ClusterJobs(window=20, servers=str(cluster.servers), commits=commits)
    orders = {"sjf": ORDERS["sjf"]} if commits else ORDERS
    _, played = play(env, orders, tables)
    differ = 0
    for rule, outcome in played.items():
        order, mode = orders[rule]
        policy = Policy(order, "commit" if commits else mode)
        for episode, table in enumerate(tables):
            mine = np.array([outcome.records[column][episode] for column in COLUMNS])
            np.testing.assert_array_equal(mine, plain(table, cluster, policy))
            free = {**table, "cpus": 0 * table["cpus"], "memory_gb": 0 * table["memory_gb"]}
            differ += not np.array_equal(mine, plain(free, cluster, policy))
    assert differ > len(played)


def test_a_drawn_future_keeps_what_jobs_need():
    cluster = CLUSTERS["sizes"]
    env = ClusterJobs(window=20, servers=str(cluster.servers))
    params = env.params([with_demands(TABLES[0], 0, cluster)])
    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    _, drawn = env.resample_future(jax.random.key(1), state, params)
    before, after = (
        {
            (int(gpus), *need)
            for gpus, need in zip(jobs.num_gpus[0], jobs.demand[0].tolist(), strict=True)
        }
        for jobs in (params.jobs, drawn.jobs)
    )
    assert after <= before
    assert not np.array_equal(params.jobs.demand, drawn.jobs.demand)


@pytest.mark.parametrize("servers", ["2x4/8/20", "1x8@a,1x8@b", "2x4/9@a"])
def test_the_smallest_job_runs_on_any_servers(servers):
    """Saved policies are read with it."""
    env = ClusterJobs(servers=servers, window=4)
    assert smallest_params(SYSTEM, env).jobs.num_jobs.tolist() == [1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"suspends": True}, "suspends with limits of CPUs and memory; accepted: jobs that run"),
        ({"locality": "any"}, "locality any with limits of CPUs and memory; accepted: jobs that"),
    ],
)
def test_what_is_refused_in_one_line(options, match):
    with pytest.raises(JaxschedError, match=match):
        ClusterJobs(servers="2x4/8/20", **options)


def test_jobs_of_a_log_that_no_server_holds_are_capped(tmp_path):
    rows = ("submit_time,num_gpus,duration,cpus,memory_gb", "0,1,60,90,4", "5,2,60,8,8")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    log = load(tmp_path / "log.csv")
    env, params = jaxsched.make("cluster", trace=log, num_traces=4, num_jobs=3, servers="2x4/32/64")
    assert params.jobs.demand[..., 0].max() == 32_000  # a server's, for the job of 90
    table = env.fitted(from_trace(log))
    assert table["cpus"].tolist() == [32, 8]
    assert table.notes[-1] == "jobs capped at the cpus and memory_gb of servers"
    assert ClusterJobs(num_servers=2).fitted(table) is table
