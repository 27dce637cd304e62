"""Tiresias' queues: running jobs first, and promotion of those that wait too long."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import Cluster, Policy, replay, replay_batch
from tests.trace_replay.cases import expected, found, random_columns

CLUSTER = Cluster(3, 4)
TABLES = [random_columns(seed, 20, CLUSTER.num_gpus) for seed in range(24)]
HOW = {"thresholds": (5, 20, 21)}


@pytest.mark.parametrize("locality", ["strict", "any"])
def test_promotion(locality):
    """The share of the time with GPUs is no part of the program."""
    schedules = []
    for percent, restart_s in ((50, 0), (100, 2), (400, 0)):
        policy = Policy(
            "tiresias", locality=locality, promote_percent=percent, restart_s=restart_s, **HOW
        )
        records = replay_batch(TABLES, CLUSTER, policy)
        for table, each in zip(TABLES, records, strict=True):
            np.testing.assert_array_equal(found(each), expected(table, CLUSTER, policy))
        schedules.append(np.concatenate([each.end for each in records]))
    never = replay_batch(TABLES, CLUSTER, Policy("tiresias", locality=locality, **HOW))
    schedules.append(np.concatenate([each.end for each in never]))
    assert len({tuple(ends) for ends in schedules}) == 4


def test_running_jobs_go_first_by_hand():
    """Two jobs in the last queue: the later one runs when the third ends, and goes on to its end.

    Under ``las`` the first comes back as soon as it may, since it was submitted first.
    """
    jobs = {"submit_time": [0, 1, 2], "num_gpus": [1, 1, 1], "duration": [6, 6, 1]}
    ends = {}
    for order in ("las", "tiresias"):
        records = replay(jobs, Cluster(1, 1), Policy(order, thresholds=(2,)))
        ends[order] = records.end.tolist(), records.preemptions.tolist()
    assert ends["las"] == ([9, 13, 5], [1, 1, 0])
    assert ends["tiresias"] == ([9, 13, 5], [1, 1, 0])
    jobs = {"submit_time": [0, 1, 20], "num_gpus": [1, 1, 1], "duration": [6, 16, 1]}
    ends = {}
    for order in ("las", "tiresias"):
        records = replay(jobs, Cluster(1, 1), Policy(order, thresholds=(2, 4)))
        ends[order] = records.end.tolist(), records.preemptions.tolist()
    print(ends)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy("las", promote_percent=800), "promote_percent with order las; accepted: t"),
        (lambda: Policy("tiresias", promote_percent=-1), "promote_percent is -1; accepted: a whol"),
        (
            lambda: Policy("tiresias", thresholds=tuple(range(1, 9))),
            "tiresias with 8 thresholds; accepted: at most 7",
        ),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(JaxschedError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
