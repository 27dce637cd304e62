"""The canonical table of a published trace: its jobs as one documented set of columns.

Readers of published formats and generators of realistic workloads give this table; mappings
(``jaxsched.traces.mapping`` and those of the systems) turn it into job tables. It lives on the
host, one row per job, in the order of the source. Axis: ``n`` jobs.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import check_lengths, describe_value, named_column
from jaxsched.traces.text import LONGEST_TEXT
from jaxsched.traces.text_columns import Columns, Compact, Stored, Values, has_text, kept

Clock = Literal["relative", "local", "utc"]
"""What times count from: an origin of the trace's own, or 1970-01-01 in local or universal time,
so that hours of the day and weekdays have a meaning."""

CLOCKS: tuple[str, ...] = get_args(Clock)

LARGEST = 1e15
"""Larger numbers (in seconds: 32 million years) are refused by readers and statistics, so that no
sum of a few overflows."""

STATUSES = ("", "completed", "killed", "failed", "running", "pending")
"""How jobs ended or, for the last two, stood when the trace was taken; empty: not known."""


class TraceColumn(NamedTuple):
    """A column of the canonical table.

    Attributes:
      name: its name.
      kind: ``real`` (float64; NaN: not known) or ``text`` (empty: not known).
      unit: of the values.
      meaning: one line.
      required: whether every trace has it.
      from_zero: whether numbers below 0 are refused.
    """

    name: str
    kind: Literal["real", "text"]
    unit: str
    meaning: str
    required: bool = False
    from_zero: bool = True


TRACE_COLUMNS: tuple[TraceColumn, ...] = (
    TraceColumn("submit_time", "real", "s", "submission, on the trace's clock", True, False),
    TraceColumn("num_gpus", "real", "GPUs", "GPUs of the whole job; parts of one are shares", True),
    TraceColumn("duration", "real", "s", "run time, from first start to last end", True),
    TraceColumn("job_id", "text", "", "name of the job"),
    TraceColumn("user", "text", "", "user or user group"),
    TraceColumn("group", "text", "", "virtual cluster, queue or partition"),
    TraceColumn("status", "text", "", "how it ended: " + ", ".join(STATUSES[1:])),
    TraceColumn("start_time", "real", "s", "first start, on the trace's clock", False, False),
    TraceColumn("end_time", "real", "s", "last end, on the trace's clock", False, False),
    TraceColumn("attempts", "real", "", "times the job was started"),
    TraceColumn("num_instances", "real", "", "instances (pods, workers) that share num_gpus"),
    TraceColumn("num_nodes", "real", "", "servers of the job"),
    TraceColumn("cpus", "real", "cores", "CPU cores of the whole job"),
    TraceColumn("memory_gb", "real", "GB", "main memory of the whole job"),
    TraceColumn("gpu_type", "text", "", "kind of GPU asked for; '|' between choices"),
    TraceColumn("model", "text", "", "what is trained"),
    TraceColumn("batch_size", "real", "samples", "samples of an iteration"),
    TraceColumn("iterations", "real", "", "iterations to run"),
    TraceColumn("deadline", "real", "s", "deadline, on the trace's clock", False, False),
    TraceColumn("slo_class", "text", "", "strict, soft or best (effort)"),
    TraceColumn("priority", "real", "", "weight or rank, as the source has it", False, False),
    TraceColumn("requested_time", "real", "s", "run time as its user estimated it"),
)

_PIECE = 2**16  # values looked at together
_SHORT = f"texts of up to {LONGEST_TEXT} letters"
_BY_NAME = {column.name: column for column in TRACE_COLUMNS}
REQUIRED = tuple(column.name for column in TRACE_COLUMNS if column.required)


@dataclass(frozen=True, eq=False)
class Trace:
    """The jobs of a published or generated trace, not yet a job table.

    Attributes:
      columns: name -> read-only array ``[n]``; names and kinds as in ``TRACE_COLUMNS``, of which
        those that the source does not have may be missing.
      name: how messages and reports call the trace.
      source: the format it was read from, or the generator.
      clock: what its times count from.
      notes: what reading dropped, capped or imputed, one sentence each.
      rows_read: rows of the source; the number of jobs if not given.

    Raises:
      JaxschedError: a required column is missing, a column is unknown, or values are not of its
        kind.
    """

    columns: Mapping[str, Values]
    name: str = "trace"
    source: str = "memory"
    clock: Clock = "relative"
    notes: tuple[str, ...] = ()
    rows_read: int = -1

    def __post_init__(self) -> None:
        """Check the columns and copy them, in the order of ``TRACE_COLUMNS``."""
        missing = [name for name in REQUIRED if name not in self.columns]
        unknown = [name for name in self.columns if name not in _BY_NAME]
        if missing or unknown:
            found = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}"
            raise JaxschedError(
                f"trace '{self.name}' {found}; accepted: {', '.join(REQUIRED)} and, where known, "
                f"{', '.join(name for name in _BY_NAME if name not in REQUIRED)}"
            )
        if self.clock not in CLOCKS:
            raise JaxschedError(
                f"trace '{self.name}': clock is {describe_value(self.clock)}; "
                f"accepted: {', '.join(CLOCKS)}"
            )
        if not isinstance(self.columns, Columns):
            columns: dict[str, Any] = {
                column.name: _checked(self.columns[column.name], column, self.name)
                for column in TRACE_COLUMNS
                if column.name in self.columns
            }
            check_lengths(columns, f"trace '{self.name}'")
            object.__setattr__(self, "columns", Columns(columns))
        if self.rows_read < 0:
            object.__setattr__(self, "rows_read", len(self))

    def __getitem__(self, column: str) -> Values:
        """The values of one column."""
        return named_column(self.columns, column, f"trace '{self.name}'")

    def __contains__(self, column: str) -> bool:
        """Whether the trace has a column."""
        return column in self.columns

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self.columns["submit_time"])

    def take(self, rows: Any, *, note: str | None = None) -> "Trace":
        """The trace of the given rows (a slice, an index array or a mask)."""
        columns = self._columns.take(rows)
        notes = (*self.notes, note) if note else self.notes
        return replace(self, columns=columns, notes=notes)

    def only(self, names: Iterable[str]) -> "Trace":
        """The trace with those of the names that it has, the required ones among them."""
        return replace(self, columns=self._columns.only(names))

    @property
    def _columns(self) -> Columns:
        assert isinstance(self.columns, Columns)
        return self.columns

    def by_submission(self) -> "Trace":
        """The trace in order of submission; jobs of the same time keep their order."""
        return self.take(np.argsort(self["submit_time"], kind="stable"))

    def digest(self) -> str:
        """SHA-256 (hex) of columns, values and clock; name, source and notes do not count."""
        sha = hashlib.sha256(b"jaxsched trace 1\n")
        sha.update(f"{self.clock} {len(self)}\n".encode())
        for name in self.columns:
            sha.update(f"{name}\n".encode())
            if _BY_NAME[name].kind == "text":
                for piece in _as_json(self._columns.stored(name)):
                    sha.update(piece)
            else:
                sha.update(self.columns[name].astype("<f8", copy=False).tobytes())
        return sha.hexdigest()


def _as_json(texts: Stored) -> Iterator[bytes]:
    """The JSON list of texts, in pieces: a list of all of them takes ten times their memory."""
    yield b"["
    for first in range(0, len(texts), _PIECE):
        part = texts[first : first + _PIECE]
        part = part.texts() if isinstance(part, Compact) else part
        words = json.dumps(part.tolist())[1:-1]
        yield (f", {words}" if first else words).encode()
    yield b"]"


def known(trace: Trace, column: str) -> npt.NDArray[np.bool_]:
    """Which jobs have a value in a column, bool ``[n]``; none where the trace lacks the column."""
    if column not in trace:
        return np.zeros(len(trace), np.bool_)
    if _BY_NAME[column].kind == "text":
        return has_text(trace._columns.stored(column))
    present: npt.NDArray[np.bool_] = ~np.isnan(trace[column])
    return present


def distinct(
    trace: Trace, column: str, rows: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.int64]]:
    """Texts of a column in some rows: those that occur, sorted, and which each of the rows has."""
    stored = trace._columns.stored(column)
    letters = stored.letters if isinstance(stored, Compact) else stored
    names, which = np.unique(letters[rows], return_inverse=True)
    return names.astype(np.str_), which


def _checked(values: Any, column: TraceColumn, trace: str) -> Stored:
    """A read-only column, its values of the type that the kind needs."""
    if isinstance(values, Compact) and column.kind == "text":
        if column.name == "status":
            _check_status(values, trace)
        return values
    array = np.asarray(values)
    numeric = array.dtype.kind in "iuf"
    if array.ndim != 1 or not (numeric if column.kind == "real" else array.dtype.kind == "U"):
        wanted = "numbers" if column.kind == "real" else "texts"
        raise JaxschedError(
            f"trace '{trace}': {column.name} is {describe_value(values)}; "
            f"accepted: an array of {wanted}, one per job"
        )
    if column.kind == "real":
        array = _plain(array)
        _refuse(np.isinf(array), array, column.name, trace, "finite numbers, NaN if not known")
        if column.name == "submit_time":
            _refuse(np.isnan(array), array, column.name, trace, "a finite number for every job")
        if column.from_zero:
            _refuse(array < 0, array, column.name, trace, "numbers from 0 on")
    else:
        too_long = _in_pieces(lambda part: np.char.str_len(part) > LONGEST_TEXT, array)
        _refuse(too_long, array, column.name, trace, _SHORT)
        array = _unshared(array)
        if np.any(_in_pieces(_has_lone_surrogates, array)):
            raise JaxschedError(
                f"trace '{trace}': {column.name} holds half of a character (a lone surrogate); "
                "accepted: texts that UTF-8 can hold"
            )
        if column.name == "status":
            _check_status(array, trace)
        array.setflags(write=False)
        return kept(array)
    array.setflags(write=False)
    return array


def _check_status(texts: Stored, trace: str) -> None:
    """Refuse what traces do not call the ends of jobs."""
    letters = texts.letters if isinstance(texts, Compact) else texts
    names = np.array(STATUSES, letters.dtype.kind)
    unknown = _in_pieces(lambda part: ~np.isin(part, names), letters)
    _refuse(unknown, letters, "status", trace, ", ".join(STATUSES[1:]) + " or empty")


def _plain(numbers: Values) -> Values:
    """Read-only numbers with one kind of NaN and of 0: a copy, unless they are so already."""
    own = numbers.dtype == np.float64 and numbers.dtype.isnative
    own = own and numbers.base is None and not numbers.flags.writeable
    if own and not np.any(_in_pieces(_has_two_forms, numbers)):
        return numbers
    return np.where(np.isnan(numbers), np.nan, numbers.astype(np.float64) + 0.0)


def _has_two_forms(numbers: Values) -> npt.NDArray[np.bool_]:
    """Which are not known, or might be a zero below 0."""
    found: npt.NDArray[np.bool_] = np.isnan(numbers) | ((numbers == 0) & np.signbit(numbers))
    return found


def _unshared(texts: Values) -> Values:
    """Read-only texts in this machine's byte order: a copy, unless they are so already."""
    if texts.dtype.isnative and texts.base is None and not texts.flags.writeable:
        return texts
    return np.array(texts, texts.dtype.newbyteorder("="))


def _in_pieces(
    test: Callable[[Values], npt.NDArray[np.bool_]], texts: Values
) -> npt.NDArray[np.bool_]:
    """What a test says of each value; of all at once it would take several times their memory."""
    firsts = range(0, len(texts), _PIECE)
    parts = [test(texts[first : first + _PIECE]) for first in firsts]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _has_lone_surrogates(texts: Values) -> npt.NDArray[np.bool_]:
    letters = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)
    found: npt.NDArray[np.bool_] = np.any((letters >= 0xD800) & (letters < 0xE000), axis=1)
    return found


def _refuse(
    bad: npt.NDArray[np.bool_], values: Values, column: str, trace: str, accepted: str
) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        found = values[rows[0]].item()
        value = describe_value(found.decode() if isinstance(found, bytes) else found)
        raise JaxschedError(
            f"trace '{trace}', job {rows[0]}: {column} is {value}; accepted: {accepted}"
        )
