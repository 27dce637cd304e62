"""GPUs of different types: replays equal a plain event loop, and nothing changes without types."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, TYPED, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import TYPE_CHOICES
from tests.trace_replay.cases import found, random_columns, with_estimates
from tests.trace_replay.typed_oracle import shown

CLUSTER = Cluster.of("2x2:4@k80,2x4@v100,1x4@p100,2x3@a100")
SPEEDS = np.array([[1000, 400, 250, 700], [900, 1000, 0, 333], [1000, 2096, 1409, 0], [7, 3, 2, 1]])


def typed_columns(seed, num_jobs=20):
    """Random jobs of four classes, of which some cannot run on one of the types."""
    table = with_estimates(random_columns(seed, num_jobs, 8), seed)
    own = SPEEDS[np.random.default_rng([seed, 2]).integers(0, len(SPEEDS), num_jobs)]
    own = np.where(own.max(1, keepdims=True) < 10, own * 500, own)
    speeds = {f"speed_{name}": own[:, k] for k, name in enumerate(("v100", "p100", "k80", "a100"))}
    return table | speeds


TABLES = [typed_columns(seed) for seed in range(24)]


def job_rows(table, cluster):
    """The rows of a table as the plain event loop takes them; GPUs without types are at speed 1."""
    jobs = []
    for row in range(len(table["submit_time"])):
        names = ("submit_time", "num_gpus", "duration", "group", "estimate")
        values = [int(np.asarray(table[name])[row]) for name in names]
        job = dict(zip(("submit", "gpus", "duration", "group", "estimate"), values, strict=True))
        speeds = {name: int(table[f"speed_{name}"][row]) for name in cluster.gpu_types}
        jobs.append(job | {"speeds": speeds or {"one": 1000}})
    return jobs


def plain(table, cluster, policy):
    kinds = [tuple(kind) for kind in cluster.kinds]
    return np.array(shown(job_rows(table, cluster), kinds, policy)).T


RULES = [
    Policy("fifo", "skip"),
    Policy("sjf", "block", "load_balance"),
    Policy("sjf", "easy"),
    Policy("spf", "easy", "first_fit", run_times="estimates"),
    Policy("drf", "skip"),
    Policy("tetris", "skip", "load_balance"),
    Policy("slowdown", "skip"),
    Policy("lrf", "commit", "first_fit"),
    Policy("sjf", "commit"),
]


@pytest.mark.parametrize("policy", RULES, ids=lambda p: f"{p.order}-{p.mode}-{p.run_times}")
def test_random_instances(policy):
    """Every mode and every ranking that types are made for, each by both choices of types."""
    used = set()
    for choice in TYPE_CHOICES:
        for least in (0, 60):
            rule = replace(policy, type_choice=choice, least_speed_percent=least)
            for table, records in zip(TABLES, replay_batch(TABLES, CLUSTER, rule), strict=True):
                np.testing.assert_array_equal(found(records)[:4], plain(table, CLUSTER, rule))
                np.testing.assert_array_equal(records.held, records.end - records.start)
                used |= set(records.first_server.tolist())
    assert len(used) == CLUSTER.num_servers


def test_named_policies():
    for policy in TYPED.values():
        for table, records in zip(
            TABLES[:8], replay_batch(TABLES[:8], CLUSTER, policy), strict=True
        ):
            np.testing.assert_array_equal(found(records)[:4], plain(table, CLUSTER, policy))


def test_equal_speeds_are_servers_without_types():
    """Types at the speed of the run times change nothing, whatever the order and the mode."""
    typed, alike = Cluster.of("3x2:4@a,2x4@b,1x3@c"), Cluster.of("3x2:4,2x4,1x3")
    tables = [table | {f"speed_{name}": np.full(20, 1000) for name in "abc"} for table in TABLES]
    for name in ("fifo-easy", "sjf", "drf", "tetris", "vc-themis", "themis", "vc-isolated"):
        policy = replace(POLICIES[name], type_choice="fastest")
        both = (replay_batch(tables, cluster, policy) for cluster in (typed, alike))
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(found(one), found(other))


def test_columns_of_speeds_are_nothing_to_servers_without_types():
    table, cluster = TABLES[0], Cluster.of("3x4")
    bare = {name: table[name] for name in ("submit_time", "num_gpus", "duration")}
    for policy in (POLICIES["fifo-easy"], replace(POLICIES["sjf"], least_speed_percent=50)):
        with_speeds, without = (replay(jobs, cluster, policy) for jobs in (table, bare))
        np.testing.assert_array_equal(found(with_speeds), found(without))


ONE = {"submit_time": [0], "num_gpus": [2], "duration": [3]}
SLOW = ONE | {"speed_k80": [1], "speed_v100": [1]}


@pytest.mark.parametrize(
    ("jobs", "policy", "match"),
    [
        (
            ONE,
            "fifo",
            "has no column 'speed_k80' .*with speed_k80, speed_v100, or speeds",
        ),
        (SLOW | {"speed_v100": [-1]}, "fifo", "speed_v100 is -1; accepted: .*0 to 100000"),
        (ONE | {"speed_k80": [0], "speed_v100": [0]}, "fifo", "job 0: it cannot run on any type"),
        (SLOW, "fifo-any", "locality any: .*accepted: strict"),
        (SLOW, "srtf", "order srtf suspends jobs, which GPUs of"),
        (SLOW, "qssf", "order qssf learns from the jobs"),
        (SLOW | {"duration": [2**23]}, "fifo", r"runs past 2\*\*31 s"),
    ],
)
def test_what_is_refused_in_one_line(jobs, policy, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        replay(jobs, Cluster.of("1x2@k80,1x2@v100"), POLICIES[policy])
    assert len(str(caught.value).splitlines()) == 1


def test_too_many_different_jobs_are_refused():
    count = 1025
    columns = {"submit_time": np.arange(count), "num_gpus": np.ones(count, int),
               "duration": np.ones(count, int), "speed_a": np.arange(1, count + 1)}  # fmt: skip
    with pytest.raises(JaxschedError, match="1025 different jobs .*at most 1024"):
        replay(columns, Cluster.of("1x1@a"), POLICIES["fifo"])


def test_the_order_by_slowdowns_needs_places():
    with pytest.raises(JaxschedError, match="order slowdown with mode block .*accepted: skip"):
        Policy("slowdown", "block")


@pytest.mark.parametrize("order", ["fifo", "sjf", "spf"])
def test_partitions_are_as_clusters_of_their_own(order):
    policy = Policy(order, "skip")
    for seed in range(4):
        table = random_columns(seed, 20, 4)
        where = np.random.default_rng([seed, 3]).integers(0, 2, 20)
        speeds = {f"speed_{name}": 1000 * (where == k) for k, name in enumerate("ab")}
        together = replay(table | speeds, Cluster.of("2x4@a,1x4@b"), policy)
        for own, servers in ((where == 0, 2), (where == 1, 1)):
            part = {name: np.asarray(column)[own] for name, column in table.items()}
            alone = replay(part, Cluster(servers, 4), policy)
            np.testing.assert_array_equal(together.start[own], alone.start)
            np.testing.assert_array_equal(together.end[own], alone.end)
