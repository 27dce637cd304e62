"""Hand-computed replays, invariants, figures and refused input."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import (
    POLICIES,
    Cluster,
    Policy,
    from_trace,
    replay,
    replay_batch,
    summary,
)
from jaxsched.traces.trace import Trace
from tests.trace_replay.cases import found, random_columns


def columns(*jobs):
    """Columns of jobs ``(submit, gpus, duration)`` or ``(submit, gpus, duration, group)``."""
    names = ("submit_time", "num_gpus", "duration", "group")
    return dict(zip(names, map(list, zip(*jobs, strict=True)), strict=False))


def starts(jobs, cluster, policy):
    return replay(columns(*jobs), cluster, policy).start.tolist()


TWO = Cluster(1, 2)
QUEUE = [(0, 1, 10), (0, 2, 5), (1, 1, 12), (1, 1, 3)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fifo", [0, 10, 15, 15]),
        ("fifo-skip", [0, 13, 1, 10]),
        ("fifo-easy", [0, 10, 15, 1]),
        ("sjf", [5, 0, 8, 5]),
    ],
)
def test_modes_by_hand(name, expected):
    assert starts(QUEUE, TWO, POLICIES[name]) == expected


def test_easy_takes_spare_gpus():
    jobs = [(0, 3, 10), (0, 3, 5), (1, 1, 100), (1, 1, 100)]
    assert starts(jobs, Cluster(1, 4), POLICIES["fifo-easy"]) == [0, 10, 1, 15]


def test_shortest_remaining_time_by_hand():
    records = replay(columns((0, 2, 10), (4, 1, 3), (5, 2, 1)), TWO, Policy("srtf", restart_s=2))
    assert records.start.tolist() == [0, 4, 5]
    assert records.end.tolist() == [18, 10, 6]
    assert records.preemptions.tolist() == [1, 1, 0]


def test_least_attained_service_by_hand():
    policy = Policy("las", thresholds=(4,))
    records = replay(columns((0, 2, 6), (1, 2, 3)), TWO, policy)
    assert records.start.tolist() == [0, 2]  # demoted after 4 GPU-seconds
    assert records.end.tolist() == [8, 9]
    assert records.preemptions.tolist() == [1, 1]


def test_fair_share_by_hand():
    jobs = columns((0, 1, 9, 7), (1, 2, 9, 7), (1, 1, 9, 7), (2, 2, 9, 3))
    by_name = {**jobs, "group": ["b", "b", "b", "a"]}
    for table in (jobs, by_name):
        records = replay(table, Cluster(1, 3), Policy("drf", "block"))
        assert records.start.tolist() == [0, 1, 10, 10]
    later = columns((0, 1, 9, 7), (1, 1, 9, 7), (2, 2, 9, 7), (3, 2, 9, 3))
    assert starts(zip(*later.values(), strict=True), Cluster(1, 3), POLICIES["drf"]) == [
        0,
        1,
        18,
        9,
    ]


def test_tetris_prefers_large_short_jobs():
    jobs = [(0, 4, 5), (1, 1, 3), (1, 4, 3), (1, 1, 100)]
    assert starts(jobs, Cluster(1, 4), POLICIES["tetris"]) == [0, 8, 5, 8]


@pytest.mark.parametrize(
    ("placement", "servers"),
    [("pack", [0, 1, 1]), ("first_fit", [0, 1, 0]), ("load_balance", [0, 1, 2])],
)
def test_placements_by_hand(placement, servers):
    jobs = columns((0, 2, 50), (1, 3, 50), (2, 1, 50))
    records = replay(jobs, Cluster(3, 4), Policy("fifo", placement=placement))
    assert records.first_server.tolist() == servers


def test_large_jobs_take_whole_servers():
    jobs = [(0, 1, 10), (1, 9, 10), (2, 6, 10)]
    records = replay(columns(*jobs), Cluster(3, 4), POLICIES["fifo"])
    assert records.start.tolist() == [0, 1, 11]
    assert records.num_servers.tolist() == [1, 3, 2]
    assert records.first_server.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["fifo-skip", "spf-easy", "drf-loadbalance", "srtf", "las"])
def test_invariants(name):
    cluster = Cluster(3, 4)
    for records in replay_batch(
        [random_columns(seed, 20, cluster.num_gpus) for seed in range(40)], cluster, POLICIES[name]
    ):
        assert (records.start >= records.submit).all()
        assert (records.end - records.start >= records.held).all()
        least = -(-records.num_gpus // cluster.gpus_per_server)
        assert (records.num_servers == least).all()
        if POLICIES[name].preemptive:
            continue
        assert (records.end - records.start == records.duration).all()
        for time in np.unique(records.start):
            runs = (records.start <= time) & (time < records.end)
            assert records.num_gpus[runs].sum() <= cluster.num_gpus
            single = runs & (records.num_servers == 1)
            held = np.bincount(records.first_server[single], records.num_gpus[single])
            assert (held <= cluster.gpus_per_server).all()
            whole = records.num_gpus[runs] // cluster.gpus_per_server
            assert whole.sum() <= cluster.num_servers


@pytest.mark.parametrize("name", ["sjf-easy", "las"])
def test_batch_equals_single_replays(name):
    cluster = Cluster(3, 4)
    tables = [random_columns(seed, jobs, 12) for seed, jobs in ((0, 20), (1, 7), (2, 1))]
    for table, records in zip(tables, replay_batch(tables, cluster, POLICIES[name]), strict=True):
        np.testing.assert_array_equal(found(records), found(replay(table, cluster, POLICIES[name])))


def test_summary():
    records = replay(columns(*QUEUE), TWO, POLICIES["fifo"])
    assert records.wait.tolist() == [0, 10, 14, 14]
    assert records.jct.tolist() == [10, 15, 26, 17]
    figures = summary(records, TWO)
    assert figures["avg_jct"] == 17 and figures["median_jct"] == 16 and figures["avg_wait"] == 9.5
    assert figures["makespan"] == 27 and figures["preemptions"] == 0 and figures["finished"] == 4
    assert figures["utilization"] == pytest.approx(35 / 54)
    suspended = replay(columns((0, 2, 10), (4, 1, 3), (5, 2, 1)), TWO, Policy("srtf", restart_s=2))
    assert summary(suspended, TWO)["utilization"] == pytest.approx((24 + 5 + 2) / 36)


def test_published_trace():
    trace = Trace(
        {
            "submit_time": np.array([50.5, 10.2, 30.0, 40.0, 20.0, 5.0]),
            "num_gpus": np.array([0.5, 2.0000000001, 0.0, 1.0, np.nan, 4.0]),
            "duration": np.array([0.2, 3.5, 5.0, np.nan, 5.0, 0.0]),  # the last one never ran
            "group": np.array(["x", "a", "x", "x", "x", "y"]),
        }
    )
    table = from_trace(trace)
    assert {name: table[name].tolist() for name in table.columns} == {
        "submit_time": [0, 40],
        "num_gpus": [2, 1],
        "duration": [4, 1],
        "group": [0, 1],
        "gpu_milli": [1000, 500],
    }
    with pytest.raises(JaxschedError, match="no row has"):
        from_trace(Trace({name: values[2:] for name, values in trace.columns.items()}))


def test_schedules_beyond_int32_are_refused():
    jobs = columns(*[(2**30 - 1, 1, 2**23)] * 130)
    with pytest.raises(JaxschedError, match="runs past"):
        replay(jobs, Cluster(1, 1), POLICIES["fifo"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: replay(columns((0, 1, 5), (0, 3, 5)), TWO, Policy()),
            r"job 1: num_gpus is 3; .*2",
        ),
        (lambda: replay(columns((5, 1, 5), (0, 1, 5)), TWO, Policy()), "job 1: submit_time is 0"),
        (lambda: replay(columns((0, 1, 0)), TWO, Policy()), "job 0: duration is 0"),
        (lambda: replay({"num_gpus": [1]}, TWO, Policy()), "'submit_time' is missing"),
        (lambda: replay([1], TWO, Policy()), "jobs are a list; accepted: a JobTable or"),
        (lambda: replay_batch([], TWO, Policy()), "no job tables"),
        (lambda: Cluster(0, 8), "num_servers is 0; accepted: a whole number from 1"),
        (lambda: Cluster(2**13, 8), "has 65536 GPUs; accepted: at most 32768"),
        (lambda: Policy("newest"), "order is 'newest'; accepted: fifo, sjf"),
        (lambda: Policy("srtf", "easy"), "srtf suspends jobs, so mode easy"),
        (lambda: Policy("tetris", "block"), "tetris with mode block .*; accepted: skip and strict"),
        (lambda: Policy("las", thresholds=(5, 5)), "accepted: increasing"),
        (lambda: Policy("las", thresholds=(0,)), "accepted: a tuple of whole numbers from 1"),
        (lambda: Policy("las", restart_s=-1), "restart_s is -1; accepted: a whole number from 0"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(JaxschedError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_table_without_groups_is_one_group():
    table = JobTable(columns(*QUEUE))
    shared = replay(table, TWO, POLICIES["drf"])
    np.testing.assert_array_equal(found(shared), found(replay(table, TWO, POLICIES["fifo-skip"])))
