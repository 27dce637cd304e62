import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import from_trace
from jaxsched.traces import arrow_rows, load_trace, recognise, with_spot_jobs
from jaxsched.traces.clusters import generate_trace
from jaxsched.traces.readers import spot_gpu
from tests.traces.test_read_helios import write

HEADER = ",".join(spot_gpu.COLUMNS)
ROWS = (
    "239255,13,A10,20,1,1,0,2764799,HP",
    "437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot",
    "437261,57,A100-SXM4-80GB,15,0.5,3,9589664,71718,Spot",
)


def test_columns(tmp_path, monkeypatch):
    path = write(tmp_path / "job_info_df.csv", HEADER, *ROWS)
    assert recognise(path).name == "spot-gpu"
    trace = load_trace(path)
    expected = {
        "submit_time": [0, 9589663, 9589664],
        "duration": [2764799, 41060, 71718],
        "num_gpus": [1, 16, 1.5],
        "num_instances": [1, 16, 3],
        "cpus": [20, 240, 45],
        "priority": [1, 0, 0],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(trace[name], values, name)
    assert trace["group"].tolist() == ["13", "57", "57"]
    assert trace["gpu_type"].tolist()[0] == "A10" and trace["job_id"].tolist()[0] == "239255"
    assert trace.clock == "relative"
    assert trace.notes == ("GPUs and cores are those of one worker times the workers",)
    assert from_trace(trace)["priority"].tolist() == [1, 0, 0]
    monkeypatch.setattr(arrow_rows, "LARGE_BYTES", 0)
    assert load_trace(path).digest() == trace.digest()


def test_columns_may_stand_in_any_order(tmp_path):
    """The table of servers was released with its columns in another order than described."""
    turned = [",".join(reversed(line.split(","))) for line in (HEADER, *ROWS)]
    trace = load_trace(write(tmp_path / "a.csv", *turned))
    assert trace.digest() == load_trace(write(tmp_path / "b.csv", HEADER, *ROWS)).digest()


def test_numbers_may_have_points(tmp_path):
    """The table as pandas writes it, beside whole numbers as in the README's examples."""
    whole = "12,3,H800,96,8,4,3600,86400,Spot"
    with_points = "12,3,H800,96.0,8.0,4,3600.0,86400.0,Spot"
    traces = [
        load_trace(write(tmp_path / f"{k}.csv", HEADER, row))
        for k, row in enumerate((whole, with_points))
    ]
    assert traces[0].digest() == traces[1].digest()
    assert traces[0]["num_gpus"].tolist() == [32] and traces[0]["job_id"].tolist() == ["12"]


def test_a_further_kind_of_job_has_no_known_priority(tmp_path):
    path = write(tmp_path / "t.csv", HEADER, ROWS[0], ROWS[1].replace("Spot", "Reserved"))
    trace = load_trace(path)
    np.testing.assert_array_equal(trace["priority"], [1, np.nan])
    assert trace.notes[-1] == (
        "1 jobs of job_type 'Reserved', which is not known, their priority left empty"
    )
    assert "priority" not in from_trace(trace).columns


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ROWS[0] + ",1", "line 2: has 10 values; accepted: 9"),
    ],
)
def test_bad_rows_are_refused(tmp_path, row, expected):
    path = write(tmp_path / "t.csv", HEADER, row)
    with pytest.raises(JaxschedError) as caught:
        spot_gpu.read(path)
    assert str(caught.value).startswith(f"{path}, {expected}")


def test_another_header_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", "a,b", "1,2")
    with pytest.raises(JaxschedError, match="the header is 'a,b'; accepted: job_name,organiz"):
        spot_gpu.read(path)


def test_spot_jobs_can_be_drawn():
    trace = generate_trace("pai-like", 0, 2000)
    found = with_spot_jobs(trace, 0.3, seed=5)
    spot = found["priority"] == 0
    assert abs(spot.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 2000)
    assert found.notes[-1] == f"{spot.sum()} of 2000 jobs drawn to be spot jobs (priority 0)"
    np.testing.assert_array_equal(found["priority"][~spot], 1)
    np.testing.assert_array_equal(found["duration"], trace["duration"])
    assert with_spot_jobs(found, 0.3, seed=5).digest() == found.digest()
    assert with_spot_jobs(trace, 0)["priority"].min() == 1
    for share in (-0.1, 1.5, np.nan, "half"):
        with pytest.raises(JaxschedError, match="share is .*; accepted: a number from 0 to 1"):
            with_spot_jobs(trace, share)
