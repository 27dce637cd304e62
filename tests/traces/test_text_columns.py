"""Texts of large traces take a byte for each letter, and nobody notices."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import text_columns
from jaxsched.traces.clusters import generate_trace
from jaxsched.traces.describe_trace import describe_trace
from jaxsched.traces.text_columns import Compact
from jaxsched.traces.trace import TRACE_COLUMNS, Trace, known
from jaxsched.traces.trace_files import read_trace, write_trace

TEXTS = {
    "job_id": ["7", "a\0b", "", "10:b", "long name of a job"],
    "user": ["", "", "", "", ""],
    "group": ["é", "b", "", "vc1", "vc2"],
    "status": ["completed", "", "failed", "killed", "running"],
}


def trace_of(**columns):
    numbers = {"submit_time": [3.0, 1, 2, 5, 4], "num_gpus": [0.0, 1, 2, 0.5, np.nan]}
    arrays = {name: np.array(values) for name, values in (numbers | TEXTS | columns).items()}
    return Trace(arrays | {"duration": np.array([-0.0, np.nan, 1, 2, 3])})


@pytest.fixture(params=["memory", "parquet"])
def both(request, tmp_path, monkeypatch):
    """The same trace, its texts at hand and compact."""
    plain = trace_of()
    write_trace(tmp_path / "t.parquet", plain)
    monkeypatch.setattr(text_columns, "LARGE_ROWS", 2)
    return plain, trace_of() if request.param == "memory" else read_trace(tmp_path / "t.parquet")


def test_what_is_compact(both):
    plain, compact = both
    is_compact = [isinstance(compact.columns.stored(name), Compact) for name in TEXTS]
    assert is_compact == [True, True, False, True]  # é is no letter of ASCII
    assert not any(isinstance(plain.columns.stored(name), Compact) for name in TEXTS)
    for name in plain.columns:
        np.testing.assert_array_equal(compact[name], plain[name])
        assert compact[name].dtype.kind == plain[name].dtype.kind
        assert not compact[name].flags.writeable
        np.testing.assert_array_equal(known(compact, name), known(plain, name))
    assert compact.digest() == plain.digest()


@pytest.mark.parametrize("rows", [slice(1, 4), [3, 0], np.array([True, False] * 2 + [True])])
def test_rows(both, rows):
    plain, compact = both
    assert compact.take(rows).digest() == plain.take(rows).digest()
    assert compact.by_submission().digest() == plain.by_submission().digest()
    assert describe_trace(compact.take(rows)) == {
        **describe_trace(plain.take(rows)),
        **{name: getattr(compact, name) for name in ("name", "source", "rows_read")},
    }


def test_compact_texts_are_checked_and_written(both, tmp_path):
    plain, compact = both
    with pytest.raises(JaxschedError, match=r"job 2: status is 'ended'; accepted: completed, "):
        trace_of(status=["", "killed", "ended", "", ""])
    with pytest.raises(JaxschedError, match=r"job 1: user is 'uuu.*texts of up to 256 letters"):
        trace_of(user=["", "u" * 257, "", "", ""])
    write_trace(tmp_path / "again.parquet", compact)
    assert read_trace(tmp_path / "again.parquet").digest() == plain.digest()
    with pytest.raises(TypeError):
        compact.columns["user"] = compact["user"]


def test_a_parquet_file_of_others_is_checked(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(text_columns, "LARGE_ROWS", 2)
    numbers = {name: [1.0, 2.0, 3.0] for name in ("submit_time", "num_gpus", "duration")}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(numbers | {"status": ["killed", None, "ended"]}), path)
    trace = read_trace(path)
    assert trace["status"].tolist() == ["killed", "", ""]
    assert trace.notes == (
        "1 jobs of the state 'ended', which is not known, their status left empty",
    )
    pq.write_table(
        pa.table(numbers | {"user": pa.array(["a", None, "bc"]).dictionary_encode()}), path
    )
    assert read_trace(path)["user"].tolist() == ["a", "", "bc"]


def test_bytes_of_a_job(tmp_path, monkeypatch):
    """What a trace of Helios' columns keeps: 8 bytes for a number, one for a letter."""
    monkeypatch.setattr(text_columns, "LARGE_ROWS", 1000)
    jobs = generate_trace("helios-venus-like", 0, 2000)
    ids = np.char.add("1", np.char.zfill(np.arange(2000).astype(str), 7))
    texts = {"job_id": ids, "user": np.char.add("u", (np.arange(2000) % 900 + 1000).astype(str))}
    path = tmp_path / "t.parquet"
    write_trace(path, Trace({**jobs.columns, **texts, "start_time": jobs["submit_time"]}))
    trace, kept = read_trace(path), 0
    kinds = {column.name: column.kind for column in TRACE_COLUMNS}
    for name in trace.columns:
        stored = trace.columns.stored(name)
        kept += (stored.letters if isinstance(stored, Compact) else stored).nbytes
    letters = sum(
        trace[name].dtype.itemsize // 4 for name in trace.columns if kinds[name] == "text"
    )
    numbers = sum(kind == "real" for name, kind in kinds.items() if name in trace.columns)
    assert kept == 2000 * (8 * numbers + letters) and letters >= 8 + 5 + 9
