import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import import_trace, load_trace, recognise
from jaxsched.traces.readers import helios

HEADER = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
ROWS = (
    "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,"
    "2020-06-10 04:55:09,36848,0",
    "1425512,uVMrF,vchbv,16,64,2,TIMEOUT,2020-06-09 18:41:27,2020-06-09 18:41:37,"
    "2020-06-09 18:45:46,249,10",
    "1425513,uzqls,vcpDC,0,1,1,CANCELLED,2020-06-09 18:41:28,,,,",
    "1425514,uzqls,vcpDC,4,1,1,SUSPENDED,2020-06-09 18:41:29,2020-06-09 18:41:29,None,0,0",
    "1425515,uzqls,vcpDC,2,1,1,NODE_FAIL,2020-06-09 18:41:29,2020-06-09 18:41:29,"
    "2020-06-09 18:41:39,10,0",
)


def write(path, *lines, newline="\n"):
    path.write_bytes("".join(line + newline for line in lines).encode())
    return path


def test_columns(tmp_path):
    path = write(tmp_path / "cluster_log.csv", HEADER, *ROWS)
    assert recognise(path).name == "helios"
    trace = load_trace(path)
    assert (trace.clock, trace.rows_read) == ("local", 5)
    first = 1591728061  # 2020-06-09 18:41:01
    unknown = np.nan
    expected = {
        "submit_time": [first, first + 26, first + 27, first + 28, first + 28],
        "start_time": [first, first + 36, unknown, first + 28, first + 28],
        "end_time": [first + 36848, first + 285, unknown, unknown, first + 38],
        "duration": [36848, 249, unknown, unknown, 10],
        "num_gpus": [1, 16, 0, 4, 2],
        "cpus": [1, 64, 1, 1, 1],
        "num_nodes": [1, 2, 1, 1, 1],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(trace[name], values, name)
    assert trace["status"].tolist() == ["completed", "failed", "killed", "", "failed"]
    assert trace["group"].tolist()[:2] == ["vcJkd", "vchbv"]
    assert trace["user"].tolist()[0] == "uXBbc" and trace["job_id"].tolist()[0] == "1425511"
    assert trace.notes == ("2 jobs without start or end, their run times not known",)


def test_the_mapping_drops_jobs_without_gpus(tmp_path):
    path = write(tmp_path / "cluster_log.csv", HEADER, *ROWS)
    imported = import_trace(load_trace(path), mode="cut", num_jobs=3)
    assert len(imported.stream) == 3 and imported.summary.rows_dropped == 2


def test_line_ends_and_compression(tmp_path):
    plain = load_trace(write(tmp_path / "a.csv", HEADER, *ROWS * 50))
    packed = tmp_path / "b.csv.gz"
    text = "\ufeff" + "\r\n".join([HEADER, *ROWS * 50]) + "\r\n\r\n"
    packed.write_bytes(gzip.compress(text.encode()))
    assert load_trace(packed).digest() == plain.digest()
    assert len(plain) == 250


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ROWS[0].replace(",1,1,1,", f",{'9' * 5000},1,1,"), "line 3: gpu_num is '9999"),
        (ROWS[0].replace("36848", "inf"), "line 3: duration is 'inf'; accepted: a number"),
        (ROWS[0].replace("06-10", "06-31"), "line 3: end_time is '2020-06-31 04:55:09'; accepted"),
        (ROWS[2].replace("2020-06-09 18:41:28", "x"), "line 3: submit_time is 'x'; accepted: YYYY"),
        (ROWS[2][:-1], "line 3: has 11 values; accepted: 12"),
    ],
)
def test_bad_rows_are_refused(tmp_path, row, expected):
    path = write(tmp_path / "log.csv", HEADER, ROWS[1], row)
    with pytest.raises(JaxschedError) as caught:
        helios.read(path)
    assert str(caught.value).startswith(f"{path}, {expected}")


good = st.sampled_from([cell for row in ROWS for cell in row.split(",")])
cells = good | st.sampled_from(["", "None", "-1", "1e400", "nan", "9" * 5000, '"', "\0", "é"])
rows = st.tuples(st.sampled_from(ROWS), st.integers(0, 12), cells).map(
    lambda pick: ",".join(
        pick[2] if index == pick[1] else cell for index, cell in enumerate(pick[0].split(","))
    )
)


@settings(max_examples=100)
@given(st.lists(rows, max_size=3).map("\n".join) | st.text(st.characters(codec="utf-8")))
def test_malformed_rows_raise_our_error_only(tmp_path, body):
    path = tmp_path / "any.csv"
    path.write_bytes(f"{HEADER}\n{body}".encode())
    try:
        trace = helios.read(path)
    except JaxschedError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert 0 < len(trace) <= trace.rows_read
