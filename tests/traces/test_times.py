"""Moments and spans of time in every spelling, and the change of a clock."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces.rows import Rows
from jaxsched.traces.times import Moments, as_span, moments, settle, spans, unit_of, zone_of
from jaxsched.traces.trace import Trace
from jaxsched.traces.universal import in_universal_time

DAY = 86400.0
MARCH_10 = 1710028800.0  # 2024-03-10 00:00 universal
OCTOBER_27 = 1729987200.0  # 2024-10-27 00:00 universal; Berlin's clock goes back at 01:00
BERLIN = zone_of("Europe/Berlin")


def rows(*cells):
    return Rows("file", ("at",), [[cell] for cell in cells], list(range(2, len(cells) + 2)))


def written(*cells):
    return moments(rows(*cells), "at")


@pytest.mark.parametrize(
    ("cell", "seconds", "offset"),
    [
        ("2024-03-10 01:00:00", 3600, None),
        (" 2024-03-10T01:00:00 ", 3600, None),
        ("2024-03-10 01:00", 3600, None),
        ("2024-03-10", 0, None),
        ("2024/3/10 1:00:00", 3600, None),
        ("2024-03-10 01:00:00.25", 3600.25, None),
        ("2024-03-10T01:00:00.123456789012Z", 3600.123456789, 0),
        ("2024-03-10 01:00:00 UTC", 3600, 0),
        ("2024-03-10T01:00:00+02:00", 3600, 7200),
        ("2024-03-10 01:00:00 -0730", 3600, -27000),
        ("2024-03-10 01:00:00-08", 3600, -28800),
        ("2024-03-10 01:00:00 PST", 3600, None),
    ],
)
def test_dates(cell, seconds, offset):
    found = written(cell)
    assert found.seconds[0] == pytest.approx(MARCH_10 + seconds, abs=1e-6) and found.dated[0]
    assert np.isnan(found.offset[0]) if offset is None else found.offset[0] == offset


def test_numbers_and_what_is_not_known():
    found = written("7.5", "Unknown", "", "NaT", "-3", "None")
    np.testing.assert_array_equal(found.seconds, [7.5, np.nan, np.nan, np.nan, -3, np.nan])
    assert not found.dated.any()


@pytest.mark.parametrize(
    "cell",
    ["soon", "2024-02-30 00:00:00", "2024-03-10 25:00:00", "0000-01-01", "10.03.2024", "1e999"],
)
def test_other_texts_are_refused(cell):
    with pytest.raises(JaxschedError, match="^file, line 3: at is .*; accepted: YYYY-MM-DD HH:MM"):
        written("1", cell)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-03:04:05", 2 * DAY + 3 * 3600 + 4 * 60 + 5),
        ("03:04:05", 3 * 3600 + 4 * 60 + 5),
        ("100:00:00", 360000),
        ("04:05", 245),
        ("00:01.500", 1.5),
        ("2-03:04", 2 * DAY + 3 * 3600 + 4 * 60),
        ("2-03", 2 * DAY + 3 * 3600),
        ("0 days 01:00:00", 3600),
        ("2 days, 3:04:05.5", 2 * DAY + 3 * 3600 + 4 * 60 + 5.5),
        ("1 day, 0:00:01", DAY + 1),
        ("PT1H30M", 5400),
        ("P1DT0.5S", DAY + 0.5),
        ("-00:01:00", -60),
    ],
)
def test_spans(text, seconds):
    assert as_span(text) == seconds
    assert spans(rows(text), "at").tolist() == [seconds]


def test_spans_that_are_numbers_or_none():
    assert spans(rows("1.5", "00:01:00"), "at", 60.0).tolist() == [90, 60]
    assert np.isnan(spans(rows("UNLIMITED", "Unknown", ""), "at")).all()
    assert [unit_of(name) for name in ("ms", "Hours", "min", "parsec")] == [1e-3, 3600, 60, None]
    for text in ("soon", "1:2:3", "P", "1-2-3", "9" * 400):
        with pytest.raises(
            JaxschedError, match="^file, line 2: at is .*; accepted: a number, D-HH"
        ):
            spans(rows(text), "at")
    for name in ("Europe/Bärlin", "Europe", "", "/etc/passwd", "../x", "x" * 5000, "\0", "CEST"):
        with pytest.raises(JaxschedError, match=r"^timezone is .*; accepted: a name such as E"):
            zone_of(name)


def test_numbers_count_from_1970_if_they_are_large_and_in_the_unit_of_their_size():
    for number, scale in (("1710032400", 1), ("1710032400000", 1e-3), ("1710032400000000", 1e-6)):
        found = settle({"submit_time": written(number), "end_time": written("Unknown")})
        assert (found.columns["submit_time"][0], found.clock) == (float(number) * scale, "utc")
    assert settle({"submit_time": written("5", "6", "1e10")}).clock == "relative"
    found = settle({"submit_time": written("1500")}, units_s={"submit_time": 1e-3})
    assert found.columns["submit_time"][0] == 1.5
    assert "changes nothing" in settle({"submit_time": written("5")}, zone=BERLIN).notes[0]


def test_dates_without_a_zone_are_local_and_with_one_universal():
    cells = "2024-07-01 12:00:00", "2024-01-01 12:00:00"
    local = settle({"submit_time": written(*cells)})
    assert local.clock == "local" and local.columns["submit_time"][0] == 1719835200
    universal = settle({"submit_time": written(*cells)}, zone=BERLIN)
    assert universal.clock == "utc"
    assert (local.columns["submit_time"] - universal.columns["submit_time"]).tolist() == [
        7200,
        3600,
    ]
    own = settle({"submit_time": written("2024-07-01T12:00:00-07:00")}, zone=BERLIN)
    assert own.columns["submit_time"][0] == 1719835200 + 7 * 3600


def test_a_mixture_is_refused_or_mended_by_a_zone():
    mixed = {"submit_time": written("2024-07-01T12:00:00Z", "2024-07-01 14:00:00")}
    with pytest.raises(JaxschedError, match="some times say their zone and some of submit_time do"):
        settle(mixed)
    assert settle(mixed, zone=BERLIN).columns["submit_time"].tolist() == [1719835200] * 2
    with pytest.raises(
        JaxschedError, match="start_time is 7 in a file with dates; accepted: dates"
    ):
        settle({"submit_time": written("2024-07-01"), "start_time": written("7")})
    day = "2024-07-01"
    found = settle({"submit_time": written(day, day, day), "end_time": written(day, day, "0")})
    assert np.isnan(found.columns["end_time"]).tolist() == [False, False, True]
    assert found.notes[0] == "1 values of end_time of 1970 or before, taken as not known"


def test_moments_that_stand_for_none():
    """0 and what dates of 0 look like, in zones and in Go, beside times of today."""
    for unix, none in (("1710032400", "0"), ("1710032400", "-1"), ("1710032400000", "0"),
                       ("2024-03-10T01:00:00Z", "0001-01-01T00:00:00Z"),
                       ("2024-03-10 01:00:00", "1970-01-01 08:00:00")):  # fmt: skip
        columns = {
            "submit_time": written(unix, unix, none),
            "start_time": written(none, unix, unix),
        }
        found = settle(columns)
        assert np.isnan(found.columns["submit_time"]).tolist() == [False, False, True]
        assert np.isnan(found.columns["start_time"]).tolist() == [True, False, False]
        assert sum("of 1970 or before, taken as not known" in note for note in found.notes) == 2
    found = settle({"submit_time": written("0", "5", "7"), "start_time": written("0", "6", "9")})
    assert found.clock == "relative" and not np.isnan(found.columns["start_time"]).any()


def test_the_hour_that_the_clock_has_twice():
    """Submitted at 02:30 summer time, started 02:50, ended 02:10 winter time."""
    columns = {
        "submit_time": written("2024-10-27 01:00:00", "2024-10-27 02:30:00", "2024-10-27 02:59:00"),
        "start_time": written("2024-10-27 01:00:00", "2024-10-27 02:50:00", "2024-10-27 02:30:00"),
        "end_time": written("2024-10-27 02:30:00", "2024-10-27 02:10:00", "2024-10-27 02:40:00"),
    }
    found = settle(columns, zone=BERLIN, duration=np.array([9000.0, np.nan, np.nan]))
    from_midnight = {name: (times - OCTOBER_27).tolist() for name, times in found.columns.items()}
    assert from_midnight == {
        "submit_time": [-3600, 1800, 3540],
        "start_time": [-3600, 3000, 5400],
        "end_time": [5400, 4200, 6000],
    }
    assert found.notes[1].startswith("7 times in an hour that the clock has twice")


def test_rows_in_order_tell_the_second_hour():
    cells = ("01:50", "02:10", "02:50", "02:05", "02:55", "03:10")
    found = settle(
        {"submit_time": written(*(f"2024-10-27 {cell}:00" for cell in cells))}, zone=BERLIN
    )
    assert np.all(np.diff(found.columns["submit_time"]) > 0)
    skipped = settle({"submit_time": written("2024-03-31 02:30:00")}, zone=BERLIN)
    assert skipped.columns["submit_time"][0] == 1711848600  # 03:30 summer time
    assert skipped.notes[1] == "1 times in an hour that the clock skips, taken for an hour later"


def test_a_trace_of_a_local_clock_in_universal_time():
    naive = np.array([OCTOBER_27 + 3600, OCTOBER_27 + 9000])
    trace = Trace(
        {
            "submit_time": naive,
            "num_gpus": np.ones(2),
            "duration": np.array([1800.0, np.nan]),
            "start_time": naive,
            "end_time": np.array([OCTOBER_27 + 5400, OCTOBER_27 + 8400]),
        },
        clock="local",
    )
    found = in_universal_time(trace, BERLIN)
    assert found.clock == "utc" and found["duration"].tolist() == [1800, 3000]
    assert (found["submit_time"] - OCTOBER_27).tolist() == [-3600, 1800]
    relative = Trace({name: trace[name] for name in ("submit_time", "num_gpus", "duration")})
    assert in_universal_time(relative, BERLIN).notes[0].startswith("its clock is relative, so that")


def test_no_moments_at_all():
    empty = Moments(np.full(2, np.nan), np.full(2, np.nan), np.zeros(2, np.bool_))
    assert settle({"submit_time": empty}).clock == "relative"
