import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import TRACE_COLUMNS, Trace, load, read_trace, write_trace
from jaxsched.traces.trace import CLOCKS, REQUIRED, STATUSES, known

ENDINGS = (".parquet", ".csv", ".csv.gz")


def small(**columns):
    base = {"submit_time": [5.0, 0.25], "num_gpus": [0.5, np.nan], "duration": [60.0, 1e-3]}
    return {name: np.array(values) for name, values in {**base, **columns}.items()}


TRACE = Trace(
    small(user=["a,b", 'q"\n'], group=["\r", " x\r\n"], status=["", "failed"]),
    "t",
    "hand",
    "local",
    ("n 1", "ü"),
    7,
)


def same(one, other):
    assert list(one.columns) == list(other.columns)
    for name in one.columns:
        np.testing.assert_array_equal(one[name], other[name])
    facts = ("name", "source", "clock", "notes", "rows_read")
    assert [getattr(one, f) for f in facts] == [getattr(other, f) for f in facts]
    assert one.digest() == other.digest()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path, ending):
    path = tmp_path / f"file{ending}"
    write_trace(path, TRACE)
    first = path.read_bytes()
    same(read_trace(path), TRACE)
    same(load(path), TRACE)
    write_trace(path, read_trace(path))
    assert path.read_bytes() == first


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
numbers = st.floats(0, allow_infinity=False) | st.just(float("nan")) | st.integers(0, 2**60)


@st.composite
def traces(draw):
    length = draw(st.integers(1, 4))
    columns = {}
    for column in TRACE_COLUMNS:
        if not column.required and draw(st.booleans()):
            continue
        if column.kind == "text":
            values = st.sampled_from(STATUSES) if column.name == "status" else texts
            columns[column.name] = np.array([draw(values) for _ in range(length)], np.str_)
        else:
            known_numbers = numbers.filter(lambda number: number == number)
            values = known_numbers if column.name == "submit_time" else numbers
            columns[column.name] = np.array([float(draw(values)) for _ in range(length)])
    notes = tuple(draw(st.lists(texts, max_size=2)))
    return Trace(columns, draw(texts), draw(texts), draw(st.sampled_from(CLOCKS)), notes)


@settings(max_examples=30)
@given(traces(), st.sampled_from(ENDINGS))
def test_any_trace_survives(tmp_path, trace, ending):
    path = tmp_path / f"any{ending}"
    write_trace(path, trace)
    same(read_trace(path), trace)


def test_other_tables_with_such_columns_are_read(tmp_path):
    text = tmp_path / "mine.csv"
    text.write_text("duration,num_gpus,submit_time,user\n60,2,0,ann\n,,9.5,\n")
    trace = load(text)
    assert (trace.name, trace.source, trace.clock, trace.rows_read) == (
        "mine", "trace", "relative", 2,
    )  # fmt: skip
    np.testing.assert_array_equal(trace["duration"], [60, np.nan])
    np.testing.assert_array_equal(known(trace, "user"), [True, False])
    assert not known(trace, "gpu_type").any()
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"submit_time": [0, 3], "num_gpus": [1, None], "duration": [4.5, 5]})
    pq.write_table(table, tmp_path / "mine.parquet")
    np.testing.assert_array_equal(load(tmp_path / "mine.parquet")["num_gpus"], [1, np.nan])


def test_the_digest_is_of_the_values():
    renamed = Trace(TRACE.columns, "other", "elsewhere", "local")
    assert renamed.digest() == TRACE.digest()
    assert Trace(TRACE.columns, clock="utc").digest() != TRACE.digest()
    assert TRACE.take([0]).digest() != TRACE.digest()
    longer = Trace({**TRACE.columns, "user": np.array(["a,b", "q"])}, clock="local")
    assert longer.digest() != TRACE.digest()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"num_gpus": [1.0]}, "different lengths (submit_time 2, num_gpus 1, duration 2)"),
        ({"duration": [-1.0, 2]}, "job 0: duration is -1.0; accepted: numbers from 0 on"),
        ({"duration": [1.0, np.inf]}, "job 1: duration is inf; accepted: finite numbers"),
        ({"user": [1, 2]}, "user is array([1, 2]); accepted: an array of texts"),
        ({"num_gpus": ["a", "b"]}, "accepted: an array of numbers, one per job"),
        ({"status": ["", "Pass"]}, "job 1: status is 'Pass'; accepted: completed, killed,"),
        ({"colour": ["a", "b"]}, "has colour; accepted: submit_time, num_gpus, duration and"),
        ({"user": ["a", "\ud800"]}, "user holds half of a character"),
    ],
)
def test_refused_columns(columns, expected):
    with pytest.raises(JaxschedError) as caught:
        Trace(small(**columns))
    assert expected in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(JaxschedError, match="trace 'trace' lacks num_gpus; accepted"):
        Trace({name: np.zeros(1) for name in REQUIRED if name != "num_gpus"})


def refusal(path):
    with pytest.raises(JaxschedError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message.removeprefix(str(path))


def test_damaged_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, TRACE)
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(path).startswith(": is not a usable Parquet file (")
    path = tmp_path / "t.csv"
    write_trace(path, TRACE)
    text = path.read_text()
    path.write_text(text.replace("5,0.5,60", "5,0.75,60"))
    assert refusal(path).startswith(": its values are not those of the digest in its header")
    first = json.dumps({"name": 3})
    path.write_text(f"# jaxsched trace 1 {first}\n" + text.split("\n", 1)[1])
    assert refusal(path).startswith(': what it says of itself is b\'{"name": 3}')
    path.write_text("# jaxsched trace 1 {}\nsubmit_time,num_gpus,duration\n1,2,x\n")
    assert refusal(path) == (
        ", line 3: duration is 'x'; accepted: a number, D-HH:MM:SS or HH:MM:SS"
    )
    path.write_text("submit_time,num_gpus\n1,2\n")
    assert refusal(path).startswith(": the header is 'submit_time,num_gpus'; no column is known ")
    with pytest.raises(JaxschedError, match=r"expected a name that ends in \.parquet, \.csv"):
        write_trace(tmp_path / "t.txt", TRACE)


def test_rows_are_taken_and_sorted():
    ordered = TRACE.by_submission()
    np.testing.assert_array_equal(ordered["submit_time"], [0.25, 5])
    assert ordered["user"].tolist() == ['q"\n', "a,b"]
    assert ordered.take([True, False], note="one left").notes == ("n 1", "ü", "one left")
    assert not ordered["user"].flags.writeable


def test_texts_taken_in_pieces_are_the_same(tmp_path):
    """More texts than are looked at together: the digest is that of one JSON list."""
    count = 2**16 + 5
    numbers = np.arange(count, dtype=np.float64)
    texts = np.array([f"job{k}é" if k % 7 else "" for k in range(count)])
    columns = {"submit_time": numbers, "num_gpus": numbers, "duration": numbers, "job_id": texts}
    trace = Trace(columns, "long")
    sha = hashlib.sha256(f"jaxsched trace 1\nrelative {count}\n".encode())
    for name, values in trace.columns.items():
        plain = json.dumps(values.tolist()).encode() if name == "job_id" else values.tobytes()
        sha.update(f"{name}\n".encode() + plain)
    assert trace.digest() == sha.hexdigest()
    write_trace(tmp_path / "long.parquet", trace)
    again = read_trace(tmp_path / "long.parquet")
    np.testing.assert_array_equal(again["job_id"], texts)
    assert again.digest() == trace.digest() and again["job_id"].dtype == texts.dtype


def test_columns_cannot_be_changed_from_outside():
    texts = np.array(["a", "b"])
    numbers = np.zeros(2)
    trace = Trace({"submit_time": numbers, "num_gpus": numbers, "duration": numbers, "user": texts})
    view = texts[:]
    view.setflags(write=False)  # read-only, and yet the array below it can be written
    other = Trace({"submit_time": numbers, "num_gpus": numbers, "duration": numbers, "user": view})
    texts[0], numbers[0] = "c", 7
    assert trace["user"][0] == other["user"][0] == "a" and trace["submit_time"][0] == 0
    assert not trace.take(slice(0, 1))["user"].flags.writeable
