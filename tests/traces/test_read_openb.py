import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import openb

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)
ROWS = (
    "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,5",
    "openb-pod-0001,6500,12288,1,460,V100M16|V100M32,BE,Succeeded,427061,12902960,427061",
    "openb-pod-0002,1000,1024,0,0,,Burstable,Pending,600,900,",
    "openb-pod-0003,1000,512,8,1000,T4,LS,Failed,600,650,660",
    "openb-pod-0004,1000,512,2,1000,T4,LS,Running,600,,660",
)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns(tmp_path):
    path = write(tmp_path / "openb_pod_list_default.csv", HEADER, *ROWS)
    assert recognise(path).name == "openb"
    trace = load_trace(path)
    assert (trace.clock, trace.name) == ("relative", "openb_pod_list_default")
    unknown = np.nan
    expected = {
        "submit_time": [0, 427061, 600, 600, 600],
        "start_time": [5, 427061, unknown, 660, 660],
        "end_time": [12537496, 12902960, 900, 650, unknown],
        "duration": [12537491, 12475899, unknown, unknown, unknown],
        "num_gpus": [1, 0.46, 0, 8, 2],
        "cpus": [12, 6.5, 1, 1, 1],
        "memory_gb": [16, 12, 1, 0.5, 0.5],
        "num_instances": [1, 1, 1, 1, 1],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(trace[name], values, rtol=1e-15, err_msg=name)
    assert trace["status"].tolist() == ["running", "completed", "pending", "failed", "running"]
    assert trace["gpu_type"].tolist() == ["", "V100M16|V100M32", "", "T4", "T4"]
    assert trace["group"].tolist() == ["LS", "BE", "Burstable", "LS", "LS"]
    assert trace.notes == (
        "1 pods never scheduled, their run times not known",
        "1 pods not deleted, their run times not known",
        "1 jobs that end before they start, their run times not known",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("name,cpu_milli,memory_mib,num_gpu,gpu_milli", "openb-pod-0000,12000,16384,1,1000"),
            ": holds demands of pods, but no submission times; accepted: a trace with",
        ),
        (
            ("sn,cpu_milli,memory_mib,gpu,model", "openb-node-0000,32000,262144,0,"),
            ": is a list of machines; accepted: a list of pods with their times",
        ),
        ((HEADER, ROWS[0], ROWS[1].replace("BE", "BE,")), ", line 3: has 12 values; accepted: 11"),
        ((HEADER, ROWS[0].replace(",0,1", ",,1")), ": none of its 1 rows has a submission time; a"),
        ((HEADER, ROWS[0].replace("1000", "1e308")), ", line 2: gpu_milli is 1e+308; accepted: n"),
    ],
)
def test_files_that_hold_no_jobs_and_bad_rows_are_refused(tmp_path, lines, expected):
    path = write(tmp_path / "list.csv", *lines)
    assert recognise(path).name == "openb"
    with pytest.raises(JaxschedError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}{expected}")


cells = st.sampled_from(
    ["", "0", "7", "-3", "2.5", "1e308", "9" * 5000, "None", "Running", "é", '"']
)
rows = st.lists(cells, min_size=11, max_size=11).map(",".join) | st.sampled_from(ROWS)


@settings(max_examples=100)
@given(st.lists(rows, max_size=3).map("\r\n".join) | st.text(st.characters(codec="utf-8")))
def test_malformed_rows_raise_our_error_only(tmp_path, body):
    path = tmp_path / "any.csv"
    path.write_bytes(f"{HEADER}\r\n{body}".encode())
    try:
        trace = openb.read(path)
    except JaxschedError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert 0 < len(trace) <= trace.rows_read
