"""Replays equal a plain event loop, job by job, under every rule."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import (
    LEARNING,
    LOCALITIES,
    MODES,
    ORDERS,
    PLACEMENTS,
    PREEMPTIVE,
)
from jaxsched.traces import registry
from tests.trace_replay.cases import NAMES, expected, found, random_columns
from tests.trace_replay.oracle import Simulation

CLUSTER = Cluster(3, 4)
TABLES = [random_columns(seed, 20, CLUSTER.num_gpus) for seed in range(24)]
RULES = [
    (order, mode, locality)
    for order in ORDERS
    for mode in MODES
    for locality in LOCALITIES
    if not (order in (*PREEMPTIVE, *LEARNING) and mode == "easy")
    and "learned" not in order
    and (order != "tetris" or (mode, locality) == ("skip", "strict"))
    and mode != "commit"
    and order not in ("fairness", "group-fairness", "edf", "priority", "spot")
    and order not in ("lifo", "sjf-narrow", "lpf", "f1")  # test_mixed_nodes
    and order != "slowdown"  # test_gpu_types
]


@pytest.mark.parametrize(("order", "mode", "locality"), RULES)
def test_random_instances(order, mode, locality):
    suspensions = 0
    for placement in PLACEMENTS:
        policy = Policy(order, mode, placement, locality, thresholds=(5, 20, 21))
        if placement == "first_fit":
            policy = replace(policy, restart_s=2)
        for table, records in zip(TABLES, replay_batch(TABLES, CLUSTER, policy), strict=True):
            np.testing.assert_array_equal(found(records), expected(table, CLUSTER, policy))
            suspensions += records.preemptions.sum()
    assert (suspensions > 0) == (order in PREEMPTIVE)


@pytest.mark.parametrize("shape", [(1, 1), (1, 70), (7, 1), (5, 2)])
def test_other_clusters(shape):
    cluster = Cluster(*shape)
    tables = [random_columns(seed, 20, cluster.num_gpus) for seed in range(20)]
    for name in ("fifo-easy", "srtf"):
        for table in tables:
            table["num_gpus"] = np.minimum(table["num_gpus"], cluster.num_gpus)
        for table, records in zip(
            tables, replay_batch(tables, cluster, POLICIES[name]), strict=True
        ):
            np.testing.assert_array_equal(found(records), expected(table, cluster, POLICIES[name]))


@pytest.mark.parametrize("locality", LOCALITIES)
def test_no_head_starts_after_its_promise(locality):
    """What EASY promises the first job in line holds, whoever starts before it."""
    policy, promised, backfilled = Policy("fifo", "easy", locality=locality), 0, 0
    for table, records in zip(TABLES, replay_batch(TABLES, CLUSTER, policy), strict=True):
        jobs = list(zip(*(table[name].tolist() for name in NAMES), strict=True))
        oracle = Simulation(jobs, CLUSTER.num_servers, CLUSTER.gpus_per_server, policy)
        oracle.run()
        for job, times in oracle.promises.items():
            assert records.start[job] <= min(times)
            promised += 1
        backfilled += (np.diff(records.start) < 0).sum()
    assert promised > 100 and backfilled > 30


def check_philly(name, num_jobs):
    """Philly's jobs on 120 GPUs; the oracle's time grows with the square of their number."""
    table = registry.get("philly-sample", num_traces=1, num_jobs=num_jobs)[0]
    table = table.with_columns(group=np.arange(num_jobs) * 7919 % 2003 % 5)
    cluster = Cluster(15, 8)
    records = replay(table, cluster, POLICIES[name])
    columns = dict(table.columns)
    np.testing.assert_array_equal(found(records), expected(columns, cluster, POLICIES[name]))
    assert records.wait.max() > 0


PHILLY = ["fifo", "fifo-easy", "spf", "drf", "tetris", "srtf", "srsf", "las"]


@pytest.mark.parametrize("name", PHILLY)
def test_jobs_of_philly(name):
    check_philly(name, 400)


@pytest.mark.slow  # the oracle looks at every job at every instant: twenty seconds for 1,200 jobs
@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        *(("fifo-easy", 800), ("srsf", 800)),
        *((name, 400) for name in ("tetris", "las", "themis", "vc-maxmin", "vc-isolated")),
    ],
)
def test_more_jobs_of_philly(name, jobs):
    check_philly(name, jobs)
