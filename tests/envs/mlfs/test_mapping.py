"""Real tables map to jobs of tasks as specified."""

import numpy as np
import pytest

from jaxsched.envs.mlfs.jobs import (
    SIZES,
    as_rigid,
    critical_path,
    graph_shape,
    problem_with,
    task_jobs,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, validate
from jaxsched.traces import get


@pytest.fixture(scope="module")
def real():
    return get("philly-sample", num_traces=1, num_jobs=2000)[0]


def rigid(gpus, duration):
    n = len(gpus)
    columns = {"submit_time": range(n), "num_gpus": gpus, "duration": duration, "model": [0] * n}
    return JobTable({name: list(values) for name, values in columns.items()}, "hand", ("before",))


def path(table):
    _, partitions, width = graph_shape(table["model"], table["num_gpus"])
    return critical_path(table["work"], partitions, width) * 60 / 1000


@pytest.mark.parametrize("uniform_gpus", [True, False])
def test_times_come_from_the_trace(real, uniform_gpus):
    jobs = task_jobs(real, seed=1, uniform_gpus=uniform_gpus)
    assert problem_with(validate(jobs)) is None
    np.testing.assert_array_equal(jobs["submit_time"], real["submit_time"])
    free = (jobs["iterations"] > 3) & (jobs["iterations"] < 200)
    assert free.mean() > 0.4
    off = np.abs(as_rigid(jobs)["duration"] - real["duration"])
    assert np.all(off[free] <= path(jobs)[free] / 2 + 1)
    shares = np.bincount(jobs["model"]) / len(jobs)
    np.testing.assert_allclose(shares, 0.2, atol=0.04)


def test_numbers_of_gpus_are_drawn_or_rounded_up(real):
    drawn = task_jobs(real, seed=1)
    assert np.unique(drawn["num_gpus"]).tolist() == list(SIZES)
    np.testing.assert_allclose(
        [np.mean(drawn["num_gpus"] == size) for size in SIZES], 1 / 6, atol=0.04
    )
    kept = task_jobs(rigid([1, 2, 3, 5, 9, 32, 33], [600] * 7), uniform_gpus=False)
    assert kept["num_gpus"].tolist() == [1, 2, 4, 8, 16, 32, 32]
    assert "3 numbers of GPUs rounded up" in kept.notes
    assert "1 jobs capped at 32 GPUs" in kept.notes
    assert "numbers of GPUs drawn at random" in drawn.notes


def test_run_times_that_no_number_of_iterations_reaches():
    table = rigid([1, 1, 1], [1, 3600, 2**22])
    jobs = task_jobs(table)
    assert jobs["iterations"][[0, 2]].tolist() == [3, 200]
    assert jobs.notes == (
        "before",
        "tasks, models, accuracy and deadlines drawn at random",
        "numbers of GPUs drawn at random",
        "1 run times raised to those of 3 iterations",
        "1 run times lowered to those of 200 iterations",
    )
    assert jobs.name == "hand"


def test_draws_depend_on_the_seed_alone(real):
    assert task_jobs(real, seed=1).digest() == task_jobs(real, seed=1).digest()
    assert task_jobs(real, seed=1).digest() != task_jobs(real, seed=2).digest()
    with pytest.raises(JaxschedError, match="seed is -1"):
        task_jobs(real, seed=-1)
