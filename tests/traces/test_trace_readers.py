import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import Trace, load, load_tables, load_trace, recognise
from jaxsched.traces.file_columns import read_columns
from jaxsched.traces.readers import itp, philly_csv
from jaxsched.traces.rows import iterate_rows

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ITP = "job_id,submission_time,duration,num_gpu\n"


def write(path, text):
    path.write_text(text)
    return path


def refusal(call, path):
    with pytest.raises(JaxschedError) as caught:
        call(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_philly_keeps_the_order_of_the_file(tmp_path):
    text = PHILLY + (
        "1970-01-02 00:00:10,66.0,1,66.0,11cb48\n"
        "1970-01-01 23:59:59,,8,,6214e9\n"
        "1970-01-01T00:00:01,12.5,None,,6214e9\n\n"
    )
    raw = philly_csv.read(write(tmp_path / "philly.csv", text))
    assert (raw.name, raw.source, len(raw)) == ("philly", "philly-csv", 3)
    np.testing.assert_array_equal(raw["submit_time"], [86410, 86399, 1])
    np.testing.assert_array_equal(raw["num_gpus"], [1, 8, np.nan])
    np.testing.assert_array_equal(raw["duration"], [66, np.nan, 12.5])
    assert raw["group"].tolist() == ["11cb48", "6214e9", "6214e9"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("2017-10-09,66.0,1,66.0,a", ", line 2: timestamp is '2017-10-09'; accepted: YYYY-MM-DD"),
        ("2017-02-30 00:00:00,1,1,1,a", ", line 2: timestamp is '2017-02-30 00:00:00'; accepted"),
        ("2017-02-03 00:00:00,1e999,1,1,a", ", line 2: duration is '1e999'; accepted: a number"),
        ("2017-02-03 00:00:00,1,x,1,a", ", line 2: num_gpus is 'x'; accepted: a number"),
    ],
)
def test_philly_refuses_bad_rows(tmp_path, row, expected):
    path = write(tmp_path / "p.csv", PHILLY + row)
    assert refusal(philly_csv.read, path).startswith(expected)


def test_itp_in_both_layouts(tmp_path):
    raw = itp.read(write(tmp_path / "cluster01.csv", ITP + "a,100,60,64\nb,90,61,1"))
    np.testing.assert_array_equal(raw["submit_time"], [100, 90])
    np.testing.assert_array_equal(raw["duration"], [60, 61])
    np.testing.assert_array_equal(raw["num_gpus"], [64, 1])
    header = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
    raw = itp.read(write(tmp_path / "c.csv", header + "\na,100,5,bert,900,32,4,77\n"))
    assert (raw["submit_time"][0], raw["num_gpus"][0], raw["duration"][0]) == (100, 4, 77)
    path = write(tmp_path / "bad.csv", ITP + "a,x,60,64\n")
    assert refusal(itp.read, path).startswith(
        ", line 2: submission_time is 'x'; accepted: a number"
    )


def test_formats_are_told_by_their_content(tmp_path):
    tables = write(tmp_path / "t.csv", "trace,submit_time,num_gpus,duration,model\n0,0,1,10,5\n")
    published = write(tmp_path / "i.csv", ITP + "a,100,60,64\n")
    assert [jobs.name for jobs in load(tables)] == ["t[0]"]
    assert isinstance(load(published), Trace)
    assert recognise(published).name == "itp" and len(load_tables(tables)) == 1
    assert refusal(load_tables, published).startswith(": is a published trace (itp); accepted: job")
    assert refusal(load_trace, tables).startswith(": holds job tables; accepted: a trace (jobs, ")
    message = refusal(load, write(tmp_path / "x.csv", "runtimes\n3\n"))
    assert message.startswith(
        ": is of no known format (the header is 'runtimes'); no column is known"
    )
    assert refusal(load, tmp_path).startswith(": is of no known format (it is a folder); accepted")
    for reader in (philly_csv.read, itp.read):
        assert "the header is 'trace," in refusal(reader, tables)


def test_a_format_can_be_named(tmp_path):
    path = write(tmp_path / "i.csv", ITP + "a,100,60,64\n")
    assert len(load(path, format="itp")) == 1
    message = refusal(lambda file: load(file, format="philly-csv"), path)
    assert message.startswith(", line 1: the header is 'job_id,submission_time")
    with pytest.raises(JaxschedError, match="unknown format 'phily'; accepted: jobs, trace, "):
        load(path, format="phily")


def test_memory_is_bounded_by_batches(tmp_path):
    path = write(tmp_path / "i.csv", ITP + "".join(f"j{k},{k},60,1\n" for k in range(10)))
    sizes = [len(rows.cells) for rows in iterate_rows(path, itp.HEADERS, batch=4)]
    assert sizes == [4, 4, 2]
    lines = [rows.lines[0] for rows in iterate_rows(path, itp.HEADERS, batch=4)]
    assert lines == [2, 6, 10]
    joined = read_columns(path, itp.HEADERS, itp._columns, batch=3)
    assert joined["job_id"].tolist() == [f"j{k}" for k in range(10)]


cells = st.sampled_from(["", "0", "1", "-3", "2.5", "1e5", "None", "x", "2017-10-09 07:01:55", '"'])
rows = st.lists(st.lists(cells, min_size=4, max_size=5).map(",".join), max_size=4).map("\n".join)


@given(st.sampled_from([PHILLY, ITP]), rows | st.text(st.characters(codec="utf-8")))
def test_malformed_rows_raise_our_error_only(tmp_path, header, body):
    path = tmp_path / "any.csv"
    path.write_bytes((header + body).encode())
    try:
        raw = load(path)
    except JaxschedError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(raw, Trace) and len(raw) > 0
