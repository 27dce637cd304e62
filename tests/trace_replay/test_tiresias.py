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
    for percent in (50, 100, 400):
        policy = Policy("tiresias", locality=locality, promote_percent=percent, **HOW)
        records = replay_batch(TABLES, CLUSTER, policy)
        for table, each in zip(TABLES, records, strict=True):
            np.testing.assert_array_equal(found(each), expected(table, CLUSTER, policy))
        schedules.append(np.concatenate([each.end for each in records]))
    never = replay_batch(TABLES, CLUSTER, Policy("tiresias", locality=locality, **HOW))
    schedules.append(np.concatenate([each.end for each in never]))
    assert len({tuple(ends) for ends in schedules}) == 4


@pytest.mark.parametrize(
    ("order", "end", "stops"),
    [("las", [14, 19, 8], [1, 1, 0]), ("tiresias", [19, 13, 8], [1, 0, 0])],
)
def test_running_jobs_go_first_by_hand(order, end, stops):
    """At 7 the second job comes to the first one's queue, which has no room beside the third.

    At 8 the third ends, and only under ``las`` the first, submitted earlier, takes both GPUs.
    """
    jobs = {"submit_time": [0, 3, 5], "num_gpus": [2, 1, 1], "duration": [9, 10, 3]}
    records = replay(jobs, Cluster(1, 2), Policy(order, thresholds=(4,)))
    assert (records.end.tolist(), records.preemptions.tolist()) == (end, stops)


def test_promotion_by_hand():
    """The first job is demoted at 2 and has waited for twice what it has run at 6.

    Then it goes before the fourth, which comes at 6. At 8 it is demoted again; at 12 it is back in
    the first queue, behind the last job, which came at 10.
    """
    submit, duration = [0, 2, 4, 6, 8, 10], [9, 2, 2, 2, 2, 2]
    jobs = {"submit_time": submit, "num_gpus": [1] * 6, "duration": duration}
    for percent, end, stops in ((0, [19, 4, 6, 8, 10, 12], 1), (200, [19, 4, 6, 10, 12, 14], 2)):
        policy = Policy("tiresias", thresholds=(2,), promote_percent=percent)
        records = replay(jobs, Cluster(1, 1), policy)
        assert (records.end.tolist(), records.preemptions[0]) == (end, stops)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy("las", promote_percent=800), "promote_percent with order las; accepted: t"),
        (
            lambda: Policy("tiresias", promote_percent=800, restart_s=5),
            "promote_percent with restart_s: a job .* accepted: one or the other",
        ),
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
