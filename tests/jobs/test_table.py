import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.jobs import (
    RIGID_JOBS,
    Column,
    JobTable,
    digest_tables,
    from_records,
    rescale_arrivals,
    stack_tables,
    validate,
)


def table(submit=(0, 5, 5), gpus=(1, 8, 2), duration=(10, 20, 30), model=(0, 5, 3), name="hand"):
    columns = {"submit_time": submit, "num_gpus": gpus, "duration": duration, "model": model}
    return JobTable({key: list(values) for key, values in columns.items()}, name)


def refusal(call, *args, **kwargs):
    with pytest.raises(JaxschedError) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message and "accepted" in message
    return message


def test_columns_are_read_only_copies():
    source = np.array([0, 5, 5])
    jobs = table(submit=source)
    source[1] = 99
    assert jobs["submit_time"].tolist() == [0, 5, 5]
    assert jobs["submit_time"].dtype == np.int64
    assert len(jobs) == 3
    with pytest.raises(ValueError, match="read-only"):
        jobs["duration"][0] = 1
    with pytest.raises(TypeError):
        jobs.columns["duration"] = source


def test_whole_numbers_of_any_numeric_type_are_taken():
    jobs = table(gpus=np.array([1, 8, 2], np.uint8), duration=[10.0, np.float32(20), np.int16(30)])
    assert jobs["num_gpus"].tolist() == [1, 8, 2]
    assert jobs["duration"].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), float("inf"), None, "3", True, np.bool_(True), [1], {}, 2**63, 1j]
)
def test_other_values_are_refused(value):
    assert "table 'hand', job 1: duration is" in refusal(table, duration=[10, value, 30])


def test_values_that_are_not_columns_are_refused():
    assert "no columns" in refusal(JobTable, {})
    assert "model is 7" in refusal(JobTable, {"model": 7})
    assert "model is 'abc'" in refusal(JobTable, {"model": "abc"})
    assert "shape (1, 2)" in refusal(JobTable, {"model": np.zeros((1, 2))})
    assert "submit_time 3, num_gpus 2" in refusal(table, gpus=(1, 8))
    with pytest.raises(JaxschedError, match="has no column 'colour'; it has submit_time"):
        table()["colour"]


def test_digest_depends_on_values_and_names_of_columns_alone():
    assert table().digest() == ("cb224050131424ee56bd67be1a511007433308b1a12c7eff04ac38b7f9c378c9")
    assert table().digest() == table(name="other").digest()
    assert table().digest() != table(duration=(10, 20, 31)).digest()
    swapped = JobTable(dict(reversed(table().columns.items())))
    assert swapped.digest() == table().digest()
    assert digest_tables([table()]) != digest_tables([table(), table()])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpus": (1, 9, 2)}, "job 1: num_gpus is 9; accepted: a whole number from 1 to 8 (GPUs)"),
        ({"gpus": (0, 8, 2)}, "job 0: num_gpus is 0; accepted: a whole number from 1 to 8 (GPUs)"),
        ({"duration": (10, 20, 0)}, "job 2: duration is 0; accepted: a whole number from 1 to"),
        ({"duration": (10, 2**23 + 1, 1)}, "job 1: duration is 8388609; accepted:"),
        ({"model": (0, 6, 3)}, "job 1: model is 6; accepted: a whole number from 0 to 5 (id)"),
        ({"model": (-1, 6, 3)}, "job 0: model is -1; accepted: a whole number from 0 to 5 (id)"),
        ({"submit": (0, 9, 5)}, "job 2: submit_time is 5, before the 9 of the previous job"),
        ({"submit": (5, 9, 9)}, "job 0: submit_time is 5; accepted: 0 for the first job"),
        ({"submit": (0, 0, 2**30)}, "job 2: submit_time is 1073741824; accepted:"),
        ({"submit": (-1, 0, 0)}, "job 0: submit_time is -1; accepted:"),
    ],
)
def test_tables_a_system_cannot_run_are_refused(changes, expected):
    message = refusal(validate, table(**changes), max_gpus=8, num_models=6)
    assert message.startswith("table 'hand', ")
    assert expected in message


def test_accepted_and_structurally_wrong_tables():
    jobs = table(duration=(1, 2**23, 5), submit=(0, 0, 2**30 - 1))
    assert validate(jobs, max_gpus=8, num_models=6) is jobs
    assert "has no jobs" in refusal(validate, table((), (), (), ()), max_gpus=8, num_models=6)
    assert "column 'submit_time' is missing" in refusal(validate, JobTable({"model": [1]}))


def test_another_schema():
    schema = (Column("workers", 2, 4, "workers", "workers of a job"),)
    assert len(validate(JobTable({"workers": [4, 2]}), schema=schema)) == 2
    with pytest.raises(JaxschedError, match="job 1: workers is 1; accepted: a whole number from 2"):
        validate(JobTable({"workers": [4, 1]}), schema=schema)


def test_records():
    record = {"submit_time": 0, "num_gpus": 2, "duration": 7, "model": 1, "note": "ignored"}
    jobs = from_records([record], name="case")
    assert {key: values.tolist() for key, values in jobs.columns.items()} == {
        "submit_time": [0],
        "num_gpus": [2],
        "duration": [7],
        "model": [1],
    }
    del record["model"]
    message = refusal(from_records, [record], name="case")
    assert message.startswith("table 'case', job 0: 'model' is missing")
    assert "job 0: found 3" in refusal(from_records, [3])
    assert "accepted: a list of objects" in refusal(from_records, {"jobs": []})
    assert len(from_records([])) == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
job_like = st.fixed_dictionaries(
    {},
    optional={column.name: st.integers(-1, 9) | st.floats() | json_values for column in RIGID_JOBS},
)


@given(st.lists(job_like | json_values, max_size=4) | json_values)
def test_whatever_json_holds_only_our_error_is_raised(records):
    try:
        jobs = validate(from_records(records), max_gpus=8, num_models=6)
    except JaxschedError as error:
        assert "\n" not in str(error)
    else:
        assert jobs["submit_time"][0] == 0
        assert json.dumps(jobs["num_gpus"].tolist())


def test_stacking_pads_with_jobs_that_never_arrive():
    short = JobTable({"submit_time": [0], "num_gpus": [4], "duration": [9], "model": [2]}, "short")
    stacked = stack_tables([table(), short])
    assert stacked.names == ("hand", "short")
    np.testing.assert_array_equal(stacked.num_jobs, [3, 1])
    expected = {
        "submit_time": [[0, 5, 5], [0, 2**30, 2**30]],
        "num_gpus": [[1, 8, 2], [4, 1, 1]],
        "duration": [[10, 20, 30], [9, 1, 1]],
        "model": [[0, 5, 3], [2, 0, 0]],
    }
    assert list(stacked.columns) == list(expected)
    for name, values in stacked.columns.items():
        assert values.dtype == np.int32
        np.testing.assert_array_equal(values, expected[name])
    assert "no job tables" in refusal(stack_tables, [])
    assert "job 0: submit_time" in refusal(stack_tables, [table(submit=(2**40, 2**40, 2**40))])


LISTS = (
    Column("submit_time", 0, 100, "s", "submission"),
    Column("parts", 1, 9, "parts", "of a job", "wholes"),
)


def lists(*parts, name="lists"):
    records = [{"submit_time": at, "parts": part} for at, part in enumerate(parts)]
    return from_records(records, schema=LISTS, name=name)


def test_lists_of_whole_numbers_of_any_length():
    jobs = validate(lists([3], (1.0, np.int8(2)), np.array([4, 5, 6]), [7, 0, 0, 0]))
    assert jobs["parts"].tolist() == [[3, 0, 0], [1, 2, 0], [4, 5, 6], [7, 0, 0]]
    assert jobs["parts"].dtype == np.int64
    assert jobs.take([0, 3])["parts"].tolist() == [[3], [7]]
    assert len(from_records([], schema=LISTS)) == 0


def test_zeros_at_the_end_of_lists_do_not_count():
    jobs = lists([3, 1], [2])
    padded = JobTable(
        {"submit_time": [0, 1], "parts": np.array([[3, 1, 0, 0], [2, 0, 0, 0]])}, schema=LISTS
    )
    assert padded.digest() == jobs.digest()
    assert lists([3, 1], [2], [1, 2, 3]).take([0, 1]).digest() == jobs.digest()
    assert lists([3, 1], [0, 2]).digest() != jobs.digest()
    assert lists([3], [1, 2]).digest() != jobs.digest()


def test_padded_lists_are_stacked():
    stacked = stack_tables([lists([3, 1], [2]), lists([4, 5, 6])], schema=LISTS).columns["parts"]
    assert stacked.tolist() == [[[3, 1, 0], [2, 0, 0]], [[4, 5, 6], [1, 0, 0]]]
    assert stacked.dtype == np.int32


@pytest.mark.parametrize("part", [[10], [1, -1], [0, 3], [], [0]])
def test_lists_outside_the_bounds(part):
    message = refusal(validate, lists([1], part))
    assert "job 1: parts is [" in message
    assert "accepted: whole numbers from 1 to 9 (parts)" in message


def test_lists_may_hold_zeros_where_zero_is_in_the_bounds():
    schema = (LISTS[0], LISTS[1]._replace(minimum=0))
    records = [{"submit_time": 0, "parts": part} for part in ([0, 3], [])]
    assert len(validate(from_records(records, schema=schema))) == 2


@pytest.mark.parametrize("part", [3, None, "12", [1.5], [True], [[1]], ["1"], {1: 2}, [2**63]])
def test_what_is_no_list_of_whole_numbers(part):
    assert "table 'lists', job 1: parts is" in refusal(lists, [1], part)
    with pytest.raises(JaxschedError, match="parts is 5; accepted: a list of whole numbers for"):
        JobTable({"parts": 5}, schema=LISTS)


def test_arrivals_are_scaled_and_rounded_half_up():
    jobs = table(submit=(0, 1, 3))
    assert rescale_arrivals(jobs, 1.5)["submit_time"].tolist() == [0, 2, 5]
    assert rescale_arrivals(jobs, 0.5)["submit_time"].tolist() == [0, 1, 2]
    assert rescale_arrivals(jobs, 1.0).digest() == jobs.digest()
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        assert "interval scale" in refusal(rescale_arrivals, jobs, scale)
    assert "submit_time becomes" in refusal(rescale_arrivals, jobs, 1e12)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.floats(0.01, 100))
def test_scaling_keeps_the_order(gaps, scale):
    times = np.cumsum([0, *gaps[1:]])
    jobs = JobTable({"submit_time": times})
    scaled = rescale_arrivals(jobs, scale)["submit_time"]
    assert scaled[0] == 0 and np.all(np.diff(scaled) >= 0)
    assert np.all(np.abs(scaled - times * scale) <= 0.5)
