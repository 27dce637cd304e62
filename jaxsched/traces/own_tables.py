"""Tables of one's own: any comma-separated or Parquet file that has the columns of a trace.

Which column is which: ``own_names``; what times may look like: ``times``. A column that nobody
needs refuses nothing: it is left out, and a note says so, even if it was known by its name and its
cells are not what a trace takes. Parquet's columns are read as texts of their values, so that both
layouts have the same rules.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces import own_names
from jaxsched.traces.odd_rows import Counts, count_state, finished, from_zero_on
from jaxsched.traces.own_names import NEEDED, WAIT, Given, Plan
from jaxsched.traces.rows import BATCH_ROWS, Rows, split_rows
from jaxsched.traces.states import status_of
from jaxsched.traces.text import open_text, read_head
from jaxsched.traces.times import (
    END,
    START,
    SUBMIT,
    UNITS,
    Moments,
    joined,
    moments,
    settle,
    spans,
    zone_of,
)
from jaxsched.traces.trace import STATUSES, TRACE_COLUMNS, Clock, Trace

NAME = "trace"
DELIMITERS = ",;\t|"

_KINDS = {column.name: column.kind for column in TRACE_COLUMNS}
_MOMENTS = (SUBMIT, START, END, "deadline")
_SPANS = ("duration", "requested_time", WAIT)

Floats = npt.NDArray[np.float64]
Part = dict[str, npt.NDArray[Any] | Moments]


class Layout(NamedTuple):
    """How a text file is laid out.

    Attributes:
      header: names of its columns.
      delimiter: between cells.
    """

    header: tuple[str, ...]
    delimiter: str


def fits(text: str) -> bool:
    """Whether a text file begins with a header from whose usual names a trace can be made."""
    return own_names.plan("", layout_of(text).header, {}).is_enough


def layout_of(text: str) -> Layout:
    """The header of a text, and what stands between its names most often."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count)  # the first of equals: the comma
    try:
        cells = next(csv.reader([first], delimiter=delimiter), [])
    except csv.Error:
        cells = []
    return Layout(tuple(cell.strip() for cell in cells), delimiter)


def read_text(
    path: PathLike,
    *,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    clock: Clock | None = None,
    first_lines: int = 0,
) -> Trace:
    """Read a text file of separated values.

    Args:
      path: the file, plain or gzip.
      columns: names in the file and in a trace (``own_names.read_given``); usual names are told.
      timezone: of dates that do not say theirs, such as ``Europe/Berlin``.
      clock: what numbers count from, where that is known.
      first_lines: lines before the header.

    Raises:
      JaxschedError: one line that says what is wrong and what is accepted.
    """
    given = own_names.read_given(columns)
    head = read_head(path)
    layout = layout_of("\n".join(head.splitlines()[first_lines:]))
    plan = _planned(path, layout.header, given)
    counts: Counts = Counter()
    with open_text(path) as file:
        for _ in range(first_lines):
            file.readline()
        batches = split_rows(
            path,
            file,
            lambda names: names == layout.header,
            accepted=",".join(layout.header[:8]),
            lines_before=first_lines,
            delimiter=layout.delimiter,
            ragged=True,
            counts=counts,
        )
        if layout.delimiter == ";":
            batches = _with_points(batches, plan)
        return _trace(path, batches, plan, counts, timezone, clock)


def _with_points(batches: Iterator[Rows], plan: Plan) -> Iterator[Rows]:
    """Rows whose numbers have points, where spreadsheets write semicolons and decimal commas."""
    numbers = {cell for name, cell in plan.cells.items() if _KINDS.get(name) != "text"}
    for rows in batches:
        places = [rows.header.index(name) for name in numbers]
        for row in rows.cells:
            for place in places:
                if row[place].count(",") == 1:
                    row[place] = row[place].replace(",", ".")
        yield rows


def read_parquet(
    path: PathLike,
    *,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    clock: Clock | None = None,
) -> Trace:
    """Read a Parquet file; see ``read_text``.

    Raises:
      JaxschedError: as there.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    given = own_names.read_given(columns)
    counts: Counts = Counter()
    try:
        with pq.ParquetFile(str(path)) as file:
            plan = _planned(path, tuple(file.schema_arrow.names), given)
            if not file.metadata.num_rows:
                raise JaxschedError(f"{path}: has no jobs; accepted: one row per job")
            batches = _parquet_rows(path, file, plan, counts)
            trace = _trace(path, batches, plan, counts, timezone, clock)
        pa.default_memory_pool().release_unused()
        return trace
    except (OSError, UnicodeDecodeError, KeyError, pa.ArrowException) as error:
        raise unusable(path, error) from None


def unusable(path: PathLike, error: Exception) -> JaxschedError:
    """The refusal of a Parquet file that cannot be read."""
    reason = " ".join(str(error).split())
    return JaxschedError(
        f"{path}: is not a usable Parquet file ({reason[:120]}); accepted: a complete one with "
        f"columns {NEEDED}"
    )


def told(header: tuple[str, ...]) -> str:
    """A header in words, for messages."""
    return f"the header is {describe_value(','.join(header), 80)}"


def _planned(path: PathLike, header: tuple[str, ...], given: Given) -> Plan:
    plan = own_names.plan(path, header, given)
    if not plan.is_enough:
        raise JaxschedError(f"{path}: {told(header)}; {own_names.lacking(plan)}")
    return plan


@dataclass(frozen=True, eq=False)
class _ParquetRows(Rows):
    """A batch of a Parquet file, whose rows have numbers instead of lines.

    Attributes:
      batch: the record batch.
    """

    batch: Any = None

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        return _as_texts(name, self.batch.column(name))

    def floats(self, name: str) -> npt.NDArray[np.float64] | None:
        """As of ``Rows``."""
        import pyarrow as pa

        column = self.batch.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return None
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if np.any(np.isinf(values)):
            self.fail(int(np.argmax(np.isinf(values))), f"{name} is inf; accepted: finite numbers")
        found: npt.NDArray[np.float64] = values
        return found

    def fail(self, row: int, reason: str) -> NoReturn:
        """Refuse the file because of one row."""
        raise JaxschedError(f"{self.path}, job {self.lines[row]}: {reason}")


def _parquet_rows(path: PathLike, file: Any, plan: Plan, counts: Counts) -> Iterator[Rows]:
    names = tuple(dict.fromkeys(plan.cells.values()))
    first = 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(names)):
        jobs: Any = range(first, first + len(batch))  # rows are counted only
        first += len(batch)
        if len(batch):
            yield _ParquetRows(str(path), names, jobs, jobs, counts, batch)


def _as_texts(name: str, column: Any) -> list[str]:
    """Values of a column of Parquet as the cells of a text file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind, universal = column.type, False
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column, universal = column.cast(pa.timestamp(kind.unit)), True
        elif pa.types.is_duration(kind):
            units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
            seconds = pc.divide(column.cast(pa.int64()).cast(pa.float64()), units[kind.unit])
            column = seconds
        cells: list[str] = column.cast(pa.string()).fill_null("").to_pylist()
    except pa.ArrowException as error:
        raise pa.ArrowInvalid(f"column {name}: {error}") from None
    return [cell and f"{cell}Z" for cell in cells] if universal else cells


def _trace(
    path: PathLike,
    batches: Iterator[Rows],
    plan: Plan,
    counts: Counts,
    timezone: str | None,
    clock: Clock | None,
) -> Trace:
    zone = None if timezone is None else zone_of(timezone)
    try:
        return _settled_trace(path, batches, plan, counts, zone, clock)
    except JaxschedError as error:
        if str(error).startswith(str(path)):
            raise
        raise JaxschedError(f"{path}: {error}") from None


def _settled_trace(
    path: PathLike,
    batches: Iterator[Rows],
    plan: Plan,
    counts: Counts,
    zone: ZoneInfo | None,
    clock: Clock | None,
) -> Trace:
    left_out: dict[str, str] = {}
    parts = [_part(rows, plan, left_out) for rows in batches]
    kept = [name for name in parts[0] if name not in left_out]
    found: dict[str, Any] = {
        name: joined([part[name] for part in parts])  # type: ignore[misc]
        if name in _MOMENTS
        else np.concatenate([part[name] for part in parts])
        for name in kept
    }
    written = {name: found.pop(name) for name in _MOMENTS if name in found}
    units = dict(plan.units_s)
    if clock is not None:
        units = dict.fromkeys(written, 1.0) | units
    settled = settle(written, zone=zone, units_s=units, duration=found.get("duration"), clock=clock)
    found |= settled.columns
    wait = found.pop(WAIT, None)
    if wait is not None:
        start = found.get(START, np.full(len(wait), np.nan))
        found[START] = np.where(np.isnan(start), found[SUBMIT] + wait, start)
    span = found[END] - found[START] if START in found and END in found else None
    unit_notes = []
    if settled.unit_s != 1.0 and "duration" in found and "duration" not in units:
        scaled = _nearer(found["duration"], settled.unit_s, span)
        found["duration"] *= settled.unit_s if scaled else 1.0
        unit = UNITS[settled.unit_s][-1]
        unit_notes.append(
            f"run times are taken for {unit}, as start and end say"
            if scaled
            else f"run times are taken for seconds, not for {unit} ({argument('columns')} "
            "NAME=duration:ms)"
        )
    if span is not None:
        duration = found.get("duration", np.full(len(span), np.nan))
        found["duration"] = np.where(np.isnan(duration), span, duration)
    notes = [*plan.notes, *settled.notes, *unit_notes]
    notes += [f"column {plan.cells[name]!r} left out: {why}" for name, why in left_out.items()]
    return finished(path, found, NAME, settled.clock, counts=counts, notes=notes)


def _nearer(duration: Floats, unit_s: float, span: Floats | None) -> bool:
    """Whether run times in a unit, not in seconds, are those from start to end."""
    if span is None:
        return False
    some = (duration > 0) & (span > 0)
    if not np.any(some):
        return False
    duration, span = duration[some], span[some]
    return bool(np.median(np.abs(duration * unit_s - span)) < np.median(np.abs(duration - span)))


def _part(rows: Rows, plan: Plan, left_out: dict[str, str]) -> Part:
    """The columns of a batch; a note replaces optional ones that cannot be read."""
    part: Part = {}
    for name, cell_name in plan.cells.items():
        if name in left_out:
            continue
        try:
            part[name] = _column(rows, name, cell_name, plan.units_s.get(name, 1.0))
        except JaxschedError as error:
            is_ours = _KINDS.get(name) == "text" and cell_name == name
            if is_ours or name in plan.asked or not plan.without({*left_out, name}).is_enough:
                raise
            left_out[name] = str(error).removeprefix(rows.path).lstrip(", :")
    return part


def _column(rows: Rows, name: str, cell_name: str, unit_s: float) -> npt.NDArray[Any] | Moments:
    if name in _MOMENTS:
        return moments(rows, cell_name)
    if name in _SPANS:
        values = spans(rows, cell_name, unit_s)
        return values if name == "duration" else from_zero_on(rows, cell_name, values)
    if name == "status":
        return _statuses(rows, cell_name)
    if _KINDS[name] == "text":
        return rows.texts(cell_name)
    values = rows.numbers(cell_name, absent=float("nan"))
    return values if name == "priority" else from_zero_on(rows, cell_name, values)


def _statuses(rows: Rows, cell_name: str) -> npt.NDArray[np.str_]:
    texts = rows.texts(cell_name).tolist()
    called: dict[str, str] = {}
    for state, number in Counter(texts).items():
        known = state if state in STATUSES else status_of(state)
        called[state] = known or ""
        if known is None:
            count_state(rows.counts, state, number)
    return np.array([called[state] for state in texts], np.str_)
