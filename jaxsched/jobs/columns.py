"""From what users and files give to the typed, read-only columns of a job table."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError

Integers = npt.NDArray[np.int64]
Values = npt.NDArray[Any]  # int64 or float64


def describe_value(value: Any, limit: int = 40) -> str:
    """A value as one short line, for messages."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer with too many digits to print
        text = f"an {type(value).__name__} of more than 4000 digits"
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def named_column(columns: Mapping[str, Values], name: str, owner: str) -> Values:
    """One of several columns.

    Args:
      columns: name -> values.
      name: the wanted one.
      owner: what has the columns, for messages.

    Raises:
      JaxschedError: there is no such column.
    """
    if name not in columns:
        raise JaxschedError(f"{owner} has no column '{name}'; it has {', '.join(columns)}")
    return columns[name]


def check_lengths(columns: Mapping[str, Values], owner: str) -> None:
    """Refuse columns of different lengths; ``owner`` has them, for messages."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise JaxschedError(
            f"{owner} has columns of different lengths ({found}); "
            "accepted: one value per job in each"
        )


def to_column(values: Any, column: str, table: str, kind: str) -> Values:
    """A read-only copy of one column.

    Args:
      values: what was given.
      column: its name, for messages.
      table: the table's name, for messages.
      kind: ``whole``, ``real``, ``numbers`` or ``wholes``, as in ``jaxsched.jobs.Column``.

    Raises:
      JaxschedError: the values are not such numbers.
    """
    read = {"whole": _whole_numbers, "wholes": _whole_lists}.get(kind, _real_numbers)
    array = read(values, column, table)
    if kind in ("real", "numbers") and array.ndim != (2 if kind == "numbers" else 1):
        found = "one number" if array.ndim == 1 else f"an array of shape {array.shape}"
        wanted = "a list of as many numbers" if kind == "numbers" else "one number"
        raise JaxschedError(
            f"table '{table}': {column} has {found} per job; accepted: {wanted} per job"
        )
    array.setflags(write=False)
    return array


def list_lengths(lists: Integers) -> Integers:
    """Numbers in each list ``[n]`` of ``[n, L]``: up to its last one other than 0, at least 1."""
    ends = np.where(lists != 0, np.arange(1, lists.shape[1] + 1), 1)
    lengths: Integers = ends.max(axis=1, initial=1)
    return lengths


def to_length(lists: Integers, length: int) -> Integers:
    """Lists ``[n, L]`` as ``[n, length]``, with zeros on the right; further numbers are cut."""
    result = np.zeros((len(lists), length), lists.dtype)
    shared = min(length, lists.shape[1])
    result[:, :shared] = lists[:, :shared]
    return result


def _whole_lists(values: Any, column: str, table: str) -> Integers:
    """An int64 copy of lists of any lengths, as long as the longest without zeros at its end."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 2:
        lists = values.astype(np.int64)
    else:
        rows = _sequence(values)
        if rows is None:
            raise JaxschedError(
                f"table '{table}': {column} is {describe_value(values)}; "
                "accepted: a list of whole numbers for each job"
            )
        numbers: list[list[int]] = []
        for job, row in enumerate(rows):
            cells = _sequence(row)
            parsed = [None] if cells is None else [_whole_number(cell) for cell in cells]
            numbers.append([number for number in parsed if number is not None])
            if len(numbers[-1]) < len(parsed):
                raise JaxschedError(
                    f"table '{table}', job {job}: {column} is {describe_value(row)}; "
                    "accepted: a list of whole numbers"
                )
        lists = np.zeros((len(numbers), max([len(row) for row in numbers], default=1)), np.int64)
        for padded, row in zip(lists, numbers, strict=True):
            padded[: len(row)] = row
    return to_length(lists, int(list_lengths(lists).max(initial=1)))


def _sequence(values: Any) -> list[Any] | None:
    """The elements of a list, tuple or array; None if it is anything else."""
    if isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.ndim):
        return list(values)
    return None


def _real_numbers(values: Any, column: str, table: str) -> Values:
    """A float64 copy of numbers or of equally long lists of numbers."""
    flat = np.asarray(values, dtype=object).reshape(-1) if not _is_real(values) else values
    bad = [v for v in np.ravel(flat) if not _is_finite_number(v)]
    if bad:
        raise JaxschedError(
            f"table '{table}': {column} holds {describe_value(bad[0])}; accepted: finite numbers"
        )
    return np.array(values, np.float64)


def _is_real(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "if"


def _is_finite_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        return False
    return math.isfinite(value)


def _whole_numbers(values: Any, column: str, table: str) -> Integers:
    """An int64 copy of one column."""
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
    return array


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
