"""Task graphs by hand and against a literal walk over the tasks."""

import re

import numpy as np
import pytest

from jaxsched.envs.mlfs.jobs import (
    MAX_PARTITIONS,
    MAX_TASKS,
    MODELS,
    SIZES,
    TASK_JOBS,
    as_rigid,
    busy_gpu_seconds,
    critical_path,
    graph_shape,
    problem_with,
    tails,
    total_work,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable, from_records, stack_tables, validate

ALEXNET, RESNET, MLP, LSTM, SVM = range(5)


def job(**changes):
    record = {
        **{"submit_time": 7, "num_gpus": 2, "model": MLP, "iterations": 2, "opt_iter": 2},
        **{"req_iter": 2, "work": [1500, 2200], "size": [400, 600], "gpu_demand": 400, "cpus": 2},
        **{"mem": 8, "vol_worker": 60, "vol_ps": 80, "deadline": 36000, "urgency": 5},
        **{"curve_a": 1000, "acc_max": 0.9, "option": 0, "allow": 0},
    }
    return record | changes


def table(*jobs):
    return from_records(jobs, schema=TASK_JOBS, name="hand")


def parents(partition, width):
    """The tasks of the previous layer."""
    layer = partition // width
    return [] if layer == 0 else list(range((layer - 1) * width, layer * width))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ALEXNET, [(1, 1, 1), (1, 2, 1), (2, 2, 1), (2, 4, 1), (2, 8, 1), (2, 16, 1)]),
        (RESNET, [(1, 1, 1), (1, 2, 1), (2, 2, 1), (2, 4, 2), (2, 8, 4), (2, 16, 4)]),
        (SVM, [(1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (16, 1, 1), (32, 1, 1)]),
    ],
)
def test_shapes_of_the_models(model, expected):
    shape = graph_shape(np.full(len(SIZES), model), np.array(SIZES))
    assert list(zip(*(part.tolist() for part in shape), strict=True)) == expected
    twin = {ALEXNET: MLP, RESNET: LSTM, SVM: SVM}[model]
    for mine, other in zip(shape, graph_shape(np.full(6, twin), np.array(SIZES)), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_every_shape_fits_the_static_ones():
    model, gpus = (part.ravel() for part in np.meshgrid(np.arange(len(MODELS)), SIZES))
    replicas, partitions, width = graph_shape(model, gpus)
    np.testing.assert_array_equal(replicas * partitions, gpus)
    assert gpus.max() == MAX_TASKS and partitions.max() == MAX_PARTITIONS
    assert not np.any(partitions % width), "a layer is not full"


def test_paths_by_hand():
    """A chain of two; two layers of two; one task twice."""
    work = np.array([[1500, 2200, 0, 0], [5, 9, 4, 3], [70, 0, 0, 0]])
    partitions, width = np.array([2, 4, 1]), np.array([1, 2, 1])
    assert critical_path(work, partitions, width).tolist() == [3700, 9 + 4, 70]
    found = tails(work, partitions, width)
    assert found.shape == (3, MAX_PARTITIONS)
    assert found[:, :4].tolist() == [[2200, 0, 0, 0], [4, 4, 0, 0], [0, 0, 0, 0]]
    assert not found[:, 4:].any()
    assert total_work(work, np.array([1, 2, 8])).tolist() == [3700, 42, 560]


def test_paths_agree_with_a_walk_over_the_parents():
    rng = np.random.default_rng(0)
    model, gpus = rng.integers(5, size=60), rng.choice(SIZES, 60)
    replicas, partitions, width = graph_shape(model, gpus)
    work = rng.integers(1, 9, (60, MAX_PARTITIONS))
    work[np.arange(MAX_PARTITIONS) >= partitions[:, None]] = 0
    path, tail = critical_path(work, partitions, width), tails(work, partitions, width)
    for row in range(60):
        longest = {}  # the heaviest way from the partition to a sink, the partition included
        for p in reversed(range(partitions[row])):
            below = [c for c in range(partitions[row]) if p in parents(c, width[row])]
            longest[p] = work[row, p] + max((longest[c] for c in below), default=0)
            assert tail[row, p] == longest[p] - work[row, p]
        assert path[row] == max(longest.values())
    tasks = [row for row in range(60) for _ in range(replicas[row])]
    np.testing.assert_array_equal(
        total_work(work, replicas), np.bincount(tasks, work.sum(axis=1)[tasks])
    )


def test_rigid_jobs_and_busy_time():
    jobs = table(job(), job(model=SVM, num_gpus=8, work=[1], size=[1000], iterations=2))
    rigid = as_rigid(jobs)
    assert rigid.schema == RIGID_JOBS
    assert rigid["duration"].tolist() == [2 * 222, 1]
    assert rigid["num_gpus"].tolist() == [2, 8] and rigid["model"].tolist() == [0, 0]
    assert as_rigid(rigid) is rigid
    assert busy_gpu_seconds(jobs) == pytest.approx([2 * 222 * 0.4, 2 * 8 * 0.06 * 0.4])


def test_records_and_bounds():
    jobs = validate(table(job(), job(num_gpus=1, work=[9], size=[1000])), from_zero=False)
    assert jobs["work"].tolist() == [[1500, 2200], [9, 0]]
    assert problem_with(jobs) is None
    stacked = stack_tables([jobs, jobs.take([1])], schema=TASK_JOBS, from_zero=False)
    assert stacked.columns["work"].tolist() == [[[1500, 2200], [9, 0]], [[9, 0], [1, 0]]]
    assert stacked.columns["work"].dtype == np.int32
    for column in TASK_JOBS:
        assert column.maximum < 2**31
        wrong = column.maximum + 1
        value = [3, wrong] if column.kind == "wholes" else wrong
        with pytest.raises(JaxschedError, match=f"job 0: {column.name} is .*accepted"):
            validate(table(job(**{column.name: value})), from_zero=False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_gpus": 3}, "num_gpus is 3; accepted: 1, 2, 4, 8, 16, 32"),
        ({"num_gpus": 4, "work": [1]}, r"work is \[1\]; accepted: 2 numbers above 0 \(MLP on 4"),
        ({"size": [1, 2, 3]}, r"size is \[1, 2, 3\]; accepted: 2 numbers"),
        ({"num_gpus": 8, "work": [1, 0, 2, 3]}, r"work is \[1, 0, 2, 3\]; accepted: 4 numbers"),
        ({"model": SVM}, r"work is \[1500, 2200\]; accepted: 1 numbers"),
        ({"work": list(range(1, 21))}, r"work is .*accepted: 2 numbers"),
        ({"req_iter": 3}, "req_iter is 3; accepted: from 1 to its iterations, 2"),
        ({"opt_iter": 0}, "opt_iter is 0; accepted: from 1"),
        ({"iterations": 2**15, "work": [2**20] * 2}, r"work of all tasks is \d+; accepted: below"),
        ({"iterations": 2**15, "curve_a": 2**20}, r"curve_a x iterations\) is \d+; accepted:"),
    ],
)
def test_tables_that_are_no_task_graphs(changes, reason):
    problem = problem_with(table(job(), job(**changes)))
    assert problem.job == 1
    assert re.search(reason, problem.reason)


def test_missing_columns_are_named():
    short = JobTable({"submit_time": [0], "work": [[1]]}, schema=TASK_JOBS)
    with pytest.raises(JaxschedError, match="column 'num_gpus' is missing"):
        validate(short)
