"""The host-side job table that every system shares, and the checks on what enters it.

A table holds one array per column (int64, or float64 for real numbers), one row per job, in order
of submission. It lives on the host; ``stacking`` turns tables into the padded arrays that an
environment's parameters hold. Axes: ``n`` jobs, ``L`` numbers of a list column (of
the longest list where lengths differ).
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import (
    Values,
    check_lengths,
    describe_value,
    list_lengths,
    named_column,
    to_column,
)

Integers = npt.NDArray[np.int64]

NO_SUBMISSION = 2**30
"""Submission time (s) of padding rows: later than that of any job."""

MAX_DURATION_S = 2**23
"""Longest run time of a rigid job (s, about 97 days): environments may multiply it by up to 255 in
int32."""


class Column(NamedTuple):
    """A column: what it means and which values are accepted.

    Attributes:
      name: the column's name.
      minimum: smallest accepted value.
      maximum: largest accepted value.
      unit: of the values.
      meaning: one line.
      kind: ``whole`` numbers (int64 ``[n]``), ``real`` numbers (float64 ``[n]``), a list of as
        many real ``numbers`` for each job (float64 ``[n, L]``), or for each job a list of
        ``wholes``, of any length (int64 ``[n, L]``, shorter lists with zeros on their right; a
        list ends with its last number other than 0). Bounds hold for every number of a list,
        zeros before its end included, and a list has at least one number.
      default: what stands where the column is missing: a value, or the name of a column to copy;
        None: the column is required.
    """

    name: str
    minimum: float
    maximum: float
    unit: str
    meaning: str
    kind: Literal["whole", "real", "numbers", "wholes"] = "whole"
    default: float | str | None = None


Schema = tuple[Column, ...]

RIGID_JOBS: Schema = (
    Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission, relative to the first job's"),
    Column("num_gpus", 1, 2**15, "GPUs", "GPUs held from start to finish"),
    Column("duration", 1, MAX_DURATION_S, "s", "run time with the best locality"),
    Column("model", 0, 2**15, "id", "row of the system's model table"),
)
"""Jobs that hold a fixed number of GPUs for their whole run."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs in order of submission.

    Attributes:
      columns: column name -> read-only array; every column has the same length. Numbers of any
        numeric type are taken; booleans, strings, NaN and, where the schema has no real numbers,
        fractions are refused.
      name: how messages and reports call the table.
      notes: what an import changed, one sentence each.
      schema: what the columns mean; further columns hold whole numbers.

    Raises:
      JaxschedError: a column is not a list of such numbers, or lengths differ.
    """

    columns: Mapping[str, Values]
    name: str = "jobs"
    notes: tuple[str, ...] = ()
    schema: Schema = RIGID_JOBS

    def __post_init__(self) -> None:
        """Copy the columns into read-only int64 arrays."""
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise JaxschedError(f"table '{self.name}' has no columns; accepted: one or more")
        kinds = {column.name: column.kind for column in self.schema}
        converted = {
            column: to_column(values, column, self.name, kinds.get(column, "whole"))
            for column, values in self.columns.items()
        }
        check_lengths(converted, f"table '{self.name}'")
        object.__setattr__(self, "columns", MappingProxyType(converted))

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: a read-only mapping cannot be pickled."""
        return type(self), (dict(self.columns), self.name, self.notes, self.schema)

    def __getitem__(self, column: str) -> Values:
        """The values of one column."""
        return named_column(self.columns, column, f"table '{self.name}'")

    def __len__(self) -> int:
        """Number of jobs."""
        return len(next(iter(self.columns.values())))

    def take(self, rows: Any, *, name: str | None = None) -> "JobTable":
        """The table of the given rows (a slice or an index array)."""
        columns = {column: values[rows] for column, values in self.columns.items()}
        return replace(self, columns=columns, name=name or self.name)

    def window(self, start: int, length: int, *, name: str | None = None) -> "JobTable":
        """Consecutive jobs from row ``start`` on, the first of them submitted at 0."""
        part = self.take(slice(start, start + length), name=name)
        return part.with_columns(submit_time=part["submit_time"] - part["submit_time"][0])

    def with_columns(self, **columns: Any) -> "JobTable":
        """The table with some columns replaced or added."""
        return replace(self, columns={**self.columns, **columns})

    def digest(self) -> str:
        """SHA-256 (hex) of the columns' names and values; name and notes do not count."""
        sha = hashlib.sha256(b"jaxsched jobs 1\n")
        for column in sorted(self.columns):
            sha.update(f"{column} {len(self)}\n".encode())
            values = self.columns[column]
            sha.update(values.astype("<i8" if values.dtype.kind == "i" else "<f8").tobytes())
        return sha.hexdigest()


def digest_tables(tables: Iterable[JobTable]) -> str:
    """SHA-256 (hex) of a list of tables, in order."""
    return hashlib.sha256("\n".join(t.digest() for t in tables).encode()).hexdigest()


_WHAT = {
    "whole": "a whole number",
    "real": "a number",
    "numbers": "a number",
    "wholes": "whole numbers",
}


class Problem(NamedTuple):
    """Why a table is refused: the job (None: the table as a whole) and the reason."""

    job: int | None
    reason: str


def find_problem(
    table: JobTable,
    *,
    schema: Schema | None = None,
    max_gpus: int | None = None,
    num_models: int | None = None,
    from_zero: bool = True,
) -> Problem | None:
    """The first reason to refuse ``table``, or None; see ``validate``."""
    schema = table.schema if schema is None else schema
    missing = [column.name for column in schema if column.name not in table.columns]
    if missing:
        names = ", ".join(column.name for column in schema)
        return Problem(None, f"column '{missing[0]}' is missing; accepted: a table with {names}")
    if len(table) == 0:
        return Problem(None, "it has no jobs; accepted: at least one job")
    limits = {"num_gpus": max_gpus, "model": None if num_models is None else num_models - 1}
    for column in schema:
        values = table[column.name]
        limit = limits.get(column.name)
        maximum = column.maximum if limit is None else min(limit, column.maximum)
        outside = (values < column.minimum) | (values > maximum)
        if column.kind == "wholes":
            lengths = list_lengths(values)
            outside &= np.arange(values.shape[1]) < lengths[:, None]
        bad = np.flatnonzero(outside.any(axis=-1) if outside.ndim == 2 else outside)
        if bad.size:
            job = int(bad[0])
            found = values[job]
            if column.kind == "wholes":
                found = describe_value(found[: lengths[job]].tolist())
            accepted = f"{_WHAT[column.kind]} from {column.minimum:g} to {maximum:.10g}"
            return Problem(job, f"{column.name} is {found}; accepted: {accepted} ({column.unit})")
    if any(column.name == "submit_time" for column in schema):
        return _find_disorder(table["submit_time"], from_zero)
    return None


def validate(
    table: JobTable,
    *,
    schema: Schema | None = None,
    max_gpus: int | None = None,
    num_models: int | None = None,
    from_zero: bool = True,
) -> JobTable:
    """Check that a system can run ``table``.

    Every value must lie within its column's bounds: times below 2**30 s, durations from 1 to
    2**23 s, so that int32 holds every product and sum of a step. Times must not decrease and,
    unless told otherwise, start at 0.

    Args:
      table: the table to check.
      schema: the columns the system needs, the table's own by default; further columns are left
        alone.
      max_gpus: GPUs of the cluster; None: only the schema's bound holds.
      num_models: number of models (ids ``0 .. num_models - 1``); None: only the schema's bound.
      from_zero: the first submission must be at 0.

    Returns:
      ``table`` itself.

    Raises:
      JaxschedError: one line with the table, the job, the value and what is accepted.
    """
    problem = find_problem(
        table, schema=schema, max_gpus=max_gpus, num_models=num_models, from_zero=from_zero
    )
    if problem is None:
        return table
    where = f"table '{table.name}'" + ("" if problem.job is None else f", job {problem.job}")
    raise JaxschedError(f"{where}: {problem.reason}")


def from_records(
    records: Sequence[Mapping[str, Any]], *, schema: Schema = RIGID_JOBS, name: str = "jobs"
) -> JobTable:
    """Build a table from one mapping per job, as JSON files hold them.

    Args:
      records: list of objects with a number under each of the schema's names; further keys are
        ignored. A key with a default may be left out, in all objects or in some.
      schema: the columns to take.
      name: the table's name.

    Raises:
      JaxschedError: not a list of objects, a missing key, or a value that is not a number.
        Values are checked against the system's limits by ``validate``.
    """
    if not isinstance(records, Sequence) or isinstance(records, str | bytes):
        raise JaxschedError(
            f"table '{name}' is {describe_value(records)}; accepted: a list of objects, one per job"
        )
    names = [column.name for column in schema]
    for index, record in enumerate(records):
        where = f"table '{name}', job {index}"
        if not isinstance(record, Mapping):
            raise JaxschedError(
                f"{where}: found {describe_value(record)}; accepted: an object with "
                f"{', '.join(names)}"
            )
        for column in schema:
            if column.name not in record and column.default is None:
                raise JaxschedError(
                    f"{where}: '{column.name}' is missing; accepted: an object with "
                    f"{', '.join(names)}"
                )
    columns: dict[str, Any] = {
        column.name: [_field(record, column) for record in records] for column in schema
    }
    return JobTable(columns, name, schema=schema)


def _field(record: Mapping[str, Any], column: Column) -> Any:
    """A record's value in a column, or the column's default."""
    if column.name in record:
        return record[column.name]
    if isinstance(column.default, str):
        return record[column.default]
    return [column.default] if column.kind in ("numbers", "wholes") else column.default


def first_of(
    tables: Sequence[JobTable],
    num_tables: int | None,
    num_jobs: int | None,
    *,
    source: str,
) -> list[JobTable]:
    """The first tables, and of each the first jobs; all of them where a number is None.

    Args:
      tables: the tables.
      num_tables: how many.
      num_jobs: jobs of each.
      source: what messages call the tables.

    Raises:
      JaxschedError: there are not so many.
    """
    chosen = list(tables[:num_tables])
    fewest = min(map(len, chosen))
    for name, wanted, there, what in (
        ("num_traces", num_tables, len(tables), "tables"),
        ("num_jobs", num_jobs, fewest, "jobs in one of the tables"),
    ):
        if wanted is not None and wanted > there:
            raise JaxschedError(
                f"{source}: has {there} {what}; accepted: {argument(name)} up to {there}"
            )
    return chosen if num_jobs is None else [t.take(slice(0, num_jobs)) for t in chosen]


def rescale_arrivals(table: JobTable, scale: float) -> JobTable:
    """Multiply submission times by ``scale`` (> 0) and round half up; the order is kept.

    A scale above 1 thins the arrivals and so lowers the load.

    Raises:
      JaxschedError: ``scale`` is not a positive finite number, or times leave the accepted range.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise JaxschedError(f"interval scale is {scale}; accepted: a finite number above 0")
    times = np.floor(table["submit_time"] * float(scale) + 0.5)
    late = np.flatnonzero(times >= NO_SUBMISSION)
    if late.size:
        raise JaxschedError(
            f"table '{table.name}', job {late[0]}: submit_time becomes {times[late[0]]:.0f} s "
            f"at interval scale {scale}; accepted: below {NO_SUBMISSION} s"
        )
    return table.with_columns(submit_time=times.astype(np.int64))


def _find_disorder(times: Values, from_zero: bool) -> Problem | None:
    if from_zero and times[0] != 0:
        return Problem(0, f"submit_time is {times[0]}; accepted: 0 for the first job")
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        job = int(back[0]) + 1
        return Problem(
            job,
            f"submit_time is {times[job]}, before the {times[job - 1]} of the previous job; "
            "accepted: jobs in order of submission",
        )
    return None
