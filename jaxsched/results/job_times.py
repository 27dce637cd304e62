"""Files of per-job times: one row for each job under each policy, comma-separated or Parquet.

Axis: ``n`` jobs.
"""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike, write_whole

ENDINGS = (".csv", ".parquet")

COLUMNS = {
    "policy": "name of the policy",
    "job": "number of the job in its table, in order of submission, from 0",
    "job_id": "name of the job in the log; empty where it has none",
    "submit_time": "s, from the first submission of the table",
    "start_time": "s, first start; empty: never started",
    "end_time": "s, completion; empty: never ended",
    "num_gpus": "GPUs",
    "duration": "s, run time without waiting or suspension",
    "wait": "s, from submission to the first start",
    "jct": "s, from submission to completion",
}
"""Columns that every file has, after those that say which table it was (workload, trace, ...)."""


def check_ending(path: PathLike) -> None:
    """Refuse a name that does not say the layout.

    Raises:
      JaxschedError: one line with the endings that are accepted.
    """
    if not str(path).endswith(ENDINGS):
        raise JaxschedError(f"{path}: expected a name that ends in {' or '.join(ENDINGS)}")


def times_of(
    *,
    policy: str,
    submit: Any,
    start: Any,
    end: Any,
    num_gpus: Any,
    duration: Any,
    job_id: Any = "",
    started: Any = True,
    ended: Any = None,
    **labels: Any,
) -> dict[str, Any]:
    """The columns of one policy on one table.

    Args:
      policy: its name.
      submit: s, ``[n]``.
      start: s, ``[n]``.
      end: s, ``[n]``.
      num_gpus: ``[n]``.
      duration: s, ``[n]``.
      job_id: texts ``[n]``, or one for all.
      started: which jobs were started, bool ``[n]``; the others have no times.
      ended: which of them ended; those that were started by default.
      labels: further columns that stand first: which workload, load, draw, table.
    """
    submit = np.asarray(submit)
    started = np.broadcast_to(np.asarray(started, bool), submit.shape)
    ended = started if ended is None else started & np.asarray(ended, bool)
    start = np.ma.masked_array(np.asarray(start), ~started)
    end = np.ma.masked_array(np.asarray(end), ~ended)
    return {
        **labels,
        "policy": policy,
        "job": np.arange(len(submit)),
        "job_id": job_id,
        "submit_time": submit,
        "start_time": start,
        "end_time": end,
        "num_gpus": np.asarray(num_gpus),
        "duration": np.asarray(duration),
        "wait": start - submit,
        "jct": end - submit,
    }


def write_job_times(path: PathLike, parts: Iterable[Mapping[str, Any]]) -> Path:
    """Write what became of every job, under one policy after the other.

    Args:
      path: its ending chooses the layout (``ENDINGS``).
      parts: of ``times_of`` each, all with the same columns; masked values are written as empty
        cells or nulls. A column that is one value holds for all jobs of its part.

    Raises:
      JaxschedError: another ending, no part, or a file that cannot be written.
    """
    check_ending(path)
    return write_tables(path, map(_table, parts))


def write_tables(path: PathLike, tables: Iterable[Any]) -> Path:
    """Write Arrow tables of the same columns one after the other; see ``write_job_times``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = list(tables)
    if not found:
        raise JaxschedError(f"{path}: there are no jobs to write; accepted: one policy or more")
    whole, buffer = pa.concat_tables(found), io.BytesIO()
    if str(path).endswith(".parquet"):
        pq.write_table(whole, buffer, compression="zstd")
    else:
        buffer.write((",".join(whole.column_names) + "\n").encode())
        buffer.write(_csv_rows(whole))
    write_whole(path, buffer.getvalue())
    return Path(path)


def _csv_rows(table: Any) -> bytes:
    """Rows of cells; Arrow quotes all texts or none, so texts are quoted where one needs it."""
    import pyarrow as pa
    import pyarrow.csv as pc

    for style in ("none", "needed"):
        buffer = io.BytesIO()
        options = pc.WriteOptions(include_header=False, quoting_style=style)
        try:
            pc.write_csv(table, buffer, options)
        except pa.ArrowInvalid:
            continue
        break
    return buffer.getvalue()


def read_part(path: PathLike) -> Any:
    """The Arrow table of a Parquet file that ``write_job_times`` wrote."""
    import pyarrow.parquet as pq

    return pq.read_table(str(path))


def _table(part: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    count = len(part["job"])
    return pa.table({name: _array(values, count) for name, values in part.items()})


def _array(values: Any, count: int) -> Any:
    """A column: whole numbers, numbers or texts; null where masked."""
    import pyarrow as pa

    if isinstance(values, str) or np.ndim(values) == 0:
        texts = isinstance(values, str)
        return pa.array([values], pa.string() if texts else None).take(
            pa.array(np.zeros(count, np.int64))
        )
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain = np.asarray(values)
    if plain.dtype.kind == "U":
        return pa.array(plain.tolist(), pa.string())
    return pa.array(plain, mask=mask)
