"""Servers with limits of CPUs and memory: replays equal a plain event loop; refusals."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import POLICIES, Cluster, Policy, from_trace, replay, replay_batch
from jaxsched.trace_replay.demands import capped
from jaxsched.trace_replay.gavel import replay_in_rounds
from jaxsched.trace_replay.outages import Outages
from jaxsched.traces.trace import Trace
from tests.trace_replay.cases import found
from tests.trace_replay.demand_oracle import DemandLoop
from tests.trace_replay.test_gpu_types import TABLES, job_rows

CLUSTERS = {
    "sizes": Cluster.of("3x2:4/8/20,2x4/16/30,1x3"),
    "types": Cluster.of("2x4/16/30@v100,1x4/12@p100,3x2:4/0/9@k80"),
    "alike": Cluster.of("4x4/10"),
}


def with_demands(table, seed, cluster):
    """Most jobs ask for a little, some for all that a server has, some for nothing."""
    rng = np.random.default_rng([seed, 4])
    gpus = np.minimum(np.asarray(table["num_gpus"]), cluster.largest_job("strict"))
    count = len(gpus)
    cpus = rng.choice([0, 1, 2, 3, 4, 9], count) * gpus - rng.integers(0, 2, count)
    memory = rng.choice([0, 1, 4, 7], count) * gpus + rng.integers(0, 3, count)
    table = table | {"num_gpus": gpus, "cpus": np.maximum(cpus, 0), "memory_gb": memory}
    return dict(capped(JobTable(table), cluster)[0].columns)


def plain(table, cluster, policy):
    jobs = job_rows(table, cluster)
    for row, job in enumerate(jobs):
        totals = [int(table[name][row]) for name in ("cpus", "memory_gb")]
        job["demand"] = [-(-total // job["gpus"]) for total in totals]
        job["speeds"] = job["speeds"] if cluster.gpu_types else {"": 1000}
    return np.array(DemandLoop(jobs, [tuple(kind) for kind in cluster.kinds], policy).run()).T


RULES = [
    Policy("fifo", "block"),
    Policy("sjf", "skip", "load_balance"),
    Policy("sjf", "easy"),
    Policy("fifo", "easy", "first_fit", run_times="estimates"),
    Policy("drf", "skip"),
    Policy("tetris", "skip"),
    Policy("slowdown", "skip", type_choice="fastest"),
    Policy("lpf", "commit"),
]


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("policy", RULES, ids=lambda p: f"{p.order}-{p.mode}")
def test_random_instances(policy, name):
    cluster = CLUSTERS[name]
    if policy.order in ("lpf", "slowdown") and not cluster.gpu_types:
        policy = Policy("lrf", policy.mode)
    tables = [with_demands(table, seed, cluster) for seed, table in enumerate(TABLES)]
    free = Cluster(cluster.num_servers, cluster.gpus_per_server,
                   tuple(kind._replace(cpus=0, memory_gb=0) for kind in cluster.kinds))  # fmt: skip
    played, usual = (replay_batch(tables, each, policy) for each in (cluster, free))
    differ = 0
    for table, records, without in zip(tables, played, usual, strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy))
        differ += not np.array_equal(records.start, without.start)
    assert differ > 12


def test_by_hand():
    """Four free GPUs but six CPUs: the second job waits, the third, which needs none, does not."""
    jobs = {"submit_time": [0, 0, 0], "num_gpus": [4, 2, 2], "duration": [10, 10, 10],
            "cpus": [10, 7, 0]}  # fmt: skip
    records = replay(jobs, Cluster.of("1x8/16"), POLICIES["fifo-skip"])
    assert records.start.tolist() == [0, 10, 0]  # ceil(10 / 4) * 4 = 12 of 16 are taken


def test_limits_that_nobody_meets_change_nothing():
    wide, without = Cluster.of("3x2:4/999/999,2x4/999/999"), Cluster.of("3x2:4,2x4")
    for name in ("fifo-easy", "drf", "tetris"):
        for seed, table in enumerate(TABLES[:6]):
            own = with_demands(table, seed, wide)
            one, other = (replay(own, each, POLICIES[name]) for each in (wide, without))
            np.testing.assert_array_equal(found(one), found(other))


def test_failures_on_servers_with_limits():
    """CPUs of a job that a failure stops are free again."""
    jobs = {"submit_time": [0, 0], "num_gpus": [2, 2], "duration": [100, 10], "cpus": [8, 8]}
    fails = Outages([0], [5], [7], [0])
    records = replay(jobs, Cluster.of("1x4/8"), POLICIES["fifo"], outages=fails)
    assert records.start.tolist() == [0, 107] and records.end.tolist() == [107, 117]


def test_columns_of_logs():
    columns = {"submit_time": [0.0, 1], "num_gpus": [1.0, 2], "duration": [5.0, 5]}
    columns |= {"cpus": [3.5, 8], "memory_gb": [10, np.nan]}
    trace = Trace({name: np.array(values, float) for name, values in columns.items()})
    table = from_trace(trace)
    assert table["cpus"].tolist() == [4, 8] and "memory_gb" not in table.columns
    cut, count = capped(table, Cluster.of("2x1/2,1x2/5"))
    assert count == 1 and cut["cpus"].tolist() == [4, 4]  # 8 of 5 CPUs on two GPUs


ONE = {"submit_time": [0], "num_gpus": [2], "duration": [3]}


@pytest.mark.parametrize(
    ("jobs", "policy", "match"),
    [
        (ONE, "fifo", "has no column 'cpus', of which servers have a limit; accepted: a table"),
        (ONE | {"cpus": [-1]}, "fifo", "cpus is -1; accepted: a whole number from 0"),
        (ONE | {"cpus": [9]}, "fifo", "job 0: 2 GPUs with 9 cpus fit on no servers of 2x4/8"),
        (ONE | {"cpus": [4]}, "fifo-any", "limits of CPUs and memory with locality any"),
        (ONE | {"cpus": [4]}, "srtf", "order srtf suspends jobs, which limits of CPUs"),
    ],
)
def test_what_is_refused_in_one_line(jobs, policy, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        replay(jobs, Cluster.of("2x4/8"), POLICIES[policy])
    assert len(str(caught.value).splitlines()) == 1


def test_rounds_refuse_limits():
    with pytest.raises(JaxschedError, match="gavel: servers with limits of CPUs and memory"):
        replay_in_rounds(ONE | {"cpus": [1]}, Cluster.of("2x4/8"), "max-min")
