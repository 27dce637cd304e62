import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace

HEADER = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
)
ROWS = (
    "0,vc_ed69ec,1,5601,5530,mobilenet_v2,96,5,159-189-229-289,10-8-5-2,0,soft\n"
    "1,vc_6214e9,0,505,760,alexnet,106,6,235,10,0,strict\n"
    "2,vc_6c71a0,4,918,3495,vgg16,26,14,918,10,1,best\n"
)


def test_deadlines_are_the_first_expected_times_after_submission(tmp_path):
    path = tmp_path / "trace_job_Philly_MIX2.csv"
    path.write_text(HEADER + ROWS)
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("chronus", "relative")
    np.testing.assert_array_equal(trace["submit_time"], [5601, 505, 918])
    np.testing.assert_array_equal(trace["deadline"], [5760, 740, np.nan])
    np.testing.assert_array_equal(trace["num_gpus"], [1, 0, 4])
    np.testing.assert_array_equal(trace["duration"], [96, 106, 26])
    assert trace["slo_class"].tolist() == ["soft", "strict", "best"]
    assert trace["group"].tolist() == ["ed69ec", "6214e9", "6c71a0"]
    assert trace.notes == (
        "1 of 3 jobs ask for no GPU, kept with 0",
        "1 jobs have later deadlines of less value, left out",
    )


@pytest.mark.parametrize(
    ("old", "new", "column", "note"),
    [
        ("159-189", "159--189", "deadline", "expect_time_list is no times, their deadline"),
        ("159-189", "soon-189", "deadline", "expect_time_list is no times, their deadline"),
        ("159-189", f"{10**17}-189", "deadline", "expect_time_list is no times, their deadline"),
        (",soft", ",lenient", "slo_class", "job_type 'lenient', which is not known, their class"),
    ],
)
def test_what_a_cell_does_not_tell_is_not_known(tmp_path, old, new, column, note):
    path = tmp_path / "c.csv"
    path.write_text(HEADER + ROWS.replace(old, new))
    trace = load_trace(path)
    assert len(trace) == 3 and str(trace[column][0]) in ("nan", "")
    assert any(note in one and one.startswith("1 jobs ") for one in trace.notes)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("5601", "5601s", "submit_time is '5601s'; accepted: a number")],
)
def test_bad_rows(tmp_path, old, new, expected):
    path = tmp_path / "c.csv"
    path.write_text(HEADER + ROWS.replace(old, new))
    with pytest.raises(JaxschedError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}, line 2: {expected}")
