"""Recorded schedules as they are stored: what ``Schedule.to_json`` wrote, read and checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.models import spelled
from jaxsched.jobs.schedule import (
    NEVER,
    PIECE_COLUMNS,
    Band,
    Floats,
    Integers,
    Line,
    Pieces,
    Schedule,
    check_pieces,
)

WORDS = ("system", "policy", "episode", "unit", "level_title")


def schedule_of(entry: Any, where: str) -> Schedule:
    """The schedule of an object; facts, marks and decisions are left out, as pictures in print do.

    Args:
      entry: what ``Schedule.to_json`` gave.
      where: what messages call it.

    Raises:
      JaxschedError: naming the first offending place.
    """
    words: Any = {name: _word(_get(entry, name, where), f"{where}.{name}") for name in WORDS}
    bands = tuple(
        _band(band, f"{where}.bands[{i}]")
        for i, band in enumerate(_list(_get(entry, "bands", where), f"{where}.bands"))
    )
    times: Any = {
        name: _floats(_get(entry, name, where), f"{where}.{name}", missing=NEVER)
        for name in ("submit", "start", "finish")
    }
    model = _integers(_get(entry, "model", where), f"{where}.model")
    deadline = _get(entry, "deadline", where)
    lines = _list(_get(entry, "lines", where), f"{where}.lines")
    schedule = Schedule(
        **words,
        bands=bands,
        pieces=_pieces(_get(entry, "pieces", where), f"{where}.pieces"),
        **times,
        model=model,
        models=tuple(map(spelled, _words(_get(entry, "models", where), f"{where}.models"))),
        levels=_words(_get(entry, "levels", where), f"{where}.levels"),
        deadline=None if deadline is None else _floats(deadline, f"{where}.deadline"),
        lines=tuple(_line(line, f"{where}.lines[{i}]") for i, line in enumerate(lines)),
        notes=_words(_get(entry, "notes", where), f"{where}.notes"),
    )
    counts = {name: len(column) for name, column in {**times, "model": model}.items()}
    if len(set(counts.values())) > 1:
        raise JaxschedError(f"{where}: found {counts}, expected as many of each as there are jobs")
    try:
        check_pieces(schedule)
    except JaxschedError as error:
        raise JaxschedError(f"{where}: {error}") from None
    return schedule


def _pieces(entry: Any, where: str) -> Pieces:
    columns = {name: _floats(_get(entry, name, where), f"{where}.{name}") for name in PIECE_COLUMNS}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise JaxschedError(f"{where}: columns have {sorted(lengths)} values, expected as many")
    return Pieces.of(np.stack([columns[name] for name in PIECE_COLUMNS], axis=-1))


def _band(entry: Any, where: str) -> Band:
    pair = _list(entry, where)
    rows = pair[1] if len(pair) == 2 else None
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise JaxschedError(f"{where}: {entry!r}, expected a name and a number of rows")
    return Band(_word(pair[0], where), rows)


def _line(entry: Any, where: str) -> Line:
    times = _floats(_get(entry, "times", where), f"{where}.times")
    values = _floats(_get(entry, "values", where), f"{where}.values", missing=np.nan)
    if len(times) != len(values) or np.any(np.diff(times) < 0):
        raise JaxschedError(f"{where}: expected times that do not decrease, and a value for each")
    name, chart, unit = (
        _word(_get(entry, word, where), f"{where}.{word}") for word in ("name", "chart", "unit")
    )
    return Line(name, chart, times, values, unit, bool(_get(entry, "stacked", where)))


def _get(entry: Any, name: str, where: str) -> Any:
    if not isinstance(entry, Mapping):
        raise JaxschedError(f"{where}: found {type(entry).__name__}, expected an object")
    if name not in entry:
        raise JaxschedError(f"{where}: {name!r} is missing, found {', '.join(entry) or 'nothing'}")
    return entry[name]


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise JaxschedError(f"{where}: found {type(value).__name__}, expected a list")
    return value


def _word(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise JaxschedError(f"{where}: found {type(value).__name__}, expected a string")
    return value


def _words(value: Any, where: str) -> tuple[str, ...]:
    return tuple(_word(word, f"{where}[{i}]") for i, word in enumerate(_list(value, where)))


def _floats(value: Any, where: str, missing: float | None = None) -> Floats:
    """Finite numbers; null is ``missing`` where there may be any."""
    found = _list(value, where)
    for i, number in enumerate(found):
        real = isinstance(number, int | float) and not isinstance(number, bool)
        if not (real and abs(number) < 1e300) and not (number is None and missing is not None):
            raise JaxschedError(f"{where}[{i}]: {number!r}, expected a finite number")
    return np.array([missing if number is None else number for number in found], np.float64)


def _integers(value: Any, where: str) -> Integers:
    numbers: npt.NDArray[np.int64] = _floats(value, where).astype(np.int64)
    return numbers
