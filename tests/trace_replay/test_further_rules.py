"""Rules that go by estimates, deadlines, waits or quotas equal a plain event loop, job by job."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import POLICIES, Cluster, Policy, from_trace, replay, replay_batch
from jaxsched.trace_replay.policies import LOCALITIES
from jaxsched.trace_replay.tables import COLUMNS, lacking, quotas
from jaxsched.traces.trace import Trace
from tests.trace_replay.cases import expected, found, jobs_of, random_columns, with_estimates
from tests.trace_replay.oracle import Simulation

CLUSTER = Cluster(3, 4)
PLAIN = [random_columns(seed, 20, CLUSTER.num_gpus) for seed in range(40)]
TABLES = [with_estimates(table, seed) for seed, table in enumerate(PLAIN)]


def check_equal(policy):
    """The replays of all tables, each equal to the oracle's."""
    replays = replay_batch(TABLES, CLUSTER, policy)
    for table, records in zip(TABLES, replays, strict=True):
        np.testing.assert_array_equal(found(records), expected(table, CLUSTER, policy))
    return [found(records) for records in replays]


@pytest.mark.parametrize("locality", LOCALITIES)
def test_promises_by_estimates(locality):
    """Programs do not depend on fixed keys, so that these orders share one."""
    for order in ("fifo", "sjf", "edf"):
        policy = Policy(order, "easy", locality=locality, run_times="estimates")
        assert policy.knows == "estimates"
        check_equal(policy)


def test_orders_by_estimates():
    for order in ("sjf", "spf", "edf"):
        policy = Policy(order, "skip", run_times="estimates")
        with_run_times = replay_batch(TABLES, CLUSTER, replace(policy, run_times="true"))
        same = np.array_equal(check_equal(policy), [found(each) for each in with_run_times])
        assert same == (policy.knows == "nothing") == (order == "edf")


@pytest.mark.parametrize("name", ["drf-easy"])
def test_estimates_with_other_orders(name):
    check_equal(replace(POLICIES[name], run_times="estimates"))


@pytest.mark.parametrize("run_times", ["true", "estimates"])
def test_fairness(run_times):
    check_equal(Policy("fairness", "skip", run_times=run_times))


@pytest.mark.parametrize("isolated", [False, True])
def test_group_fairness(isolated):
    """Run times are no part of the program."""
    schedules = [
        check_equal(Policy("group-fairness", run_times=run_times, isolated=isolated))
        for run_times in ("true", "estimates")
    ]
    assert not np.array_equal(*schedules)
    assert not np.array_equal(schedules[0], check_equal(Policy("drf", isolated=isolated)))


@pytest.mark.parametrize("mode", ["block", "easy"])
def test_group_fairness_in_other_modes(mode):
    check_equal(Policy("group-fairness", mode, share="work"))


@pytest.mark.parametrize("locality", LOCALITIES)
def test_spot_jobs_are_suspended(locality):
    stops = sum(found[4].sum() for found in check_equal(Policy("spot", "skip", locality=locality)))
    assert stops > 30


@pytest.mark.parametrize("percent", [10, 100])
def test_headroom(percent):
    """With all GPUs kept free, a job of a lower priority runs alone."""
    stops = [
        sum(found[4].sum() for found in check_equal(Policy("spot", headroom_percent=kept)))
        for kept in (0, percent)
    ]
    assert stops[1] < stops[0]


def test_priorities():
    check_equal(Policy("spot", "block", restart_s=2))
    check_equal(Policy("priority", "skip"))
    with_deadlines = check_equal(Policy("edf", "skip"))
    assert not np.array_equal(check_equal(Policy("priority", "skip")), with_deadlines)


def test_equals_are_not_suspended_by_hand():
    """The fourth job takes the first one's GPU, the third waits for the second and takes it too."""
    jobs = {
        "submit_time": [0, 0, 1, 2],
        "num_gpus": [1, 1, 2, 1],
        "duration": [10, 8, 5, 4],
        "priority": [0, 1, 1, 1],
    }
    records = replay(jobs, Cluster(1, 2), POLICIES["spot"])
    assert records.start.tolist() == [0, 0, 8, 2]
    assert records.preemptions.tolist() == [2, 0, 0, 0] and records.end[0] == 19


@pytest.mark.parametrize("order", ["fifo", "drf"])
@pytest.mark.parametrize("isolated", [False, True])
def test_quotas(order, isolated):
    schedules = []
    for share in ("equal", "work"):
        policy = Policy(order, "skip", share=share, isolated=isolated)
        schedules.append(check_equal(policy))
    assert np.array_equal(*schedules) == (order == "fifo" and not isolated)


def test_estimates_that_are_never_exceeded_keep_promises():
    """EASY was made for such; jobs end earlier than promised then, not later."""
    tables = [with_estimates(table, seed, least=1) for seed, table in enumerate(PLAIN)]
    policy, promised, early = POLICIES["fifo-easy-est"], 0, 0
    for table, records in zip(tables, replay_batch(tables, CLUSTER, policy), strict=True):
        oracle = Simulation(jobs_of(table), CLUSTER.num_servers, CLUSTER.gpus_per_server, policy)
        oracle.run()
        for job, times in oracle.promises.items():
            assert records.start[job] <= min(times)
            promised += 1
            early += records.start[job] < min(times)
    assert promised > 100 and early > 30


def test_a_job_past_its_estimate_ends_next_second_by_hand():
    """At 5 the first job is late: the second is promised time 6, which only the fourth keeps."""
    jobs = {
        "submit_time": [0, 1, 5, 5],
        "num_gpus": [1, 2, 1, 1],
        "duration": [10, 5, 2, 1],
        "estimate": [4, 5, 2, 1],
    }
    records = replay(jobs, Cluster(1, 2), POLICIES["fifo-easy-est"])
    assert records.start.tolist() == [0, 10, 15, 5]


def test_worst_fairness_by_hand():
    """At 10 the waits over run times are 9 / 3, 8 / 4 and 1 / 1."""
    jobs = {"submit_time": [0, 1, 2, 9], "num_gpus": [1] * 4, "duration": [10, 3, 4, 1]}
    records = replay(jobs, Cluster(1, 1), POLICIES["themis"])
    assert records.start.tolist() == [0, 10, 14, 13]  # at 13: 11 / 4 and 4 / 1


def test_worst_group_by_hand():
    """At 10 the worst of a's jobs has 9 / 3 and of b's 8 / 1, whose first job is the long one."""
    jobs = {
        "submit_time": [0, 1, 2, 2],
        "num_gpus": [1] * 4,
        "duration": [10, 3, 20, 1],
        "group": ["a", "a", "b", "b"],
    }
    records = replay(jobs, Cluster(1, 1), POLICIES["vc-themis"])
    assert records.start.tolist() == [0, 31, 10, 30]  # at 30: 29 / 3 and 28 / 1
    alone = replay(jobs, Cluster(1, 1), POLICIES["themis"])
    assert alone.start.tolist() == [0, 11, 14, 10]


def test_earliest_deadline_by_hand():
    jobs = {
        "submit_time": [0, 1, 2, 3],
        "num_gpus": [1] * 4,
        "duration": [10, 3, 4, 1],
        "time_to_deadline": [9, 2**31 - 1, 30, 20],
    }
    records = replay(jobs, Cluster(1, 1), POLICIES["edf"])
    assert records.start.tolist() == [0, 15, 11, 10]


def test_isolation_by_hand():
    """Two GPUs each: the third job of the first group waits though a GPU is free."""
    jobs = {
        "submit_time": [0, 0, 0, 1],
        "num_gpus": [1, 1, 1, 1],
        "duration": [10, 8, 5, 5],
        "group": ["a", "a", "a", "b"],
    }
    records = replay(jobs, Cluster(1, 4), POLICIES["vc-isolated-equal"])
    assert records.start.tolist() == [0, 0, 8, 1]


def test_quotas_by_hand():
    columns = {
        "submit_time": [0, 0, 0],
        "num_gpus": [1, 2, 7],
        "duration": [5, 5, 5],
        "group": [0, 1, 2],
    }
    table, cluster = JobTable(columns, schema=COLUMNS), Cluster(1, 8)
    assert quotas(table, cluster, "equal").tolist() == [3, 3, 2]
    assert quotas(table, cluster, "work").tolist() == [1, 2, 5]  # of 0.8, 1.6 and 5.6
    assert quotas(table, cluster, "equal", isolated=True).tolist() == [3, 3, 7]


def test_what_a_trace_tells_of_estimates_and_deadlines():
    trace = Trace(
        {
            "submit_time": np.array([10.0, 20.0, 30.0]),
            "num_gpus": np.ones(3),
            "duration": np.array([5.0, 6.0, 7.0]),
            "requested_time": np.array([9.5, np.nan, 0.0]),
            "deadline": np.array([5.0, np.nan, 50.5]),
        }
    )
    table = from_trace(trace)
    assert table["estimate"].tolist() == [10, 10, 1]
    assert table["time_to_deadline"].tolist() == [0, 2**31 - 1, 20]
    later = table.window(1, 2)
    assert later["time_to_deadline"].tolist() == [2**31 - 1, 20]
    assert lacking(later, POLICIES["edf-easy-est"]) == ()
    unknown = {"requested_time": np.full(3, np.nan), "deadline": np.full(3, np.nan)}
    without = from_trace(Trace(dict(trace.columns) | unknown))
    assert lacking(without, POLICIES["edf-easy-est"]) == ("estimate", "time_to_deadline")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: replay(PLAIN[0], CLUSTER, POLICIES["sjf-est"]),
            r"table .jobs. has no column .estimate. \(run time as known.*; accepted: a table with",
        ),
        (lambda: replay(PLAIN[0], CLUSTER, POLICIES["edf"]), "no column 'time_to_deadline'"),
        (lambda: replay(PLAIN[0], CLUSTER, POLICIES["spot"]), "no column 'priority' .larger"),
        (
            lambda: replay(PLAIN[0] | {"estimate": [0] * 20}, CLUSTER, Policy()),
            "job 0: estimate is 0; accepted: a whole number from 1",
        ),
        (lambda: Policy(run_times="guesses"), "run_times is 'guesses'; accepted: true, estimates"),
        (lambda: Policy("spot", headroom_percent=101), "headroom_percent is 101; accepted: a whol"),
        (lambda: Policy("las", headroom_percent=5), "headroom_percent with order las and mode s"),
        (lambda: Policy(share="half"), "share is 'half'; accepted: equal, work"),
        (lambda: Policy(isolated=2), "isolated is 2; accepted: true or false"),
        (lambda: Policy("srtf", run_times="estimates"), "srtf suspends jobs, which run_times est"),
        (lambda: Policy("las", isolated=True), "las suspends jobs, which isolated groups"),
        (lambda: Policy("fairness", "easy"), "order fairness with mode easy; accepted: skip"),
        (lambda: Policy("fifo", "block", isolated=True), "groups with mode block; accepted: skip"),
        (lambda: Policy("fairness", isolated=True), "fairness with isolated groups; accepted: one"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(JaxschedError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
