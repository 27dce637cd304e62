"""Times as files write them: moments (dates or numbers, with and without zones) and spans of time.

A moment is a date such as ``2024-03-10 01:30:00`` (also with ``T``, fractions of a second, ``Z`` or
``+02:00``, without seconds or without a time) or a number that counts from 1970 or from any origin.
A span is a number or ``D-HH:MM:SS``, ``HH:MM:SS`` or ``MM:SS`` as Slurm prints it, ``2 days
03:04:05`` as pandas does, or ``P2DT3H4M5S``. Axis: ``n`` rows.
"""

import math
import re
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.rows import NOT_KNOWN, Rows, as_number
from jaxsched.traces.text import LONGEST_TEXT
from jaxsched.traces.trace import Clock

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SUBMIT, START, END = "submit_time", "start_time", "end_time"

MOMENTS_READ = "YYYY-MM-DD HH:MM:SS, with or without a zone, or a number"
SPANS_READ = "a number, D-HH:MM:SS or HH:MM:SS"

UNITS = {
    1e-9: ("ns", "nanos", "nanoseconds"),
    1e-6: ("us", "micros", "microseconds"),
    1e-3: ("ms", "msec", "millis", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
"""Seconds of a unit -> its names."""

UNIX_FROM_S = 1e9
"""Numbers from here on (September 2001) count from 1970 in universal time; smaller ones may count
from anywhere."""

_NONE_BEFORE_S = 2 * 86400.0  # 1970-01-01 in any zone

_BY_SIZE = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Numbers that reach this are in this unit, unless it is said; 1e11 s are more than 3,000 years."""

_ORIGIN = datetime(1970, 1, 1)
_YEAR_1_S = (datetime(1, 1, 1) - _ORIGIN).total_seconds()
_ZONE = r"(?:\s?(Z|z|[A-Z]{2,5}|[+-]\d\d(?::?\d\d(?::?\d\d)?)?))?"
_DATE = re.compile(
    rf"(\d{{4}})[-/](\d\d?)[-/](\d\d?)"
    rf"(?:[Tt ]\s?(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{{1,9}})\d*)?)?{_ZONE})?",
    re.ASCII,
)
_USUAL = "0000-00-00T00:00:00"  # a sign for each letter, 0 for digits
_UNIVERSAL = ("Z", "z", "UTC", "GMT")
_CLOCK = re.compile(
    r"(-?)(?:(\d{1,9})(?:-|\s?days?,?\s\+?))?(\d{1,9}):(\d\d)(?::(\d\d))?(?:[.,](\d{1,9})\d*)?",
    re.ASCII,
)
_DAYS_AND_HOURS = re.compile(r"(\d{1,9})-(\d{1,2})", re.ASCII)
_ISO_SPAN = re.compile(
    r"(-?)P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.ASCII,
)


class Moments(NamedTuple):
    """Moments as they are written, ``[n]``.

    Attributes:
      seconds: of a date those from 1970 by the clock that it was read from, of a number itself;
        NaN: not known.
      offset: how far that clock is ahead of universal time (s), where the date says it; else NaN.
      dated: which are dates.
    """

    seconds: Floats
    offset: Floats
    dated: Mask


class Settled(NamedTuple):
    """Moments on one clock.

    Attributes:
      columns: name -> seconds, ``[n]``; NaN: not known.
      clock: what they count from.
      notes: what was guessed or chosen, one sentence each.
      unit_s: seconds of the unit that numbers were taken to be in, if it was not given.
    """

    columns: dict[str, Floats]
    clock: Clock
    notes: tuple[str, ...]
    unit_s: float = 1.0


def moments(rows: Rows, name: str) -> Moments:
    """A column of moments; what stands for nothing is not known.

    Raises:
      JaxschedError: another text; one line with file and line.
    """
    values = rows.floats(name)
    if values is not None:
        return Moments(values, np.full(len(values), np.nan), np.zeros(len(values), np.bool_))
    cells = rows.column(name)
    seconds, offset = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    dates: list[str] = []
    places: list[int] = []
    fractions: list[float] = []
    plain = _plain_dates(cells, seconds)
    for row in np.flatnonzero(~plain).tolist():
        cell = cells[row]
        text = cell.strip()
        match = _DATE.fullmatch(text) if len(text) <= LONGEST_TEXT else None
        if match:
            year, month, day, hour, minute, second, fraction, zone = match.groups()
            dates.append(
                f"{year}-{month:0>2}-{day:0>2}T{hour or '0':0>2}:{minute or '00'}:{second or '00'}"
            )
            places.append(row)
            fractions.append(float(f"0.{fraction}") if fraction else 0.0)
            offset[row] = _offset(zone)
        elif text.lower() not in NOT_KNOWN:
            number = as_number(text)
            if number is None:
                _refuse(rows, row, name, cell)
            else:
                seconds[row] = number
    where = np.array(places, np.int64)
    seconds[where] = _from_1970(rows, name, dates, places) + np.array(fractions)
    dated = plain
    dated[where] = True
    return Moments(seconds, offset, dated)


def _plain_dates(cells: Sequence[str], seconds: Floats) -> Mask:
    """Fill in dates of the usual form, all at once, and say which cells these are, ``[n]``."""
    right = np.fromiter(map(len, cells), np.int64, len(cells)) == len(_USUAL)
    texts = np.array([cell for cell, fits in zip(cells, right.tolist(), strict=True) if fits])
    letters = texts.astype(f"U{len(_USUAL)}").view(np.uint32).reshape(-1, len(_USUAL))
    fits = np.ones(len(texts), np.bool_)
    for place, sign in enumerate(_USUAL):
        at = letters[:, place]
        if sign == "0":
            fits &= (at >= ord("0")) & (at <= ord("9"))
        else:
            fits &= (at == ord(sign)) | ((sign == "T") & (at == ord(" ")))
    try:
        found = texts[fits].astype("datetime64[s]").astype(np.int64).astype(np.float64)
    except ValueError:  # a day or an hour that does not exist; the line is found one by one
        return np.zeros(len(cells), np.bool_)
    fits[fits] = found >= _YEAR_1_S
    right[right] = fits
    seconds[right] = found[found >= _YEAR_1_S]
    return right


def joined(parts: Sequence[Moments]) -> Moments:
    """Moments of consecutive batches as one."""
    return Moments(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def spans(rows: Rows, name: str, unit_s: float = 1.0) -> Floats:
    """A column of spans of time (s), ``[n]``, some of which may be below 0; NaN: not known.

    Args:
      rows: the rows.
      name: of the column.
      unit_s: seconds of the unit that numbers are in.

    Raises:
      JaxschedError: another text; one line with file and line.
    """
    numbers = rows.floats(name)
    if numbers is not None:
        return numbers * unit_s
    values = []
    for row, cell in enumerate(rows.column(name)):
        text = cell.strip()
        span = as_number(text)
        if span is not None:
            span *= unit_s
        elif text.lower() in NOT_KNOWN:
            span = math.nan
        else:
            span = as_span(text)
        if span is None:
            rows.fail(row, f"{name} is {describe_value(cell)}; accepted: {SPANS_READ}")
        values.append(span)
    return np.array(values, np.float64)


def as_span(text: str) -> float | None:
    """Seconds of a span that is not a plain number; None if it is no span."""
    if len(text) > LONGEST_TEXT:
        return None
    match = _CLOCK.fullmatch(text)
    if match:
        sign, days, first, second, third, fraction = match.groups()
        parts = [int(part) for part in (first, second, third) if part is not None]
        if days is None and len(parts) == 2:
            parts.insert(0, 0)  # minutes and seconds, as Slurm prints short times
        units = (3600.0, 60.0, 1.0)[: len(parts)]
        span = sum(part * unit for part, unit in zip(parts, units, strict=True))
        span += float(f"0.{fraction}") if fraction else 0.0
        span += 86400.0 * int(days or 0)
        return -span if sign else span
    match = _DAYS_AND_HOURS.fullmatch(text)
    if match:
        return 86400.0 * int(match[1]) + 3600.0 * int(match[2])
    match = _ISO_SPAN.fullmatch(text)
    if match and any(match.groups()[1:5]):
        sign, *counts, fraction = match.groups()
        units = (86400.0, 3600.0, 60.0, 1.0)
        span = sum(int(count or 0) * unit for count, unit in zip(counts, units, strict=True))
        span += float(f"0.{fraction}") if fraction else 0.0
        return -span if sign else span
    return None


def unit_of(name: str) -> float | None:
    """Seconds of a unit by its name; None if it is none."""
    return next((seconds for seconds, names in UNITS.items() if name.lower() in names), None)


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """A time zone by its name.

    Raises:
      JaxschedError: there is no such zone.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise JaxschedError(
            f"timezone is {describe_value(name)}; accepted: a name such as Europe/Berlin, "
            "America/Los_Angeles or UTC"
        ) from None


def settle(
    written: Mapping[str, Moments],
    *,
    zone: zoneinfo.ZoneInfo | None = None,
    units_s: Mapping[str, float] | None = None,
    duration: Floats | None = None,
    clock: Clock | None = None,
) -> Settled:
    """Columns of moments on one clock: universal where zones are known, else as they are written.

    Dates with a zone beside them, and all dates where ``zone`` is given, become universal time, so
    that no change to or from summer time comes between two of them. Numbers count from 1970 in
    universal time if half of the submissions are ``UNIX_FROM_S`` or more. Then, and beside dates,
    moments of the first two days of 1970 or before stand for none. Of an hour that the clock has
    twice the first is taken, unless a job would start before its submission, end before its start
    (or further from its run time), or the rows, else in order of submission, would go back.

    Args:
      written: name -> moments, ``submit_time`` among them.
      zone: of dates that say none.
      units_s: name -> seconds of the unit of its numbers; told by their size where absent.
      duration: run times (s) where known, ``[n]``.
      clock: what numbers count from; None: told by their size.

    Raises:
      JaxschedError: some dates have a zone and others do not, or most of a column beside dates are
        numbers that count from another origin.
    """
    notes: list[str] = []
    columns, unit = _scaled(written, units_s or {}, notes)
    if clock is None:
        columns = _after_1970(columns, written, notes)
    some = {name: ~np.isnan(values) for name, values in columns.items()}
    dated = {name: found.dated & some[name] for name, found in written.items()}
    numbers = {name: some[name] & ~dated[name] for name in written}
    if not _any(dated):
        if zone is not None:
            notes.append(f"times are numbers, so that the zone {zone.key} changes nothing")
        if clock is not None or not _is_from_1970(columns[SUBMIT]):
            return Settled(columns, clock or "relative", tuple(notes), unit)
        notes.append("times are taken to count from 1970 in universal time, by their size")
        return Settled(columns, "utc", tuple(notes), unit)
    zoned = {name: ~np.isnan(found.offset) for name, found in written.items()}
    plain = {name: dated[name] & ~zoned[name] for name in written}
    if zone is None and _any(plain):
        if _any(zoned) or _any(numbers):
            name = next(name for name in plain if np.any(plain[name]))
            raise JaxschedError(
                f"some times say their zone and some of {name} do not; accepted: a zone for these "
                f"({argument('timezone')}, such as Europe/Berlin)"
            )
        notes.append(
            f"dates say no zone and are those of a local clock ({argument('timezone')} names it)"
        )
        return Settled(columns, "local", tuple(notes), unit)
    repeated = skipped = 0
    settled: dict[str, Floats] = {}
    for name in sorted(written, key=_in_order):
        values = columns[name] - np.where(zoned[name], written[name].offset, 0.0)
        if zone is not None and np.any(plain[name]):
            at = np.flatnonzero(plain[name])
            early, late = _universal(columns[name][at], zone)
            chosen = np.where(late > early, _later(name, early, late, at, settled, duration), False)
            values[at] = np.where(chosen, late, early)
            repeated += int(np.sum(late > early))
            skipped += int(np.sum(late < early))
        settled[name] = values
    if zone is not None and _any(plain):
        notes.append(f"times of the zone {zone.key}, kept in universal time")
    elif _any(zoned):
        notes.append("times with zones, kept in universal time")
    if repeated:
        notes.append(
            f"{repeated} times in an hour that the clock has twice, taken for the first unless a "
            "job's times or the order of rows say the second"
        )
    if skipped:
        notes.append(f"{skipped} times in an hour that the clock skips, taken for an hour later")
    return Settled({name: settled[name] for name in written}, "utc", tuple(notes), unit)


def _offset(zone: str | None) -> float:
    """Seconds ahead of universal time; NaN where letters do not tell."""
    if zone in _UNIVERSAL:
        return 0.0
    if not zone or zone[0] not in "+-":
        return math.nan
    digits = zone[1:].replace(":", "")
    seconds = sum(
        int(digits[first : first + 2]) * unit
        for first, unit in zip(range(0, len(digits), 2), (3600, 60, 1), strict=False)
    )
    return float(-seconds if zone[0] == "-" else seconds)


def _from_1970(rows: Rows, name: str, dates: list[str], places: list[int]) -> Floats:
    try:
        times = np.array(dates, "datetime64[s]").astype(np.int64).astype(np.float64)
    except ValueError:  # a day or an hour that does not exist
        for row, date in zip(places, dates, strict=True):
            try:
                np.datetime64(date, "s")
            except ValueError:
                _refuse(rows, row, name, rows.column(name)[row])
        raise
    if np.any(times < _YEAR_1_S):
        row = places[int(np.argmax(times < _YEAR_1_S))]
        _refuse(rows, row, name, rows.column(name)[row])
    return times


def _refuse(rows: Rows, row: int, name: str, cell: str) -> None:
    rows.fail(row, f"{name} is {describe_value(cell)}; accepted: {MOMENTS_READ}")


def _scaled(
    written: Mapping[str, Moments], units_s: Mapping[str, float], notes: list[str]
) -> tuple[dict[str, Floats], float]:
    """Numbers in seconds; those without a unit have one in common, which is returned, too."""
    open_ones = [
        found.seconds[~found.dated] for name, found in written.items() if name not in units_s
    ]
    largest = np.nanmax(np.abs(np.concatenate(open_ones)), initial=0.0) if open_ones else 0.0
    by_size = next((unit for least, unit in _BY_SIZE if largest >= least), 1.0)
    if by_size != 1.0:
        notes.append(f"times are taken for {UNITS[by_size][-1]}, by their size")
    return {
        name: np.where(found.dated, found.seconds, found.seconds * units_s.get(name, by_size))
        for name, found in written.items()
    }, by_size


def _is_from_1970(submit: Floats) -> bool:
    """Whether submissions count from 1970: half of them are of September 2001 or later."""
    known = submit[~np.isnan(submit)]
    return bool(len(known)) and float(np.median(known)) >= UNIX_FROM_S


def _after_1970(
    columns: Mapping[str, Floats], written: Mapping[str, Moments], notes: list[str]
) -> dict[str, Floats]:
    """The columns without moments that stand for none: 0, year 1, small numbers beside dates."""
    if not _is_from_1970(columns[SUBMIT]):
        return dict(columns)
    some_dates = any(np.any(found.dated) for found in written.values())
    kept = {}
    for name, values in columns.items():
        small = ~written[name].dated & (values < UNIX_FROM_S) & some_dates
        if 2 * np.sum(small & (values > 0)) > np.sum(~np.isnan(values)):
            raise JaxschedError(
                f"{name} is {values[small].max():g} in a file with dates; accepted: dates, or "
                "seconds from 1970"
            )
        none = small | (values < _NONE_BEFORE_S)
        if np.any(none):
            notes.append(f"{np.sum(none)} values of {name} of 1970 or before, taken as not known")
        kept[name] = np.where(none, np.nan, values)
    return kept


def _any(masks: Mapping[str, Mask]) -> bool:
    return any(np.any(mask) for mask in masks.values())


def _in_order(name: str) -> int:
    """A job's moments as they follow each other, others last."""
    order = (SUBMIT, START, END)
    return order.index(name) if name in order else len(order)


def _universal(naive: Floats, zone: zoneinfo.ZoneInfo) -> tuple[Floats, Floats]:
    """Universal time of what a clock shows: for the first and for the second time it shows it.

    The two differ only in an hour that the clock has twice (the second is later) or that it skips
    (the second is earlier).
    """
    minutes, where = np.unique(np.floor(naive / 60), return_inverse=True)
    shifts = np.array([_shifts(minute, zone) for minute in minutes.tolist()]).reshape(-1, 2)
    first, second = shifts[where].T
    return naive - first, naive - second


def _shifts(minute: float, zone: zoneinfo.ZoneInfo) -> tuple[float, float]:
    """Seconds that a zone is ahead at a minute of its own, for the first and the second time."""
    at = (_ORIGIN + timedelta(minutes=minute)).replace(tzinfo=zone)
    found = [at.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    return found[0].total_seconds(), found[1].total_seconds()


def _later(
    name: str,
    early: Floats,
    late: Floats,
    at: npt.NDArray[np.int64],
    settled: Mapping[str, Floats],
    duration: Floats | None,
) -> Mask:
    """Which moments are of the second hour, where they could be of either."""
    if name == SUBMIT:
        return _goes_back(early, late)
    start = settled[START][at] if START in settled else np.full(len(at), np.nan)
    submit = settled[SUBMIT][at]
    if name == START:
        return early < submit
    if name != END:
        return np.zeros(len(at), np.bool_)
    aim = start + (np.nan if duration is None else duration[at])
    before = early < np.where(np.isnan(start), submit, start)
    return np.where(np.isnan(aim), before, np.abs(late - aim) < np.abs(early - aim))


def _goes_back(early: Floats, late: Floats) -> Mask:
    """Which submissions are of the second hour: those after the rows, else in order, go back."""
    twice = late > early
    second = np.zeros(len(early), np.bool_)
    if not np.any(twice) or np.any(np.diff(early[~twice]) < 0):
        return second
    places = np.flatnonzero(twice)
    for run in _runs(places):
        back = np.diff(early[run], prepend=early[run[0]]) < 0
        second[run] = np.logical_or.accumulate(back)
    return second


def _runs(places: npt.NDArray[np.int64]) -> Iterable[npt.NDArray[np.int64]]:
    """Stretches of consecutive rows."""
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
