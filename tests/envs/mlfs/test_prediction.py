"""MLF-C with predicted accuracies: exact without error, the error that is asked for with one."""

import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs.simulator.prediction import accuracy, predicted_stops
from jaxsched.envs.mlfs.simulator.tables import unpack
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
