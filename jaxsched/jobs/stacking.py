"""From tables of one schema to padded arrays.

Axes: ``K`` tables, ``n_max`` jobs of the longest, ``L`` numbers of a list column.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import Values, to_length
from jaxsched.jobs.table import NO_SUBMISSION, RIGID_JOBS, Column, JobTable, Schema, validate


class StackedJobs(NamedTuple):
    """Tables of one schema, padded to the longest.

    Attributes:
      columns: column name -> int32 or float64 ``[K, n_max]``, list columns ``[K, n_max, L]``.
        Lists of ``numbers`` are cyclic, ``L`` the least common multiple of the tables'; lists of
        ``wholes`` end in zeros, ``L`` the largest. Rows beyond a table's last job have
        ``submit_time`` 2**30 (never reached) and the smallest accepted value elsewhere: one GPU,
        one second, model 0, a list of one number.
      num_jobs: int32 ``[K]``.
      names: the tables' names.
    """

    columns: dict[str, Values]
    num_jobs: npt.NDArray[np.int32]
    names: tuple[str, ...]


def stack_tables(
    tables: Sequence[JobTable],
    *,
    schema: Schema = RIGID_JOBS,
    length: int = 0,
    from_zero: bool = True,
) -> StackedJobs:
    """Pad tables to equal length and stack them; validate them first.

    Args:
      tables: at least one.
      schema: the columns to stack.
      length: pad to at least this many jobs.
      from_zero: the first submission must be at 0.

    Raises:
      JaxschedError: no tables, or a table outside the schema's bounds (which fit in int32).
    """
    if not tables:
        raise JaxschedError("there are no job tables to stack; accepted: at least one")
    for table in tables:
        validate(table, schema=schema, from_zero=from_zero)
    longest = max(length, *(len(table) for table in tables))
    columns: dict[str, Values] = {}
    for column in schema:
        stacked = _padding(column, [table[column.name] for table in tables], longest)
        for row, table in zip(stacked, tables, strict=True):
            values = table[column.name]
            if column.kind == "numbers":
                values = np.tile(values, (1, row.shape[1] // values.shape[1]))
            elif column.kind == "wholes":
                values = to_length(values, row.shape[1])
            row[: len(table)] = values
        columns[column.name] = stacked
    num_jobs = np.array([len(table) for table in tables], np.int32)
    return StackedJobs(columns, num_jobs, tuple(table.name for table in tables))


def _padding(column: Column, parts: Sequence[Values], longest: int) -> Values:
    """Stacked rows of a column as they are beyond a table's last job."""
    shape: tuple[int, ...] = (len(parts), longest)
    if column.kind == "wholes":
        lists = np.zeros((*shape, max(part.shape[1] for part in parts)), np.int32)
        lists[..., 0] = column.minimum
        return lists
    if column.kind == "numbers":
        shape = (*shape, math.lcm(*(part.shape[1] for part in parts)))
    value = NO_SUBMISSION if column.name == "submit_time" else column.minimum
    return np.full(shape, value, np.int32 if column.kind == "whole" else np.float64)
