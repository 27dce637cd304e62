"""Files of canonical traces: Parquet, or comma-separated values.

Both hold the columns of ``jaxsched.traces.trace.TRACE_COLUMNS`` that the trace has, and what is
known of it (name, source, clock, notes, rows read, digest) as one JSON object: in Parquet as the
key ``jaxsched`` of the schema's metadata, in text as a first line ``# jaxsched trace 1 {...}``.
Reading what was written gives the same trace, to the bit. Files without it, or without a digest in
it, are read as tables of one's own (``own_tables``).
"""

import gzip
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike, write_whole
from jaxsched.jobs.columns import describe_value
from jaxsched.traces import own_tables
from jaxsched.traces.own_tables import NAME
from jaxsched.traces.rows import Rows, join_columns, split_rows
from jaxsched.traces.text import LONGEST_TEXT, open_text, read_json, stem, too_long
from jaxsched.traces.text_columns import Stored, from_arrow
from jaxsched.traces.trace import CLOCKS, REQUIRED, TRACE_COLUMNS, Trace, Values

ENDINGS = (".parquet", ".csv", ".csv.gz")
_PIECE = 2**16  # texts taken from Arrow at once
MAGIC = "PAR1"  # first letters of a Parquet file
FIRST = "# jaxsched trace 1 "  # first letters of a text file that says what it is

_KEY = b"jaxsched"
_SPECIAL = re.compile(r'[",\r\n]')
_OTHERS = [column.name for column in TRACE_COLUMNS if not column.required]
_KINDS = {column.name: column.kind for column in TRACE_COLUMNS}


def write_trace(path: PathLike, trace: Trace) -> None:
    """Write a trace; the ending chooses the layout, and the same trace gives the same bytes.

    Raises:
      JaxschedError: another ending, or a file that cannot be written.
    """
    name = str(path)
    if name.endswith(".parquet"):
        data = _to_parquet(trace)
    elif name.endswith((".csv", ".csv.gz")):
        data = _to_csv(trace)
        data = gzip.compress(data, mtime=0) if name.endswith(".gz") else data
    else:
        raise JaxschedError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}")
    write_whole(path, data)


def read_trace(
    path: PathLike,
    *,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> Trace:
    """Read a trace that ``write_trace`` wrote, or any table with such columns (``own_tables``).

    Args:
      path: the file.
      columns: of other tables, names in the file and in a trace; usual names are told.
      timezone: of other tables, the zone of dates that do not say theirs.

    Raises:
      JaxschedError: one line that says what is wrong with the file and what is accepted.
    """
    parquet = is_parquet(path)
    facts = _facts_of_parquet(path) if parquet else _facts_of_text(path)
    if facts is None or "digest" not in facts:
        return _read_own(path, facts, parquet, columns, timezone)
    if columns is not None or timezone is not None:
        raise JaxschedError(
            f"{path}: says itself what its columns and its clock are; accepted: neither "
            f"{argument('columns')} nor {argument('timezone')}"
        )
    found = _from_parquet(path) if parquet else _from_csv(path)
    trace = _with_facts(path, found, facts)
    del found  # the trace has its own
    if facts["digest"] != trace.digest():
        raise JaxschedError(
            f"{path}: its values are not those of the digest in its header; accepted: a file as "
            "written, or one without that line"
        )
    return trace


def _with_facts(path: PathLike, columns: Mapping[str, Any], facts: Mapping[str, Any]) -> Trace:
    try:
        return Trace(
            columns,
            name=facts.get("name", stem(path)),
            source=facts.get("source", NAME),
            clock=facts.get("clock", "relative"),
            notes=tuple(facts.get("notes", ())),
            rows_read=facts.get("rows_read", -1),
        )
    except JaxschedError as error:
        raise JaxschedError(f"{path}: {error}") from None


def _read_own(
    path: PathLike,
    facts: Mapping[str, Any] | None,
    parquet: bool,
    columns: str | Mapping[str, str] | None,
    timezone: str | None,
) -> Trace:
    """A table of one's own; what a first line says of it holds."""
    first_lines = 0 if facts is None or parquet else 1
    facts = facts or {}
    clock = facts.get("clock")
    if clock is not None and clock not in CLOCKS:
        raise JaxschedError(
            f"{path}: clock is {describe_value(clock)}; accepted: {', '.join(CLOCKS)}"
        )
    if parquet:
        trace = own_tables.read_parquet(path, columns=columns, timezone=timezone, clock=clock)
    else:
        trace = own_tables.read_text(
            path,
            columns=columns,
            timezone=timezone,
            clock=clock,
            first_lines=first_lines,
        )
    notes = (*facts.get("notes", ()), *trace.notes)
    named = {"name": facts.get("name", trace.name), "source": facts.get("source", trace.source)}
    return replace(trace, notes=notes, **named)


def is_parquet(path: PathLike) -> bool:
    """Whether a file is a Parquet file; no where it cannot be read, or is a pipe."""
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC.encode()
    except (OSError, ValueError):
        return False


def is_header(names: tuple[str, ...]) -> bool:
    """Whether a header line is that of a canonical trace in text."""
    return set(REQUIRED) <= set(names) <= set(_KINDS) and len(set(names)) == len(names)


def _facts(trace: Trace) -> str:
    facts = {
        "name": trace.name,
        "source": trace.source,
        "clock": trace.clock,
        "notes": list(trace.notes),
        "rows_read": trace.rows_read,
        "digest": trace.digest(),
    }
    return json.dumps(facts)


def _to_parquet(trace: Trace) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [
        pa.array(values.tolist(), pa.string())
        if _KINDS[name] == "text"
        else pa.array(values, pa.float64())
        for name, values in trace.columns.items()
    ]
    table = pa.table(arrays, names=list(trace.columns))
    table = table.replace_schema_metadata({_KEY: _facts(trace).encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _facts_of_parquet(path: PathLike) -> dict[str, Any] | None:
    """What the schema's metadata say of a file; None where they do not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(str(path)).metadata or {}
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise own_tables.unusable(path, error) from None
    return _parsed(path, metadata[_KEY]) if _KEY in metadata else None


def _from_parquet(path: PathLike) -> dict[str, Values]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(str(path)) as file:
            schema, num_rows = file.schema_arrow, file.metadata.num_rows
            columns: dict[str, Any] = {}
            for name in schema.names:  # one at a time, for the memory of one
                column = file.read(columns=[name]).column(name)
                if _KINDS.get(name) == "text":
                    columns[name] = _column_of_texts(path, name, column)
                else:
                    if pa.types.is_boolean(column.type):
                        raise pa.ArrowInvalid(f"{name} is of type bool")
                    try:
                        columns[name] = _numbers(column.cast(pa.float64()))
                    except pa.ArrowException as error:
                        raise pa.ArrowInvalid(f"column {name}: {error}") from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise own_tables.unusable(path, error) from None
    pa.default_memory_pool().release_unused()
    if not num_rows:
        raise JaxschedError(f"{path}: has no jobs; accepted: one row per job")
    return columns


def _numbers(column: Any) -> Values:
    """A column of numbers, NaN for nulls."""
    values = np.empty(len(column))
    first = 0
    for chunk in column.chunks:
        values[first : first + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        first += len(chunk)
    values.setflags(write=False)  # a trace need not copy it
    return values


def _column_of_texts(path: PathLike, name: str, column: Any) -> Stored:
    """A column of Parquet as texts; every text that occurs is looked at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.string()).fill_null("")
    compact = from_arrow(column, LONGEST_TEXT)
    if compact is not None:
        return compact
    encoded = pc.dictionary_encode(column).combine_chunks()
    parts = [np.zeros(0, np.str_)]
    for first in range(0, len(encoded.dictionary), _PIECE):
        words = encoded.dictionary.slice(first, _PIECE).to_pylist()
        if max(map(len, words)) > LONGEST_TEXT:
            _texts(path, name, ["" if text is None else text for text in column.to_pylist()])
        parts.append(np.array(words, np.str_))
    texts: Values = np.concatenate(parts)[encoded.indices.to_numpy()]
    texts.setflags(write=False)  # a trace need not copy it
    return texts


def _texts(path: PathLike, name: str, texts: list[str]) -> Values:
    """A column of texts, if none of them is too long."""
    for job, text in enumerate(texts):
        if len(text) > LONGEST_TEXT:
            raise JaxschedError(
                f"{path}, job {job}: {name} is {describe_value(text)}; {too_long(text)}"
            )
    return np.array(texts, np.str_)


def _to_csv(trace: Trace) -> bytes:
    cells = [
        map(_quoted if _KINDS[name] == "text" else _number, values.tolist())
        for name, values in trace.columns.items()
    ]
    rows = list(map(",".join, zip(*cells, strict=True)))
    if any("\0" in row for row in rows):
        raise JaxschedError(
            f"trace '{trace.name}': has texts with NUL letters; accepted: a .parquet file"
        )
    lines = [f"{FIRST}{_facts(trace)}", ",".join(trace.columns), *rows]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    """A text as a cell; the standard library's writer leaves a carriage return bare."""
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _number(value: float) -> str:
    """A number as the shortest text that reads back to the same bits; empty for NaN."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _facts_of_text(path: PathLike) -> dict[str, Any] | None:
    """What the first line says of a file; None where there is no such line."""
    with open_text(path) as file:
        first = file.readline()
    return _parsed(path, first.removeprefix(FIRST).encode()) if first.startswith(FIRST) else None


def _from_csv(path: PathLike) -> dict[str, Values]:
    accepted = f"{','.join(REQUIRED)} and any of {','.join(_OTHERS)}"
    with open_text(path) as file:
        file.readline()
        batches = split_rows(path, file, is_header, accepted=accepted, lines_before=1)
        return join_columns([_columns(rows) for rows in batches])


def _columns(rows: Rows) -> Mapping[str, Values]:
    return {
        name: rows.plain_texts(name)
        if _KINDS[name] == "text"
        else rows.numbers(name, absent=float("nan"))
        for name in rows.header
    }


def _parsed(path: PathLike, text: bytes) -> dict[str, Any]:
    """The JSON object about a trace."""
    try:
        facts = read_json(text)
        json.dumps(facts, ensure_ascii=False).encode()  # refuses halves of characters
    except (ValueError, RecursionError):
        facts = None
    kinds = {"name": str, "source": str, "clock": str, "notes": list, "rows_read": int}
    if (
        not isinstance(facts, dict)
        or not all(type(facts.get(key, kind())) is kind for key, kind in kinds.items())
        or not all(isinstance(note, str) for note in facts.get("notes", ()))
    ):
        raise JaxschedError(
            f"{path}: what it says of itself is {describe_value(text, 60)}; accepted: a JSON "
            f"object with {', '.join(kinds)} (a list of texts: notes; a whole number: rows_read)"
        )
    return facts
