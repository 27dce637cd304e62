import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace

JOBS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
OLDER = (
    "job_id,num_gpu,submit_time,start_time,duration,model_size,aggr_interval,model_name,"
    "model_scale\n"
)


def test_job_list(tmp_path):
    path = tmp_path / "60_job.csv"
    path.write_text(JOBS + "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n")
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.notes) == ("60_job", "tiresias", ())
    assert set(trace.columns) == {
        "submit_time",
        "num_gpus",
        "duration",
        "job_id",
        "model",
        "iterations",
    }
    np.testing.assert_array_equal(trace["submit_time"], [0, 30])
    np.testing.assert_array_equal(trace["num_gpus"], [1, 8])
    np.testing.assert_array_equal(trace["duration"], [164, 147])
    np.testing.assert_array_equal(trace["iterations"], [606, 133])


def test_older_layout_repeats_rows(tmp_path):
    path = tmp_path / "tf_job.csv"
    row = "10,12,11,14,20,400,0,vgg19,1"
    path.write_text(OLDER + f"{row}\n{row}\n11,12,11,14,20,400,0,vgg19,1\n{row}")
    trace = load_trace(path)
    assert (len(trace), trace.rows_read) == (2, 4)
    assert trace["job_id"].tolist() == ["10", "11"]
    np.testing.assert_array_equal(trace["start_time"], [14, 14])
    np.testing.assert_array_equal(trace["duration"], [20, 20])
    assert trace.notes == ("2 rows equal to earlier ones dropped",)


def test_gpu_times_are_refused(tmp_path):
    path = tmp_path / "yarn-gput1000.csv"
    path.write_text("duration\n121\n122\n")
    with pytest.raises(JaxschedError) as caught:
        load_trace(path)
    assert str(caught.value) == (
        f"{path}: holds GPU times of jobs, but no submission times; accepted: a trace with a "
        "submission time for each job"
    )
