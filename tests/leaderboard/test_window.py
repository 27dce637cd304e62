"""The jobs that count, what is said of them, and whether their window is stationary."""

import numpy as np
import pytest

from jaxsched.jobs import JobTable
from jaxsched.leaderboard.window import (
    Window,
    figures,
    is_stationary,
    offered_load,
    utilization,
    waiting_by_quarter,
    window_of,
    worst_group,
)
from jaxsched.trace_replay import Cluster, Records


def records_of(submit, start, end, num_gpus=1, held=None):
    columns = [np.asarray(each, np.int64) for each in (submit, start, end)]
    submit, start, end = columns
    nothing = np.zeros(len(submit), np.int64)
    held = end - start if held is None else np.asarray(held)
    return Records(
        submit, nothing + num_gpus, held, start, end, nothing + 1, nothing, nothing, held
    )


def table_of(submit, num_gpus, duration):
    names = ("submit_time", "num_gpus", "duration")
    return JobTable(
        {n: np.array(v) for n, v in zip(names, (submit, num_gpus, duration), strict=True)}
    )


def test_the_middle_of_the_submissions_counts():
    table = table_of(range(0, 400, 10), [1] * 40, [5] * 40)
    assert window_of(table) == Window(4, 36, 40, 350)
    assert window_of(table.window(0, 3)) == Window(0, 3, 0, 20)
    assert window_of(table.window(0, 1)) == Window(0, 1, 0, 1)


def test_load_is_what_is_submitted_inside():
    table = table_of(range(0, 400, 10), [2] * 40, [5] * 40)
    found = offered_load(table, Cluster(1, 4), window_of(table))
    assert found == pytest.approx(32 * 10 / 4 / 310)


def test_the_queue_is_counted_by_quarter():
    records = records_of([0, 0, 15], [5, 20, 40], [6, 30, 50])
    found = waiting_by_quarter(records, Window(0, 3, 0, 40))
    np.testing.assert_allclose(found, [(5 + 10) / 10, (10 + 5) / 10, 1.0, 1.0])


def test_busy_gpus_are_those_in_the_window():
    records = records_of([0, 0], [0, 10], [20, 60], num_gpus=2, held=[20, 25])
    found = utilization(records, Cluster(1, 4), Window(0, 2, 10, 30))
    assert found == pytest.approx((10 * 2 + 20 * 0.5 * 2) / 4 / 20)


@pytest.mark.parametrize(
    ("waiting", "load", "busy", "steady"),
    [
        ([5, 6, 5, 6], 0.9, 0.88, True),
        ([1, 2, 3, 4], 0.9, 0.88, False),  # grows all the time
        ([3, 3.5, 4, 5], 0.9, 0.88, True),  # but does not double
        ([5, 6, 5, 6], 1.0, 0.95, False),
        ([0, 0, 0, 0], 0.9, 0.6, False),  # fills up
        ([5, 6, 5, 6], 0.6, 0.7, False),  # drains
    ],
)
def test_stationary_windows(waiting, load, busy, steady):
    assert is_stationary(waiting, load, busy) is steady


def test_slowdowns_are_bounded_and_inside():
    submit = np.arange(10) * 100
    wait = np.array([1000, 0, 0, 0, 0, 9, 90, 0, 0, 1000])
    duration = np.array([10, 1, 10, 10, 10, 1, 10, 10, 10, 10])
    records = records_of(submit, submit + wait, submit + wait + duration)
    table = table_of(submit, [1] * 10, duration)
    found = figures(records, table, Cluster(1, 8), window_of(table))
    assert found["avg_wait"] == pytest.approx(99 / 8), "the first and the last do not count"
    assert found["slowdown_p50"] == 1, "ten seconds for a job of one second are no slowdown"
    assert found["slowdown_p99"] == pytest.approx(1 + 9 * 0.93)
    assert found["makespan"] == records.end.max() and "worst_group" not in found


def test_the_worst_group_is_large_enough():
    group = np.repeat([0, 1, 2], [60, 60, 5])
    duration = np.full(125, 10)
    jct = np.repeat([20.0, 35.0, 1000.0], [60, 60, 5])
    assert worst_group(jct, duration, group) == pytest.approx(3.5)
    assert worst_group(jct[:60], duration[:60], group[:60]) is None, "one owner"
    assert worst_group(jct[::5], duration[::5], group[::5]) is None, "all too small"
