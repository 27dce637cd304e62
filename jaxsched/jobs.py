"""The host-side job table that every system shares, and the checks on what enters it.

A table holds one int64 array per column, one row per job, in order of submission. It lives on the
host; ``stack_tables`` turns tables into the padded int32 arrays that an environment's parameters
hold. Axes: ``K`` tables, ``n`` jobs.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError

Integers = npt.NDArray[np.int64]

NO_SUBMISSION = 2**30
"""Submission time (s) of padding rows: later than that of any job."""

MAX_DURATION_S = 2**23
"""Longest ideal run time (s, about 97 days). Run time is computed as duration x slowdown in tenths
in int32, and 2**23 x 157 (the largest slowdown of a published table, 15.7) is below 2**31."""


class Column(NamedTuple):
    """A column of whole numbers: what it means and which values are accepted (inclusive)."""

    name: str
    minimum: int
    maximum: int
    unit: str
    meaning: str


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
      columns: column name -> read-only int64 ``[n]``; every column has the same length. Whole
        numbers of any numeric type are taken; booleans, strings, NaN and fractions are refused.
      name: how messages and reports call the table.
      notes: what an import changed, one sentence each.

    Raises:
      JaxschedError: a column is not a list of whole numbers, or lengths differ.
    """

    columns: Mapping[str, Integers]
    name: str = "jobs"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Copy the columns into read-only int64 arrays."""
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise JaxschedError(f"table '{self.name}' has no columns; accepted: one or more")
        converted = {
            column: _whole_numbers(values, column, self.name)
            for column, values in self.columns.items()
        }
        lengths = {column: len(values) for column, values in converted.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{column} {length}" for column, length in lengths.items())
            raise JaxschedError(
                f"table '{self.name}' has columns of different lengths ({found}); "
                "accepted: one value per job in each"
            )
        object.__setattr__(self, "columns", MappingProxyType(converted))

    def __getitem__(self, column: str) -> Integers:
        """The values of one column."""
        if column not in self.columns:
            raise JaxschedError(
                f"table '{self.name}' has no column '{column}'; it has {', '.join(self.columns)}"
            )
        return self.columns[column]

    def __len__(self) -> int:
        """Number of jobs."""
        return len(next(iter(self.columns.values())))

    def take(self, rows: Any, *, name: str | None = None) -> "JobTable":
        """The table of the given rows (a slice or an index array)."""
        columns = {column: values[rows] for column, values in self.columns.items()}
        return replace(self, columns=columns, name=name or self.name)

    def with_columns(self, **columns: Any) -> "JobTable":
        """The table with some columns replaced or added."""
        return replace(self, columns={**self.columns, **columns})

    def digest(self) -> str:
        """SHA-256 (hex) of the columns' names and values; name and notes do not count."""
        sha = hashlib.sha256(b"jaxsched jobs 1\n")
        for column in sorted(self.columns):
            sha.update(f"{column} {len(self)}\n".encode())
            sha.update(self.columns[column].astype("<i8").tobytes())
        return sha.hexdigest()


def digest_tables(tables: Iterable[JobTable]) -> str:
    """SHA-256 (hex) of a list of tables, in order."""
    return hashlib.sha256("\n".join(t.digest() for t in tables).encode()).hexdigest()


def describe_value(value: Any, limit: int = 40) -> str:
    """A value as one short line, for messages."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer with too many digits to print
        text = f"an {type(value).__name__} of more than 4000 digits"
    return text if len(text) <= limit else text[: limit - 3] + "..."


class Problem(NamedTuple):
    """Why a table is refused: the job (None: the table as a whole) and the reason."""

    job: int | None
    reason: str


def find_problem(
    table: JobTable,
    *,
    schema: Schema = RIGID_JOBS,
    max_gpus: int | None = None,
    num_models: int | None = None,
) -> Problem | None:
    """The first reason to refuse ``table``, or None; see ``validate``."""
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
        bad = np.flatnonzero((values < column.minimum) | (values > maximum))
        if bad.size:
            accepted = f"a whole number from {column.minimum} to {maximum} ({column.unit})"
            return Problem(int(bad[0]), f"{column.name} is {values[bad[0]]}; accepted: {accepted}")
    if any(column.name == "submit_time" for column in schema):
        return _find_disorder(table["submit_time"])
    return None


def validate(
    table: JobTable,
    *,
    schema: Schema = RIGID_JOBS,
    max_gpus: int | None = None,
    num_models: int | None = None,
) -> JobTable:
    """Check that a system can run ``table``.

    Every value must lie within its column's bounds: times below 2**30 s, durations from 1 to
    2**23 s, so that int32 holds every product and sum of a step. Times must not decrease and the
    first must be 0.

    Args:
      table: the table to check.
      schema: the columns the system needs; further columns are left alone.
      max_gpus: GPUs of the cluster; None: only the schema's bound holds.
      num_models: number of models (ids ``0 .. num_models - 1``); None: only the schema's bound.

    Returns:
      ``table`` itself.

    Raises:
      JaxschedError: one line with the table, the job, the value and what is accepted.
    """
    problem = find_problem(table, schema=schema, max_gpus=max_gpus, num_models=num_models)
    if problem is None:
        return table
    where = f"table '{table.name}'" + ("" if problem.job is None else f", job {problem.job}")
    raise JaxschedError(f"{where}: {problem.reason}")


def from_records(
    records: Sequence[Mapping[str, Any]], *, schema: Schema = RIGID_JOBS, name: str = "jobs"
) -> JobTable:
    """Build a table from one mapping per job, as JSON files hold them.

    Args:
      records: list of objects with a whole number under each of the schema's names; further keys
        are ignored.
      schema: the columns to take.
      name: the table's name.

    Raises:
      JaxschedError: not a list of objects, a missing key, or a value that is not a whole number.
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
        for key in names:
            if key not in record:
                raise JaxschedError(
                    f"{where}: '{key}' is missing; accepted: an object with {', '.join(names)}"
                )
    columns: dict[str, Any] = {key: [record[key] for record in records] for key in names}
    return JobTable(columns, name)


class StackedJobs(NamedTuple):
    """Tables of one schema, padded to the longest.

    Attributes:
      columns: column name -> int32 ``[K, n_max]``. Rows beyond a table's last job have
        ``submit_time`` 2**30 (never reached) and the smallest accepted value elsewhere: one GPU,
        one second, model 0.
      num_jobs: int32 ``[K]``.
      names: the tables' names.
    """

    columns: dict[str, npt.NDArray[np.int32]]
    num_jobs: npt.NDArray[np.int32]
    names: tuple[str, ...]


def stack_tables(tables: Sequence[JobTable], *, schema: Schema = RIGID_JOBS) -> StackedJobs:
    """Pad tables to equal length and stack them; validate them first.

    Raises:
      JaxschedError: no tables, or a table outside the schema's bounds (which fit in int32).
    """
    if not tables:
        raise JaxschedError("there are no job tables to stack; accepted: at least one")
    for table in tables:
        validate(table, schema=schema)
    longest = max(len(table) for table in tables)
    columns: dict[str, npt.NDArray[np.int32]] = {}
    for column in schema:
        padding = NO_SUBMISSION if column.name == "submit_time" else column.minimum
        stacked = np.full((len(tables), longest), padding, np.int32)
        for row, table in zip(stacked, tables, strict=True):
            row[: len(table)] = table[column.name]
        columns[column.name] = stacked
    num_jobs = np.array([len(table) for table in tables], np.int32)
    return StackedJobs(columns, num_jobs, tuple(table.name for table in tables))


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


def _find_disorder(times: Integers) -> Problem | None:
    if times[0] != 0:
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


def _whole_number(value: Any) -> int | None:
    """``value`` as an int that int64 holds; None if it is anything else."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, float | np.floating):
        if not (math.isfinite(value) and float(value).is_integer()):
            return None
    elif not isinstance(value, int | np.integer):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def _whole_numbers(values: Any, column: str, table: str) -> Integers:
    """A read-only int64 copy of one column."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        array = values.astype(np.int64)
    else:
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise JaxschedError(
                f"table '{table}': {column} is {describe_value(values)}; "
                "accepted: a list of whole numbers, one per job"
            )
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise JaxschedError(
                f"table '{table}': {column} is an array of shape {values.shape}; "
                "accepted: one whole number per job"
            )
        numbers: list[int] = []
        for job, value in enumerate(values):
            number = _whole_number(value)
            if number is None:
                raise JaxschedError(
                    f"table '{table}', job {job}: {column} is {describe_value(value)}; "
                    "accepted: a whole number"
                )
            numbers.append(number)
        array = np.array(numbers, np.int64)
    array.setflags(write=False)
    return array
