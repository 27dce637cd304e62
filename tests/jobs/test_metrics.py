"""Metrics against values computed by hand."""

import numpy as np
import pytest

from jaxsched.jobs import metrics
from jaxsched.jobs.metrics import METRICS, JobRecords

# Two episodes of three jobs on a cluster of four GPUs; in the second the last job never started.
RECORDS = JobRecords(
    started=np.array([[True, True, True], [True, True, False]]),
    submit=np.array([[0, 10, 10], [0, 5, 7]]),
    start=np.array([[0, 10, 110], [20, 5, -1]]),
    finish=np.array([[100, 40, 310], [40, 205, -1]]),
    duration=np.array([[100, 30, 100], [10, 50, 70]]),
    num_gpus=np.array([[3, 1, 4], [2, 1, 4]]),
)
EMPTY = RECORDS._replace(
    started=np.zeros((2, 3), bool), start=np.full((2, 3), -1), finish=np.full((2, 3), -1)
)
EXPECTED = {
    "finished": [3, 2],
    "avg_jct": [(100 + 30 + 300) / 3, (40 + 200) / 2],
    "makespan": [310, 205],
    "avg_wait": [100 / 3, (20 + 0) / 2],
    "avg_run": [(100 + 30 + 200) / 3, (20 + 200) / 2],
    "avg_slowdown": [(1 + 1 + 3) / 3, (4 + 4) / 2],
    "avg_effectiveness": [(1 + 1 + 1 / 3) / 3, (1 / 4 + 1 / 4) / 2],
    "utilization": [(300 + 30 + 800) / (4 * 310), (40 + 200) / (4 * 205)],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_by_hand(name):
    np.testing.assert_allclose(metrics.common(RECORDS, 4)[name], EXPECTED[name], rtol=1e-15)


@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_started_gives_zero(name):
    np.testing.assert_array_equal(metrics.common(EMPTY, 4)[name], [0, 0])


@pytest.mark.parametrize("name", EXPECTED)
def test_no_jobs_give_zero(name):
    none = JobRecords(*(leaf[:, :0] for leaf in RECORDS))
    np.testing.assert_array_equal(metrics.common(none, 4)[name], [0, 0])


def test_one_episode_needs_no_episode_axis():
    first = JobRecords(*(leaf[0] for leaf in RECORDS))
    for name, value in metrics.common(first, 4).items():
        assert np.shape(value) == ()
        assert value == pytest.approx(EXPECTED[name][0], rel=1e-15)


def test_each_metric_is_described():
    assert set(metrics.common(RECORDS, 4)) == set(EXPECTED) <= set(METRICS)
    for metric in METRICS.values():
        assert metric.label
        assert metric.definition
        assert metric.digits >= 0


def test_long_episodes_are_exact():
    """Sums of whole seconds far above what float32 or int32 hold."""
    n = 100_000
    late = np.full(n, 2**29)
    records = JobRecords(
        started=np.ones(n, bool),
        submit=np.zeros(n, np.int64),
        start=late,
        finish=late + 3,
        duration=np.full(n, 3),
        num_gpus=np.ones(n, np.int64),
    )
    assert metrics.avg_wait(records) == 2**29
    assert metrics.avg_jct(records) == 2**29 + 3
    assert metrics.avg_run(records) == 3
    assert metrics.utilization(records, 1) == pytest.approx(3 * n / (2**29 + 3), rel=1e-15)


def test_masked_mean():
    values = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    mask = np.array([[True, True, False], [False, False, True], [False, False, False]])
    np.testing.assert_array_equal(metrics.masked_mean(values, mask), [1.5, 6, 0])
    np.testing.assert_array_equal(metrics.masked_mean(mask, np.ones_like(mask)), [2 / 3, 1 / 3, 0])
    assert metrics.masked_mean(np.zeros(0), np.zeros(0, bool)) == 0
