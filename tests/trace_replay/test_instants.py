"""Who runs at an instant is settled before anybody is suspended; and every run is on record."""

import numpy as np
import pytest

from jaxsched.jobs import JobTable
from jaxsched.leaderboard.window import utilization, window_of
from jaxsched.trace_replay import Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import LOCALITIES
from tests.trace_replay.cases import jobs_of, random_columns, with_estimates
from tests.trace_replay.oracle import Simulation

CLUSTER = Cluster(3, 4)
TABLES = [with_estimates(random_columns(seed, 24, 12), seed) for seed in range(24)]


@pytest.mark.parametrize("locality", LOCALITIES)
def test_a_job_that_keeps_its_gpus_is_not_suspended_by_hand(locality):
    """At 10 the first job has to make way; the second would be last in order, and need not."""
    jobs = {"submit_time": [0, 0, 10], "num_gpus": [8, 1, 4], "duration": [100, 200, 5]}
    records = replay(jobs, Cluster(1, 9), Policy("srtf", restart_s=300, locality=locality))
    assert records.end.tolist() == [405, 200, 15]
    assert records.preemptions.tolist() == [1, 0, 0]
    assert records.cut.tolist() == [[0, 0, 10]]


def test_a_job_may_stay_for_a_later_one_in_order_by_hand():
    """At 10 the fourth job takes 4 of 10 GPUs, beside the first, and the others make way for it.

    The fifth, of 5 GPUs, comes before the first: with that gone, there is room for the second.
    """
    jobs = {
        "submit_time": [0, 0, 0, 10, 10],
        "num_gpus": [6, 1, 3, 4, 5],
        "duration": [50, 60, 70, 5, 6],
    }
    records = replay(jobs, Cluster(1, 10), Policy("srtf", restart_s=100))
    assert records.preemptions.tolist() == [1, 0, 1, 0, 0] and records.end[1] == 60


def test_a_kept_place_is_not_given_away_by_hand():
    """At 10 the fourth job takes 6 of the 9 GPUs of the first one; the second job keeps its own.

    So 2 are left there, and the fifth job, which wants 3, goes to the other server.
    """
    jobs = {
        "submit_time": [0, 0, 0, 10, 10],
        "num_gpus": [8, 1, 4, 6, 3],
        "duration": [90, 200, 12, 5, 6],
    }
    records = replay(jobs, Cluster(2, 9), Policy("srtf", restart_s=300))
    assert records.preemptions.tolist() == [1, 0, 0, 0, 0]
    assert records.end[1] == 200 and records.first_server[1:].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("locality", LOCALITIES)
@pytest.mark.parametrize("order", ["srtf", "spot"])
def test_every_run_is_on_record(order, locality):
    """Cut runs are the oracle's; with them GPUs are never held twice, and no run follows at once.

    With locality ``strict`` a job may be moved: it then starts at the instant on other servers.
    """
    policy = Policy(order, locality=locality, restart_s=2)
    for table, records in zip(TABLES, replay_batch(TABLES, CLUSTER, policy), strict=True):
        oracle = Simulation(jobs_of(table), 3, 4, policy)
        oracle.run()
        assert sorted(map(tuple, records.cut.tolist())) == sorted(oracle.stops)
        job, begin, end = records.cut.T
        np.testing.assert_array_equal(np.bincount(job, minlength=24), records.preemptions)
        last = records.end - records.held + np.bincount(job, end - begin, 24).astype(int)
        job = np.r_[job, np.arange(24)]
        begin, end = np.r_[begin, last], np.r_[end, records.end]
        for time in np.unique(begin):
            holds = (begin <= time) & (time < end)
            assert records.num_gpus[job[holds]].sum() <= CLUSTER.num_gpus
            assert len(set(job[holds])) == holds.sum()
        if locality == "any":
            assert not set(zip(job, begin, strict=True)) & set(zip(job, end, strict=True))


@pytest.mark.parametrize("order", ["srtf", "las", "spot"])
def test_busy_gpus_are_exact(order):
    """Second by second, as the oracle's runs have it; never above 1."""
    policy = Policy(order, thresholds=(5, 20), restart_s=3)
    for table, records in zip(TABLES, replay_batch(TABLES, CLUSTER, policy), strict=True):
        oracle = Simulation(jobs_of(table), 3, 4, policy)
        results = oracle.run()
        window = window_of(JobTable(table))
        runs = [*oracle.stops, *((j, oracle.since[j], r.end) for j, r in enumerate(results))]
        held = sum(
            table["num_gpus"][job] * (begin <= second < end)
            for job, begin, end in runs
            for second in range(window.begin_s, window.end_s)
        )
        busy = held / CLUSTER.num_gpus / (window.end_s - window.begin_s)
        assert utilization(records, CLUSTER, window) == pytest.approx(busy, rel=1e-12)
        assert busy <= 1


def test_more_suspensions_than_a_replay_keeps_at_a_time():
    """Steps go on where they stopped once the host has taken them out."""
    short = 80
    jobs = {
        "submit_time": [0, *range(1, 2 * short, 2)],
        "num_gpus": [1] * (short + 1),
        "duration": [1000] + [1] * short,
    }
    records = replay(jobs, Cluster(1, 1), Policy("srtf"))
    assert records.preemptions[0] == short and len(records.cut) == short
    assert records.end[0] == 1000 + short
    few = {name: values[:5] for name, values in jobs.items()}
    twice = replay_batch([jobs, few], Cluster(1, 1), Policy("srtf"))
    np.testing.assert_array_equal(twice[0].cut, records.cut)
    assert len(twice[1].cut) == 4
