"""GFS' two ideas about spot jobs equal a plain event loop, and what they do on paper."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import LOCALITIES
from jaxsched.trace_replay.records import by_priority
from tests.trace_replay.cases import expected, found, jobs_of, random_columns, with_estimates
from tests.trace_replay.oracle import Simulation

CLUSTER = Cluster(3, 4)
TABLES = [with_estimates(random_columns(seed, 24, CLUSTER.num_gpus), seed) for seed in range(24)]


def replays_equal(policy):
    """All tables' records, each equal to the oracle's."""
    records = replay_batch(TABLES, CLUSTER, policy)
    for table, each in zip(TABLES, records, strict=True):
        np.testing.assert_array_equal(found(each), expected(table, CLUSTER, policy))
    return records


def stops(records):
    return sum(int(each.preemptions.sum()) for each in records)


@pytest.mark.parametrize("locality", LOCALITIES)
@pytest.mark.parametrize("cost", [(0, 0), (2, 3), (0, 2**30)])
def test_victims_that_waste_least(locality, cost):
    """Costs are no part of the program: one for each locality."""
    restart_s, checkpoint_s = cost
    how = {"locality": locality, "restart_s": restart_s, "checkpoint_s": checkpoint_s}
    records = replays_equal(Policy("spot", victims="waste", **how))
    last = replays_equal(Policy("spot", **how))
    differ = any(not np.array_equal(found(a), found(b)) for a, b in zip(records, last, strict=True))
    assert stops(records) > 30 and (differ or not any(cost))


@pytest.mark.parametrize("victims", ["last", "waste"])
def test_quota_by_forecast(victims):
    """A window of a second makes a day of 24 s, so that earlier days count."""
    kept = []
    for percent, window_s in ((1, 1), (60, 1), (100, 5)):
        how = {"forecast_percent": percent, "forecast_window_s": window_s, "restart_s": 1}
        kept.append(stops(replays_equal(Policy("spot", victims=victims, **how))))
    assert kept[-1] < kept[0]


def test_days_before_count():
    """Some forecast is not that of the present: the oracle's knows of earlier days."""
    policy = Policy("spot", forecast_percent=100, forecast_window_s=1)
    longer = 0
    for table in TABLES:
        oracle = Simulation(jobs_of(table), CLUSTER.num_servers, CLUSTER.gpus_per_server, policy)
        oracle.run()
        now = oracle.time
        longer += oracle.forecast() > oracle.largest_demand() + oracle.rise(now - 1)
    assert longer > 2


def test_checkpoints_of_other_orders():
    records = replays_equal(Policy("las", thresholds=(5, 20), checkpoint_s=4, restart_s=1))
    lost = [each.held - each.duration - each.preemptions for each in records]
    assert min(map(np.min, lost)) >= 0 and max(map(np.max, lost)) > 0
    kept = replay_batch(TABLES, CLUSTER, Policy("las", thresholds=(5, 20), restart_s=1))
    for each in kept:
        np.testing.assert_array_equal(each.held, each.duration + each.preemptions)


def test_quota_by_hand():
    """The day before (of 24 windows of 10 s), the demand rose by 3 of 4 GPUs at this hour.

    So at 240 one spot job of a GPU may run beside no high-priority job; the next one waits until
    260, when the two windows that count are others, and decisions are taken at submissions.
    """
    jobs = {
        "submit_time": [0, 240, 240, 260],
        "num_gpus": [3, 1, 1, 1],
        "duration": [5, 100, 100, 1],
        "priority": [1, 0, 0, 1],
    }
    how = {"forecast_percent": 100, "forecast_window_s": 10}
    records = replay(jobs, Cluster(1, 4), Policy("spot", **how))
    assert records.start.tolist() == [0, 240, 260, 260]
    records = replay(jobs, Cluster(1, 4), Policy("spot", forecast_percent=50, forecast_window_s=10))
    assert records.start.tolist() == [0, 240, 240, 260]  # the median of 0 and 3 GPUs is 0


def test_rises_come_on_top_of_the_demand():
    """Of 8 GPUs 2 are held at 245; yesterday 3 came within the hour, beside 2 from before.

    So 3 are kept free. At 290 the present is all that counts: 2 GPUs are free again, none comes.
    """
    jobs = {
        "submit_time": [0, 15, 255, 256, 256],
        "num_gpus": [2, 3, 2, 3, 1],
        "duration": [30, 5, 35, 90, 90],
        "priority": [1, 1, 1, 0, 0],
    }
    policy = Policy("spot", forecast_percent=100, forecast_window_s=10)
    assert replay(jobs, Cluster(1, 8), policy).start.tolist() == [0, 15, 255, 256, 290]


def test_least_waste_by_hand():
    """At 25 the jobs of two, one and one GPUs have lost 5, 15 and 9 s since their checkpoints."""
    jobs = {
        "submit_time": [0, 10, 16, 25],
        "num_gpus": [2, 1, 1, 1],
        "duration": [100, 100, 100, 10],
        "priority": [0, 0, 0, 1],
    }
    victim = {}
    for checkpoint_s, restart_s in ((20, 0), (20, 10), (5, 0), (0, 0)):
        policy = Policy("spot", victims="waste", checkpoint_s=checkpoint_s, restart_s=restart_s)
        records = replay(jobs, Cluster(1, 4), policy)
        victim[checkpoint_s, restart_s] = records.preemptions.tolist()
        lost = records.held - records.duration - restart_s * records.preemptions
        assert lost.sum() == {20: 9, 5: 4, 0: 0}[checkpoint_s] or checkpoint_s == 5
    assert victim[20, 0] == [0, 0, 1, 0]  # 2 * 5, 15 and 9
    assert victim[20, 10] == [0, 0, 1, 0]  # 2 * 15, 25 and 19
    assert victim[5, 0] == [0, 1, 0, 0]  # 0, 0 and 4: the later of two
    assert victim[0, 0] == [0, 0, 1, 0]  # nobody loses: the last


def test_the_cheapest_server_is_cleared():
    """Two servers of two GPUs: a job of two that has just begun, or two that have run for long.

    The single jobs waste least one by one (7 and 7 GPU-seconds, the pair 8), but both would go.
    """
    jobs = {
        "submit_time": [0, 0, 3, 7],
        "num_gpus": [1, 1, 2, 2],
        "duration": [50, 50, 50, 5],
        "priority": [0, 0, 0, 1],
    }
    waste = Policy("spot", victims="waste", checkpoint_s=2**30)
    records = replay(jobs, Cluster(2, 2), waste)
    assert records.preemptions.tolist() == [0, 0, 1, 0]
    assert records.end.tolist() == [50, 50, 62, 12] and records.held.tolist() == [50, 50, 54, 5]
    figures = by_priority(records, np.array([False, False, False, True]))
    assert figures == pytest.approx(
        {
            "high_avg_jct": 5,
            "high_avg_wait": 0,
            "high_p99_wait": 0,
            "spot_avg_jct": (50 + 50 + 59) / 3,
            "spot_avg_wait": 0,
            "spot_avg_queued": 5 / 3,
            "eviction_rate": 1 / 4,
            "wasted_gpu_s": 2 * 4,
            "wasted_share": 8 / (50 + 50 + 2 * 54),
        }
    )
    assert by_priority(records, np.ones(4, bool)) == {}


def test_policies_with_one_cost():
    names = ("spot-lossy", "spot-lossy-headroom", "gfs-quota", "gfs-victims", "gfs")
    costs = {(POLICIES[name].restart_s, POLICIES[name].checkpoint_s) for name in names}
    assert costs == {(300, 1800)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy("spot", victims="first"), "victims is 'first'; accepted: last, waste"),
        (lambda: Policy("srtf", victims="waste"), "victims waste with order srtf; accepted: spot"),
        (lambda: Policy("spot", forecast_percent=101), "forecast_percent is 101; accepted: a who"),
        (lambda: Policy("spot", forecast_window_s=0), "forecast_window_s is 0; .* from 1 to 107"),
        (lambda: Policy("las", forecast_percent=5), "forecast_percent with order las and mode sk"),
        (
            lambda: Policy("spot", "block", forecast_percent=5),
            "order spot and mode block; accepted",
        ),
        (
            lambda: Policy("spot", forecast_percent=5, headroom_percent=5),
            "headroom_percent with forecast_percent; accepted: one or the other",
        ),
        (lambda: Policy("fifo", checkpoint_s=5), "checkpoint_s with order fifo, which suspends no"),
        (lambda: Policy("spot", checkpoint_s=-1), "checkpoint_s is -1; accepted: a whole number"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(JaxschedError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
