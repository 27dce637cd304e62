"""Large files give the same columns and the same messages, however they are read."""

import gzip

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import arrow_rows
from jaxsched.traces.file_columns import read_columns
from jaxsched.traces.readers import helios
from tests.traces.test_read_helios import HEADER, ROWS, write

ODD = (
    " 7 ,uXBbc,vcJkd, +1.5e0 ,1.,.5,,2020-06-09T18:41:01.25 +08:00,None, NaN ,36848,0",
    "8,Zoë,null,1,1,1,COMPLETED,2020-06-09 18:41:01CST,2020-06-09 18:41:01,2020-06-09 18:41:02,1,0",
)


@pytest.fixture
def both(monkeypatch):
    """A function that reads a file by Arrow (did it?) and line by line, as text of the outcome."""

    def read(path):
        results, used = [], []
        for least in (0, 2**40):
            monkeypatch.setattr(arrow_rows, "LARGE_BYTES", least)
            used.append(arrow_rows.read_by_arrow(path, helios.HEADERS, helios._columns) is not None)
            try:
                trace = helios.read(path)
                results.append((trace.digest(), trace.notes))
            except JaxschedError as error:
                results.append(str(error))
        assert not used[1] and results[0] == results[1]
        return used[0], results[0]

    return read


def test_large_files_are_read_by_arrow_to_the_same_columns(tmp_path, both, monkeypatch):
    monkeypatch.setattr(arrow_rows, "_BLOCK_BYTES", 4096)
    used, (_, notes) = both(write(tmp_path / "a.csv", "", HEADER, *(ROWS + ODD) * 60))
    assert used and notes == ("180 jobs without start or end, their run times not known",)
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress(("\ufeff" + "\r\n".join([HEADER, *ROWS, ""])).encode()))
    assert both(packed)[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROWS[0].replace("uXBbc", '"u,X"'), None),
        (ROWS[0].replace("uXBbc", "u" * 257), "line 3: user is 'uuu"),
        (ROWS[0].replace("36848", "x"), "line 3: duration is 'x'; accepted: a number"),
        (ROWS[0].replace("36848", "1e400"), "line 3: duration is '1e400'; accepted: a number"),
        (ROWS[0].replace("36848", "0" * 300), "line 3: duration is '000"),
        (ROWS[0].replace("06-10", "06-31"), "line 3: end_time is '2020-06-31 04:55:09'; accepted"),
        (ROWS[2][:-1], "line 3: has 11 values; accepted: 12"),
        ("\u00e9 ", "line 3: has 1 values; accepted: 12"),
    ],
)
def test_what_is_unusual_goes_line_by_line(tmp_path, both, row, message):
    used, outcome = both(write(tmp_path / "a.csv", HEADER, ROWS[1], row))
    assert not used
    assert message is None or message in outcome


def test_odd_rows_are_counted_alike(tmp_path, both):
    odd = (
        ROWS[0].replace(",1,1,1,", ",-1,1,1,").replace("36848", "-1"),
        ROWS[2].replace("2020-06-09 18:41:28", "Unknown"),
        ROWS[0].replace("COMPLETED", "DONE"),
        ROWS[0].replace("06-10 04", "06-01 04"),
    )
    used, (_, notes) = both(write(tmp_path / "a.csv", HEADER, ROWS[1], *odd))
    assert used and len(notes) == 6


def test_other_headers_and_missing_files_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_rows, "LARGE_BYTES", 0)
    path = write(tmp_path / "a.csv", "a,b", "1,2")
    for file in (path, tmp_path / "none.csv"):
        assert arrow_rows.read_by_arrow(file, helios.HEADERS, helios._columns) is None
    assert arrow_rows.read_by_arrow(path, (("a", "b"),), lambda rows: {"a": rows.numbers("a")})
    columns = read_columns(
        path, (("a", "b"),), lambda rows: {"b": rows.whole_numbers("b")}, large_by_arrow=True
    )
    np.testing.assert_array_equal(columns["b"], [2])
