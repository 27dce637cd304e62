import gzip

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import swf

HEADER = """\
; Version: 2.2
; Computer: Some Machine
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Stockholm
; MaxNodes: 64
; MaxProcs: 128
; Note: between 10:00 and 11:00 nothing ran
;
"""
FIELDS = dict.fromkeys(swf.FIELDS, -1)


def row(**fields):
    assert fields.keys() <= FIELDS.keys()
    return "  ".join(str(value) for value in (FIELDS | fields).values()) + "\r\n"


def job(number, submit, **fields):
    usual = {"wait_time": 10, "run_time": 100, "allocated_processors": 4, "status": 1}
    return row(job_number=number, submit_time=submit, **(usual | fields))


def read(path, text):
    path.write_bytes(text.encode())
    assert recognise(path).name == "swf"
    return load_trace(path)


def refusal(path, text):
    with pytest.raises(JaxschedError) as caught:
        read(path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_fields_of_a_log_with_a_start(tmp_path):
    text = HEADER + " ".join(
        ["7 5 10 100 4 90.5 2048 8 3600 4096 1 3 2 9 6 1 -1 -1\n" + job(8, 6, status=0, user_id=4)]
    )
    trace = read(tmp_path / "SOME-2001.swf", text)
    assert (trace.name, trace.source, trace.clock) == ("SOME-2001", "swf", "utc")
    np.testing.assert_array_equal(trace["submit_time"], [1000000005, 1000000006])
    np.testing.assert_array_equal(trace["start_time"], [1000000015, 1000000016])
    np.testing.assert_array_equal(trace["end_time"], [1000000115, 1000000116])
    np.testing.assert_array_equal(trace["duration"], [100, 100])
    np.testing.assert_array_equal(trace["num_gpus"], [4, 4])
    np.testing.assert_array_equal(trace["requested_time"], [3600, np.nan])
    assert trace["job_id"].tolist() == ["7", "8"]
    assert trace["user"].tolist() == ["3", "4"]
    assert trace["group"].tolist() == ["6", ""]
    assert trace["status"].tolist() == ["completed", "failed"]
    assert trace.notes == (
        "processors are taken for GPUs, since the format has none",
        "the log's machine has MaxProcs 128, MaxNodes 64",
        "times are universal, the log's time zone is Europe/Stockholm",
    )


def test_what_is_dropped_and_imputed(tmp_path):
    text = "".join(
        (
            job(1, 0, partition_number=2, allocated_processors=-1, requested_processors=16),
            job(2, 3, status=2),
            job(2, -1, status=4),
            job(3, -1),
            job(4, 9, status=5, wait_time=-1, run_time=-1, allocated_processors=0),
            job(5, 9, status=-1, allocated_processors=-1),
        )
    )
    trace = read(tmp_path / "a.swf", text)
    assert (len(trace), trace.rows_read, trace.clock) == (3, 6, "relative")
    np.testing.assert_array_equal(trace["num_gpus"], [16, 0, np.nan])
    np.testing.assert_array_equal(trace["duration"], [100, np.nan, 100])
    np.testing.assert_array_equal(trace["start_time"], [10, np.nan, 19])
    assert trace["status"].tolist() == ["completed", "killed", ""]
    assert trace["group"].tolist() == ["2", "", ""]
    assert trace.notes == (
        "processors are taken for GPUs, since the format has none",
        "2 of 6 lines are parts of executions, dropped",
        "1 jobs have the processors they asked for, since none were allocated",
        "the group of a job is its partition, queues are not known",
        "1 jobs without a submission time dropped",
    )


def test_a_start_of_zero_or_in_words_is_none(tmp_path):
    for start in ("0", "UNKNOWN", "nan", ""):
        trace = read(tmp_path / "a.swf", f"; UnixStartTime: {start}\n" + job(1, 5))
        assert (trace.clock, trace["submit_time"].tolist()) == ("relative", [5])
        assert "group" not in trace


def test_gzip_and_a_long_header(tmp_path):
    path = tmp_path / "a.swf.gz"
    text = HEADER + "; more of it\n" * 10000 + job(1, 5)
    path.write_bytes(gzip.compress(text.encode()))
    assert recognise(path).name == "swf"
    assert (load_trace(path).name, len(load_trace(path))) == ("a", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (job(1, 5, status="x"), ", line 9: status is 'x'; accepted: a whole number"),
        (job(1, 5, wait_time="1e20"), ", line 9: wait_time is 1e+20; accepted: numbers up to"),
        (job(1, "x"), ", line 9: submit_time is 'x'; accepted: a number"),
        ("1 2 3\n", ", line 9: has 3 values; accepted: 18, job_number,submit_time"),
        ("", ": has no jobs; accepted: one row of fields per job"),
        (job(1, 2, status=3), ": none of its 1 lines is about a whole job with a submission time"),
    ],
)
def test_bad_logs(tmp_path, text, expected):
    assert refusal(tmp_path / "a.swf", HEADER + text).startswith(expected)
