"""Replays equal a plain event loop, job by job, under every rule."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import LOCALITIES, MODES, ORDERS, PLACEMENTS, PREEMPTIVE
from jaxsched.traces import registry
from tests.trace_replay.cases import expected, found, random_columns

CLUSTER = Cluster(3, 4)
TABLES = [random_columns(seed, 20, CLUSTER.num_gpus) for seed in range(40)]
RULES = [
    (order, mode, locality)
    for order in ORDERS
    for mode in MODES
    for locality in LOCALITIES
    if not (order in PREEMPTIVE and mode == "easy")
    and (order != "tetris" or (mode, locality) == ("skip", "strict"))
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


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (7, 1), (5, 2)])
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


@pytest.fixture(scope="module")
def philly():
    table = registry.get("philly-sample", num_traces=1, num_jobs=2000)[0]
    return table.with_columns(group=np.arange(2000) * 7919 % 2003 % 5)


@pytest.mark.parametrize("name", ["fifo", "fifo-easy", "spf", "drf", "tetris", "srtf", "las"])
def test_two_thousand_jobs_of_philly(philly, name):
    cluster = Cluster(15, 8)
    records = replay(philly, cluster, POLICIES[name])
    table = dict(philly.columns)
    np.testing.assert_array_equal(found(records), expected(table, cluster, POLICIES[name]))
    assert records.wait.max() > 0
