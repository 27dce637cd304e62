"""By what MLF-C stops jobs; predictions: exact without error, the error asked for with one."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs.rules.dynamics import stop_limit
from jaxsched.envs.mlfs.rules.tables import Job, accuracy, predicted_stops, predicted_times, unpack
from jaxsched.errors import JaxschedError


@pytest.fixture(scope="module")
def table():
    return traces.get("mlfs-small-x3", num_traces=1, num_jobs=400)[0]


def test_without_error_jobs_stop_where_they_should(table):
    found = predicted_stops(table, 0)
    np.testing.assert_array_equal(found["stop_optimal"], table["opt_iter"])
    np.testing.assert_array_equal(found["stop_target"], table["req_iter"])


def test_stops_are_the_first_iterations_of_the_predicted_curve(table):
    """By search along the curve; the error is read back from where long jobs stop."""
    slope, error = table["curve_a"] / 1000, 10
    stops = predicted_stops(table, error)["stop_target"]
    true = accuracy(slope * table["req_iter"])
    inside = (stops > 1) & (stops < table["iterations"])
    # 1 + e lies between these two, as the first iteration that is enough says.
    least, most = (
        (true / accuracy(slope * np.maximum(n, 0.001)))[inside] - 1 for n in (stops, stops - 1)
    )
    assert np.all(least <= most)
    early = least > 0  # of too much confidence; too little may ask for more than can be reached
    assert early.sum() > 100
    assert least[early].mean() < error / 100 + 0.01
    assert most[early].mean() > error / 100 - 0.01
    assert np.all((stops >= 1) & (stops <= table["iterations"]))
    assert (stops < table["req_iter"]).any()
    assert (stops > table["req_iter"]).any()


def test_all_policies_meet_the_same_errors_and_targets_stay_true(table):
    env = MLFS(prediction_error=10)
    once, again = (unpack(np.asarray(env.params([table]).rows)) for _ in range(2))
    exact = unpack(np.asarray(MLFS().params([table]).rows))
    np.testing.assert_array_equal(once.stop_target, again.stop_target)
    np.testing.assert_array_equal(once.req_iter, exact.req_iter)
    assert (once.stop_target != exact.stop_target).any()
    with pytest.raises(JaxschedError, match="prediction_error"):
        MLFS(prediction_error=101)


def test_run_times_are_believed_with_the_error_that_is_asked_for(table):
    told, exact = (
        unpack(np.asarray(MLFS(run_time_error=error).params([table]).rows)[:-1])
        for error in (30, 0)
    )
    ratio = told.total_work / exact.total_work
    assert abs(np.mean(np.abs(ratio - 1)) - 0.3) < 0.03
    for name in ("critical", "tail"):  # by one factor for each job, rounded down
        true, believed = getattr(exact, name), getattr(told, name)
        factor = ratio if true.ndim == 1 else np.broadcast_to(ratio[:, None], true.shape)
        np.testing.assert_allclose(believed, true * factor, atol=1.1, rtol=1e-3)
        assert ((believed > 0) == (true > 0)).all()
    for name in ("work", "stop_target", "deadline_min", "worker_mb"):
        np.testing.assert_array_equal(getattr(told, name), getattr(exact, name))
    accuracies = unpack(np.asarray(MLFS(prediction_error=30).params([table]).rows)[:-1])
    assert abs(np.corrcoef(ratio, accuracies.stop_target / exact.stop_target)[0, 1]) < 0.2


def test_a_believed_run_time_fits_32_bits(table):
    longest = (2**31 - 1) // (table["iterations"] + 1)
    told = predicted_times(table, {"total_work": longest}, 100)["total_work"]
    assert (told * (table["iterations"] + 1) < 2**31).all()
    assert (told >= longest - 1).any() and (told < longest / 2).any()


def stops(early_stop, *, busy, done=10, allow=2, deadline_min=200):
    """Of a job of 100 iterations of a minute at minute 100, whose predictor asks for too few."""
    values = dict.fromkeys(Job._fields, 0) | dict(
        iterations=100, req_iter=60, stop_target=30, stop_optimal=80, critical=1000, option=1
    )
    values |= {"allow": allow, "deadline_min": deadline_min}
    jobs = Job(**{name: jnp.full(1, value, jnp.int32) for name, value in values.items()})
    rules = MLFS(early_stop=early_stop).rules
    return int(stop_limit(rules, jobs, jnp.full(1, done), jnp.int32(100), jnp.bool_(busy))[0])


def test_what_stops_a_job():
    """Worked by hand: 50 iterations are missing, which end at minute 150 at the earliest."""
    assert [stops("predicted", busy=busy) for busy in (False, True)] == [80, 30]
    assert [stops("achieved", busy=busy) for busy in (False, True)] == [60, 60]
    assert stops("achieved", busy=True, allow=1) == 80
    assert stops("hopeless", busy=True, deadline_min=150) == 60
    assert stops("hopeless", busy=True, deadline_min=149) == 10
    assert stops("hopeless", busy=False, deadline_min=149) == 60
    assert stops("hopeless", busy=True, deadline_min=149, done=0) == 1
    assert stops("hopeless", busy=True, deadline_min=99, done=60) == 60
    assert stops("achieved", busy=True, deadline_min=149) == 60
