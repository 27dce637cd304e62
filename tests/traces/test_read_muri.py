import numpy as np

from jaxsched.traces import load_trace

HEADER = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
)


def test_times_are_milliseconds(tmp_path):
    path = tmp_path / "trace1.csv"
    path.write_text(
        HEADER
        + "0,8,0,10956,gpt2,4,5095000,91000,437,0.6,419,49,0\n"
        + "1,1,1534500,464903,a2c,64,255697000,10000,555,502,14,0.4,1\n"
    )
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.clock, trace.notes) == (
        "trace1",
        "muri",
        "relative",
        (),
    )
    np.testing.assert_array_equal(trace["submit_time"], [0, 1534.5])
    np.testing.assert_array_equal(trace["duration"], [5095, 255697])
    np.testing.assert_array_equal(trace["num_gpus"], [8, 1])
    np.testing.assert_array_equal(trace["iterations"], [10956, 464903])
    np.testing.assert_array_equal(trace["batch_size"], [4, 64])
    np.testing.assert_array_equal(trace["priority"], [0, 1])
    assert trace["model"].tolist() == ["gpt2", "a2c"]
    assert trace["job_id"].tolist() == ["0", "1"]
