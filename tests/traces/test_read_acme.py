import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import acme
from tests.traces.test_read_helios import write

SEREN, KALOS = (",".join(header) for header in acme.HEADERS)
SEREN_ROWS = (
    "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
    "2023-03-01 00:20:51+08:00,117,32,936.0",
    "5778469,u5907,1,0,128,Eval,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,"
    "2023-03-01 01:09:04+08:00,2693,13,0.0",
    "5778470,u1,2,16,256,Pretrain,CANCELLED,2023-03-01 00:24:00+08:00,,,0,0,0.0",
)
KALOS_ROWS = (
    "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
    "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0",
    "dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,"
    "2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0",
)


def test_seren(tmp_path):
    path = write(tmp_path / "trace_seren.csv", SEREN, *SEREN_ROWS)
    assert recognise(path).name == "acme"
    trace = load_trace(path)
    first = 1677629902  # 2023-03-01 00:18:22, as local time
    assert trace.clock == "local" and trace["submit_time"].tolist()[:2] == [first, first + 336]
    np.testing.assert_array_equal(trace["duration"], [117, 2693, np.nan])
    np.testing.assert_array_equal(trace["num_gpus"], [8, 0, 16])
    np.testing.assert_array_equal(trace["num_nodes"], [1, 1, 2])
    assert trace["model"].tolist() == ["Other", "Eval", "Pretrain"]
    assert trace["status"].tolist() == ["failed", "completed", "killed"]
    assert "group" not in trace
    assert trace.notes == ("1 jobs without start or end, their run times not known",)


def test_kalos(tmp_path):
    """The run times in its examples count from the submission."""
    trace = load_trace(write(tmp_path / "trace_kalos.csv", KALOS, *KALOS_ROWS))
    assert trace.clock == "utc" and trace["duration"].tolist() == [8, 70]
    assert trace.notes == ("2 run times are not those from start to end, which are taken",)


def test_jobs_without_an_end(tmp_path):
    """As Kalos' log has a few; what the log makes of their run times is not read."""
    running = (
        "dlc0000000000001,u1,2,16,240,500,,Pretrain,RUNNING,2023-08-30 01:02:03+00:00,"
        "2023-08-30 01:02:10+00:00,,,,86400,7.0,"
    )
    pending = (
        "dlc0000000000002,u1,1,8,120,500,100.0,Pretrain,PENDING,2023-08-30 01:02:03+00:00,,,,,0,,"
    )
    trace = load_trace(write(tmp_path / "trace_kalos.csv", KALOS, KALOS_ROWS[0], running, pending))
    assert trace["status"].tolist() == ["failed", "running", "pending"]
    np.testing.assert_array_equal(trace["duration"], [8, np.nan, np.nan])
    assert trace["start_time"][1] - trace["submit_time"][1] == 7
    assert "2 jobs without start or end, their run times not known" in trace.notes


def test_times_of_several_zones_are_noted(tmp_path):
    mixed = SEREN_ROWS[0].replace("18:22+08:00", "18:22+00:00")
    trace = load_trace(write(tmp_path / "t.csv", SEREN, mixed, *SEREN_ROWS[1:2]))
    assert trace.clock == "local"
    assert trace.notes == (
        "1 submissions are in universal time, others are not; zones were dropped",
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (SEREN_ROWS[0].replace(",8,128", ",x,128"), "line 2: gpu_num is 'x'; accepted: a number"),
        (SEREN_ROWS[0][:-6], "line 2: has 12 values; accepted: 13"),
    ],
)
def test_bad_rows_are_refused(tmp_path, row, expected):
    path = write(tmp_path / "t.csv", SEREN, row)
    with pytest.raises(JaxschedError) as caught:
        acme.read(path)
    assert str(caught.value).startswith(f"{path}, {expected}")
