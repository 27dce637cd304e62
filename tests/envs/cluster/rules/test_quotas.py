"""Virtual clusters with quotas in the environment, against a plain event loop."""

import numpy as np
import pytest

from jaxsched.envs.cluster import ClusterJobs
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import Cluster, Policy
from jaxsched.trace_replay.tables import as_table, quotas
from tests.envs.cluster.rules.test_gpu_types import play
from tests.trace_replay.cases import expected, random_columns
from tests.trace_replay.test_gpu_types import CLUSTER as TYPED_CLUSTER
from tests.trace_replay.test_gpu_types import TABLES as TYPED_TABLES

CLUSTER = Cluster(3, 4)
TABLES = [random_columns(seed, 20, CLUSTER.num_gpus) for seed in range(8)]
ORDERS = {"fifo": ("fifo", "skip"), "sjf": ("sjf", "skip"), "lrf": ("lrf", "skip")}


@pytest.mark.parametrize("share", ["equal", "work"])
def test_rules_are_those_of_a_plain_event_loop(share):
    env = ClusterJobs(window=20, num_servers=3, gpus_per_server=4, quotas=share)
    _, played = play(env, ORDERS, TABLES)
    differ = 0
    for name, outcome in played.items():
        policy = Policy(*ORDERS[name], share=share, isolated=True)
        for episode, table in enumerate(TABLES):
            columns = ("start", "finish", "num_servers", "first_server")
            mine = np.array([outcome.records[column][episode] for column in columns])
            np.testing.assert_array_equal(mine, expected(table, CLUSTER, policy)[:4])
            free = expected(table, CLUSTER, Policy(*ORDERS[name]))[:4]
            differ += not np.array_equal(mine, free)
    assert differ > 12


def test_nobody_holds_more_than_the_quota_on_types_of_gpus():
    env = ClusterJobs(window=20, servers=str(TYPED_CLUSTER.servers), quotas="equal")
    some, held_most = TYPED_TABLES[:4], 0
    _, played = play(env, {"fifo": ("fifo", "skip")}, some)
    for episode, table in enumerate(some):
        quota = quotas(as_table(table, TYPED_CLUSTER), TYPED_CLUSTER, "equal", isolated=True)
        start, end = (played["fifo"].records[name][episode] for name in ("start", "finish"))
        for moment in start:
            runs = (start <= moment) & (moment < end)
            held = np.bincount(table["group"][runs], table["num_gpus"][runs], len(quota))
            assert (held <= quota).all()
            held_most += (held == quota).any()
    assert held_most > 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"quotas": "equal", "suspends": True}, "suspends with quotas; accepted: one or the other"),
        ({"quotas": "work", "commits": True}, "commits with quotas; accepted: one or the other"),
        ({"quotas": "most"}, "quotas is 'most'; accepted: none, equal, work"),
    ],
)
def test_what_is_refused_in_one_line(options, match):
    with pytest.raises(JaxschedError, match=match):
        ClusterJobs(**options)
