"""What is odd about a log is found, counted and told; a clean one has nothing to be told."""

import numpy as np
import pytest

from jaxsched.advice.checks import check_log, peak_gpus
from jaxsched.advice.owners import OTHERS, Names, owners_of
from jaxsched.advice.spans import span_of
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import Cluster
from jaxsched.trace_replay.tables import from_trace
from jaxsched.traces.trace import Trace

CLUSTER = Cluster(2, 4)


def trace(**changes):
    """Four jobs that wait a little, one after the other."""
    columns = {
        "submit_time": [0.0, 100, 200, 300],
        "num_gpus": [1.0, 2, 4, 1],
        "duration": [50.0, 50, 50, 50],
        "start_time": [10.0, 110, 210, 310],
        "job_id": ["1", "2", "3", "4"],
        "user": ["a", "b", "a", "b"],
        **changes,
    }
    return Trace({k: np.array(v) for k, v in columns.items() if v is not None})


def found(log):
    return {each.name: each for each in check_log(log, CLUSTER)}


def test_a_clean_log_has_nothing_to_be_told():
    checks = found(trace())
    assert set(checks) == {"rows", "busiest"}
    assert not any(each.warns for each in checks.values())
    assert checks["rows"].num_rows == 4


@pytest.mark.parametrize(
    ("name", "count", "words", "changes"),
    [
        ("early", 2, "by up to 40 s", {"start_time": [10.0, 95, 160, 310]}),
        ("twice", 1, "number of an earlier job", {"job_id": ["1", "2", "2", "4"]}),
        ("jumps", 1, "by up to 100 s", {"submit_time": [0.0, 300, 200, 400]}),
        ("wide", 1, "more than 8 GPUs", {"num_gpus": [1.0, 9, 4, 1]}),
        ("no_starts", 1, "without a recorded start", {"start_time": [10.0, np.nan, 210, 310]}),
        ("no_starts", 4, "does not say when", {"start_time": None}),
        ("no_queue", 4, "shows no queue", {"start_time": [0.0, 100, 200, 300]}),
        ("unfinished", 1, "had not ended", {"status": ["running", "", "", "completed"]}),
        ("busiest", 10, "more GPUs", {"num_gpus": [1.0, 2, 8, 2], "duration": [50.0, 50, 200, 50]}),
    ],
)
def test_what_matters_is_told_as_such(name, count, words, changes):
    check = found(trace(**changes))[name]
    assert check.num_rows == count
    assert words in check.text
    assert check.warns


def test_rows_that_are_no_jobs_and_equal_rows_are_counted():
    checks = found(
        trace(num_gpus=[0.0, 2, 2, 1], submit_time=[0.0, 100, 100, 3e5], user=["a", "b", "b", "b"],
              duration=[0.0, 50, 50, 50], start_time=[np.nan, 110, 110, 3e5 + 1],
              status=["killed", "", "", ""])
    )  # fmt: skip
    assert "1 of them were cancelled before they ran" in checks["no_job"].text
    assert checks["alike"].num_rows == 1
    assert "3.47 days" in checks["silence"].text
    assert checks["rows"].num_rows == 3


def test_the_most_gpus_in_use():
    assert peak_gpus(trace(duration=[150.0, 150, 150, 50])) == 6
    assert peak_gpus(trace(duration=[100.0, 100, 100, 50])) == 4  # ends come before starts
    assert peak_gpus(trace(start_time=None)) is None


def days(count, per_day):
    submit = np.arange(count * per_day) * 86400.0 / per_day
    ones = np.ones(len(submit))
    return from_trace(Trace({"submit_time": submit, "num_gpus": ones, "duration": ones}))


@pytest.mark.parametrize(
    ("length", "per_day", "period", "number"),
    [(100, 10, "week", 5), (20, 10, "day", 7), (4, 48, "hour", 34)],
)
def test_periods(length, per_day, period, number):
    span = span_of(days(length, per_day))
    assert (span.period, span.num_periods) == (period, number)
    assert span.window.first == int(0.6 * length * per_day)
    assert np.all(np.diff(span.of) >= 0)
    assert len(span.of) == span.window.stop - span.window.first
    assert np.bincount(span.of).min() > 0


def test_owners_are_ordered_by_work_and_the_rest_is_one():
    log = trace(user=["a", "b", "c", "b"])
    names = Names(shown=True)
    owners = owners_of(log, slice(0, 4), names, most=2)
    assert owners.labels == ("c", "b", OTHERS)
    assert owners.of.tolist() == [2, 1, 0, 1]
    assert owners_of(trace(user=None), slice(0, 4), names).by == ""


def test_labels_are_the_same_with_the_same_key_and_others_with_another(tmp_path):
    first = Names()
    label = first.label("user", "anna")
    assert "anna" not in label
    first.write(tmp_path)
    assert Names.of(tmp_path).label("user", "anna") == label
    assert Names().label("user", "anna") != label
    (tmp_path / "names.json").write_text("[]")
    assert Names.of(tmp_path).names == {}


def test_an_owner_that_is_not_there():
    with pytest.raises(JaxschedError, match="accepted: user"):
        owners_of(trace(), slice(0, 4), Names(), by="group")
