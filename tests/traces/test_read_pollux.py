import numpy as np

from jaxsched.traces import load_trace


def test_replicas_are_gpus_and_run_times_unknown(tmp_path):
    path = tmp_path / "workload-1.csv"
    path.write_text(
        "name,time,application,num_replicas,batch_size\n"
        "cifar10-0,107,cifar10,6,2048\nncf-2,135,ncf,1,32768\n"
    )
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.clock) == ("workload-1", "pollux", "relative")
    assert trace["job_id"].tolist() == ["cifar10-0", "ncf-2"]
    assert trace["model"].tolist() == ["cifar10", "ncf"]
    np.testing.assert_array_equal(trace["submit_time"], [107, 135])
    np.testing.assert_array_equal(trace["num_gpus"], [6, 1])
    np.testing.assert_array_equal(trace["num_instances"], [6, 1])
    np.testing.assert_array_equal(trace["batch_size"], [2048, 32768])
    np.testing.assert_array_equal(trace["duration"], [np.nan, np.nan])
    assert trace.notes == ("run times of 2 jobs not known, since the file has none",)
