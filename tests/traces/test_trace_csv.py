import gzip
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Column, JobTable
from jaxsched.traces import Trace, load, read_tables, write_tables

HEADER = "trace,submit_time,num_gpus,duration,model\n"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path, reader=read_tables):
    with pytest.raises(JaxschedError) as caught:
        reader(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message.removeprefix(str(path))


def test_two_traces(tmp_path):
    path = write(tmp_path / "pair.csv", HEADER + "4,0,1,10,5\n4,3,8,20,0\n\n7,0,2,30,1\r\n")
    first, second = read_tables(path)
    assert (first.name, second.name) == ("pair[4]", "pair[7]")
    assert first["submit_time"].tolist() == [0, 3]
    assert first["num_gpus"].tolist() == [1, 8]
    assert second["duration"].tolist() == [30]
    assert second["model"].tolist() == [1]


def test_one_trace_without_numbers(tmp_path):
    text = "\ufeffsubmit_time,num_gpus,duration,model\n0,1,10.0, 5\n"
    (jobs,) = read_tables(write(tmp_path / "one.csv", text))
    assert jobs.name == "one"
    assert jobs["duration"].tolist() == [10]


def test_written_bytes(tmp_path):
    jobs = JobTable(
        {"submit_time": [0, 2], "num_gpus": [1, 2], "duration": [5, 6], "model": [0, 1]}
    )
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    write_tables(plain, [jobs, jobs])
    assert plain.read_text() == HEADER + "0,0,1,5,0\n0,2,2,6,1\n1,0,1,5,0\n1,2,2,6,1\n"
    write_tables(packed, [jobs, jobs])
    first = packed.read_bytes()
    assert gzip.decompress(first) == plain.read_bytes()
    write_tables(packed, [jobs, jobs])
    assert packed.read_bytes() == first
    with pytest.raises(JaxschedError, match="no tables to write"):
        write_tables(plain, [])
    with pytest.raises(JaxschedError, match="cannot be written"):
        write_tables(tmp_path / "missing" / "t.csv", [jobs])
    with pytest.raises(JaxschedError, match="job 0: submit_time is 2"):
        write_tables(plain, [jobs.take([1])])


def test_lists_of_whole_numbers(tmp_path):
    schema = (Column("at", 0, 9, "s", ""), Column("parts", 1, 99, "", "", "wholes"))
    jobs = JobTable({"at": [0, 1], "parts": [[5], [6, 70, 8]]}, schema=schema)
    write_tables(tmp_path / "t.csv", [jobs, jobs.take([0])])
    assert (tmp_path / "t.csv").read_text() == "trace,at,parts\n0,0,5\n0,1,6 70 8\n1,0,5\n"
    again = read_tables(tmp_path / "t.csv", schema=schema)
    assert [t.digest() for t in again] == [jobs.digest(), jobs.take([0]).digest()]
    for cell, found in {"": "''", "5 x": "'5 x'", "1.5": "'1.5'"}.items():
        path = write(tmp_path / "bad.csv", f"at,parts\n0,5\n0,{cell}\n")
        message = refusal(path, partial(read_tables, schema=schema))
        assert message == f", line 3: parts is {found}; accepted: whole numbers with blanks between"
    path = write(tmp_path / "bad.csv", "at,parts\n0,5\n0,5 100\n")
    message = refusal(path, partial(read_tables, schema=schema))
    assert message.startswith(", line 3: parts is [5, 100]; accepted: whole numbers from 1 to 99")


@st.composite
def valid_tables(draw):
    n = draw(st.integers(1, 6))

    def column(low, high):
        return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

    times = np.cumsum([0, *column(0, 10**8)[1:]])
    return JobTable(
        {
            "submit_time": times,
            "num_gpus": column(1, 2**15),
            "duration": column(1, 2**23),
            "model": column(0, 100),
        }
    )


@given(st.lists(valid_tables(), min_size=1, max_size=4), st.sampled_from(["t.csv", "t.csv.gz"]))
def test_round_trip_is_lossless(tmp_path, tables, file):
    write_tables(tmp_path / file, tables)
    again = read_tables(tmp_path / file)
    assert [t.digest() for t in again] == [t.digest() for t in tables]
    assert [t.name for t in again] == [f"t[{k}]" for k in range(len(tables))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("", ": has no jobs; accepted: a header line and one row per job"),
        ("0,0,1,10\n", ", line 2: has 4 values; accepted: 5 (trace,submit_time,"),
        ("0,0,1,10,5\n\n0,0,x,10,5\n", ", line 4: num_gpus is 'x'; accepted: a whole number"),
        ("0,0,1,10,5\n0,0,1,1.5,5\n", ", line 3: duration is '1.5'; accepted: a whole number"),
        ("0,0,1,,5\n", ", line 2: duration is ''; accepted: a whole number"),
        ("0,0,1,1_0,5\n", ", line 2: duration is '1_0'; accepted: a whole number"),
        ("0,0,1,nan,5\n", ", line 2: duration is 'nan'; accepted: a whole number"),
        ("0,0,1,99999999999999999999,5\n", ", line 2: duration is '99999999999999999999'"),
        ("0,0,1,0,5\n", ", line 2: duration is 0; accepted: a whole number from 1"),
        ("0,0,1,9,5\n1,0,1,9,5\n1,0,0,9,5\n", ", line 4: num_gpus is 0; accepted"),
        ("0,0,1,9,5\n0,7,1,9,5\n0,6,1,9,5\n", ", line 4: submit_time is 6, before the 7"),
        ("0,0,1,9,5\n1,3,1,9,5\n", ", line 3: submit_time is 3; accepted: 0 for the first job"),
        ("0,0,1,9,5\n1,0,1,9,5\n0,0,1,9,5\n", ", line 4: trace 0 begins again"),
        ('0,0,"1"x,9,5\n', ", line 2: ',' expected after '\"'"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path, rows, expected):
    message = refusal(write(tmp_path / "bad.csv", HEADER + rows))
    assert message.startswith(expected)


def test_files_that_are_no_traces(tmp_path):
    whole = gzip.compress(HEADER.encode() + b"0,0,1,10,5\n" * 500, mtime=0)
    cases = {
        "cut.gz": (whole[: len(whole) // 2], ": the gzip data is damaged or cut short"),
        "crc.gz": (whole[:-8] + b"\0" * 8, ": the gzip data is damaged or cut short"),
        "head.gz": (b"\x1f\x8b", ": the gzip data is damaged or cut short"),
        "noise": (bytes(range(256)), ": is not a text file"),
        "nul": (b"trace\0", ": is not a text file"),
        "empty": (b"", ": is empty"),
        "blank": (b"\n \n", ": is empty"),
    }
    for reader in (read_tables, load):
        for name, (content, expected) in cases.items():
            assert refusal(write(tmp_path / name, content), reader).startswith(expected)
        assert refusal(tmp_path / "missing.csv", reader) == ": there is no such file"
    assert refusal(tmp_path).startswith(": is a folder; accepted: a trace file")
    assert refusal(tmp_path, load).startswith(": is of no known format (it is a folder)")
    other = write(tmp_path / "header", b"a,b\n1,2,3\n")
    assert refusal(other).startswith(", line 1: the header is 'a,b'; accepted: trace,submit")
    assert refusal(other, load).startswith(": is of no known format (the header is 'a,b'); no ")


printable = st.text(st.characters(codec="utf-8"), max_size=60)
mutated = st.builds(
    lambda rows, noise, at: (
        (HEADER + "\n".join(rows))[:at] + noise + (HEADER + "\n".join(rows))[at:]
    ),
    st.lists(st.sampled_from(["0,0,1,10,5", "1,0,2,30,2", "0,5,1,1,1"]), max_size=4),
    printable,
    st.integers(0, 90),
)


@given(st.binary(max_size=80) | printable.map(str.encode) | mutated.map(str.encode), st.booleans())
def test_malformed_files_raise_our_error_only(tmp_path, content, packed):
    path = write(tmp_path / "any.csv", gzip.compress(content) if packed else content)
    for reader in (read_tables, load):
        try:
            tables = reader(path)
        except JaxschedError as error:
            assert "\n" not in str(error)
        else:
            assert len(tables) and (isinstance(tables, Trace) or all(map(len, tables)))
