"""What is said of the jobs of a given schedule is what a replay says of its own."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster
from jaxsched.trace_replay.forecasts import LATER, Schedule, forecasts
from jaxsched.trace_replay.replays import observed

CLUSTER = Cluster(2, 4)


def table(num_jobs=60):
    draw = np.random.default_rng(0)
    return {
        "submit_time": np.sort(draw.integers(0, 40_000, num_jobs)),
        "num_gpus": draw.choice([1, 2, 4], num_jobs),
        "duration": draw.integers(1, 6_000, num_jobs),
        "group": draw.integers(0, 4, num_jobs),
    }


@pytest.mark.parametrize("name", ["learned-once", pytest.param("qssf", marks=pytest.mark.extended)])
def test_features_and_order_are_those_of_the_replay(name):
    jobs = table()
    records, seen = observed(jobs, CLUSTER, POLICIES[name])
    assert np.mean(records.start > records.submit) > 0.5
    schedule = Schedule(records.submit, records.num_gpus, jobs["group"], records.start, records.end)
    levels, features = forecasts(schedule, name)
    np.testing.assert_array_equal(features, seen)
    assert len(np.unique(levels)) > 10
    # now: what has not happened yet changes nothing
    now = int(np.median(records.submit))
    here = records.submit <= now
    so_far = Schedule(
        *(column[here] for column in schedule[:3]),
        *(np.where(column[here] <= now, column[here], LATER) for column in schedule[3:]),
    )
    found, _ = forecasts(so_far, name)
    np.testing.assert_array_equal(found, levels[here])


def test_bad_input_is_one_line():
    one = np.ones(2, np.int64)
    jobs = Schedule(np.array([5, 3]), one, one, one, one)
    with pytest.raises(JaxschedError, match="accepted: sorted ones"):
        forecasts(jobs, "qssf")
    with pytest.raises(JaxschedError, match="accepted: qssf, learned, learned-once"):
        forecasts(jobs, "magic")
