"""Servers of different sizes: RLTune's published environment, and a plain event loop."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Kind
from jaxsched.trace_replay import COMMITTED, POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import COMMITTING, PLACEMENTS
from tests.trace_replay.cases import expected, found, jobs_of, random_columns, with_estimates
from tests.trace_replay.committed import KEYS, committed_starts

WINDOWS = json.loads(
    (Path(__file__).parents[1] / "golden" / "mixed_nodes" / "windows.json").read_text()
)
PHILLY = Cluster.of("16x2:4,20x8")
TABLES = [{name: window[name] for name in ("submit_time", "num_gpus", "duration")}
          for window in WINDOWS]  # fmt: skip


@pytest.mark.parametrize("name", COMMITTED)
def test_rltune(name):
    """The start of every job as RLTune's environment gives it."""
    played = replay_batch(TABLES, PHILLY, COMMITTED[name])
    for window, records in zip(WINDOWS, played, strict=True):
        golden = window["policies"][name]
        np.testing.assert_array_equal(records.start, golden["start_time"])
        slowdown = np.maximum(records.jct / np.maximum(records.duration, 10), 1).mean()
        assert slowdown == pytest.approx(golden["mean_bounded_slowdown"], rel=1e-9)


MIXED = Cluster.of("3x2:4,2x4,1x3")
RANDOM = [
    with_estimates(random_columns(seed, 20, MIXED.largest_job("strict")), seed)
    for seed in range(24)
]  # fmt: skip
RULES = [
    Policy("sjf", "skip"),
    Policy("fifo", "block", "load_balance"),
    Policy("spf", "easy", "first_fit", run_times="estimates"),
    Policy("fifo", "easy", locality="any"),
    Policy("drf", "skip", share="work"),
    Policy("tetris", "skip", "load_balance"),
    Policy("qssf", "skip"),
    Policy("srtf", "skip", restart_s=2),
    Policy("las", "skip", thresholds=(5, 20, 21)),
    Policy("las", "skip", "first_fit", locality="any", thresholds=(5, 20)),
    Policy("spot", "skip", headroom_percent=20, victims="waste", restart_s=3, checkpoint_s=4),
]


@pytest.mark.parametrize(
    "policy", RULES, ids=lambda p: f"{p.order}-{p.mode}-{p.placement}-{p.locality}"
)
def test_rules_on_mixed_servers(policy):
    """Every kind of rule equals the plain event loop where servers differ."""
    stops = 0
    for table, records in zip(RANDOM, replay_batch(RANDOM, MIXED, policy), strict=True):
        np.testing.assert_array_equal(found(records), expected(table, MIXED, policy))
        stops += records.preemptions.sum()
    assert (stops > 0) == policy.preemptive


@pytest.mark.parametrize("cluster", ["3x2:4,2x4,1x3", "2x4"], ids=["mixed", "alike"])
@pytest.mark.parametrize("order", KEYS)
def test_commit_equals_a_plain_event_loop(order, cluster):
    cluster = Cluster.of(cluster)
    kinds = [kind[:3] for kind in cluster.kinds] or [(2, 4, 8)]
    tables = [
        table | {"num_gpus": np.minimum(table["num_gpus"], cluster.largest_job("strict"))}
        for table in RANDOM
    ]
    for placement in PLACEMENTS:
        policy = Policy(order, "commit", placement)
        for table, records in zip(tables, replay_batch(tables, cluster, policy), strict=True):
            jobs = [job[:3] for job in jobs_of(table)]
            played = np.stack([records.start, records.first_server], 1)
            np.testing.assert_array_equal(played, committed_starts(jobs, kinds, order, placement))


def test_kinds_of_one_size_are_a_cluster_of_equal_servers():
    """Kinds change nothing but which servers a job may have."""
    alike = Cluster(2, 4, (Kind(2, 4, 8),))
    tables = [table | {"num_gpus": np.minimum(table["num_gpus"], 8)} for table in RANDOM]
    both = (
        replay_batch(tables, cluster, POLICIES["fifo-easy"]) for cluster in (alike, Cluster(2, 4))
    )
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(found(one), found(other))


def test_what_is_refused():
    with pytest.raises(JaxschedError, match="num_gpus.*33|33.*num_gpus|GPUs"):
        replay({"submit_time": [0], "num_gpus": [33], "duration": [1]}, Cluster.of("4x8,2x2"),
               POLICIES["fifo"])  # fmt: skip
    with pytest.raises(JaxschedError, match="order drf with mode commit; accepted: fifo, "):
        Policy("drf", "commit")
    with pytest.raises(JaxschedError, match="kinds of 2 servers of at most 4; accepted: the same"):
        Cluster(3, 4, (Kind(2, 4, 8),))
    assert set(KEYS) | {"edf", "priority"} == set(COMMITTING)
