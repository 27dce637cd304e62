import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace

ELASTICFLOW = (
    "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,"
    "iteration\n"
)
CRIUS = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\n"
PHILLY_VC = "vc,submit_time,num_gpus,duration_s,matched_pass\n"


def test_elasticflow_takes_the_real_duration(tmp_path):
    path = tmp_path / "philly_103959.csv"
    path.write_text(
        ELASTICFLOW
        + "0,0,1282877,vgg16,771220,256,1,976570,976570,1282877\n"
        + "1,7,9,gpt2,99,64,4,55,60,10\n"
    )
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("elasticflow", "relative")
    np.testing.assert_array_equal(trace["submit_time"], [0, 7])
    np.testing.assert_array_equal(trace["duration"], [976570, 55])
    np.testing.assert_array_equal(trace["iterations"], [1282877, 9])
    np.testing.assert_array_equal(trace["deadline"], [771220, 99])
    np.testing.assert_array_equal(trace["batch_size"], [256, 64])
    np.testing.assert_array_equal(trace["num_gpus"], [1, 4])
    assert trace["model"].tolist() == ["vgg16", "gpt2"]
    assert trace.notes == ("1 jobs have a duration other than their real_duration, which is taken",)


@pytest.mark.parametrize(("submit", "clock"), [(1750472, "relative"), (1591029055, "utc")])
def test_crius_has_no_run_times(tmp_path, submit, clock):
    path = tmp_path / "simulate_trace.csv"
    path.write_text(CRIUS + f"f91,{submit},2622,moe__2.4B,{submit + 100.5},256,2,a10\n")
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("crius", clock)
    assert trace["submit_time"].tolist() == [submit]
    assert trace["deadline"].tolist() == [submit + 100.5]
    assert np.isnan(trace["duration"]).all()
    assert (trace["gpu_type"].tolist(), trace["model"].tolist()) == (["a10"], ["moe__2.4B"])
    assert trace.notes == ("run times of 1 jobs not known, since the file has none",)


def test_philly_of_four_virtual_clusters(tmp_path):
    path = tmp_path / "vc.csv"
    path.write_text(
        PHILLY_VC + "7f04ca,1970-01-02 00:00:18,1,2868294,0\nee9e8c,1970-01-03 00:00:00,8,60,1\n"
    )
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("philly-vc", "local")
    np.testing.assert_array_equal(trace["submit_time"], [86418, 172800])
    np.testing.assert_array_equal(trace["num_gpus"], [1, 8])
    np.testing.assert_array_equal(trace["duration"], [2868294, 60])
    assert trace["group"].tolist() == ["7f04ca", "ee9e8c"]
    assert trace["status"].tolist() == ["", "completed"]
    assert trace.notes == ("1 jobs were killed or failed, their status is left empty",)
    path.write_text(PHILLY_VC + "7f04ca,1970-01-02 00:00:18,1,2868294,2\n")
    odd = load_trace(path)
    assert odd["status"].tolist() == [""]
    assert "1 jobs whose matched_pass is neither 0 nor 1" in odd.notes


@pytest.mark.parametrize(
    "text",
    [
        "duration,scale_factor\n66,1\n",
        "duration,scale_factor,matched_pass\n6,1,1\n",
        "runtime\n0.0\n",
    ],
)
def test_tables_without_submission_times_are_refused(tmp_path, text):
    path = tmp_path / "philly.csv"
    path.write_text(text)
    with pytest.raises(JaxschedError) as caught:
        load_trace(path)
    assert str(caught.value) == (
        f"{path}: holds run times of Philly's jobs, but no submission times; accepted: a trace "
        "with a submission time for each job"
    )
