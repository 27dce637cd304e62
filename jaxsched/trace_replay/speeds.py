"""How fast types of jobs run on types of GPUs: Gavel's measurements, or a table of one's own.

A table is a file of comma-separated values: ``job_type,num_gpus`` and a column for each type of
GPU, with thousandths of the speed at which run times were taken. A row holds for jobs of that many
GPUs and more, up to the next row of the same type of job; 0: the job cannot run there.
"""

import csv
import hashlib
import io
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.servers import GPU_TYPE
from jaxsched.trace_replay.gpu_types import MOST_SPEED, PREFIX
from jaxsched.traces.details import KIND, kind_of

GAVEL = "gavel"
"""Name of the measurements that come with the library: V100, P100, K80 (Narayanan et al., OSDI'20,
``scheduler/simulation_throughputs.json``); run times are those on V100."""

LARGEST_FILE, MOST_ROWS = 2**20, 4096
_FILE = "gavel_speeds.csv"
_FIRST = ("job_type", "num_gpus")
_BATCH = " (batch size "


class Speeds(NamedTuple):
    """Speeds of types of jobs.

    Attributes:
      name: how messages call the table.
      gpu_types: types of GPUs.
      job_types: the type of job of each row.
      num_gpus: int64 ``[rows]``, GPUs from which on a row holds.
      thousandths: int64 ``[rows, types of GPUs]``.
    """

    name: str
    gpu_types: tuple[str, ...]
    job_types: tuple[str, ...]
    num_gpus: Integers
    thousandths: Integers


def read_speeds(source: PathLike) -> Speeds:
    """The speeds of ``gavel``, or those in a file.

    Raises:
      JaxschedError: one line with the line of the file and what is accepted.
    """
    if source == GAVEL:
        text = (resources.files("jaxsched.traces") / "data" / _FILE).read_text(encoding="utf-8")
        return _parsed(GAVEL, text)
    try:
        with open(source, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content[:LARGEST_FILE].decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise JaxschedError(
            f"{argument('speeds')} is {describe_value(str(source))}, which cannot be read "
            f"({getattr(error, 'strerror', None) or error}); accepted: {GAVEL}, or a file with "
            "job_type,num_gpus and a column for each type of GPU"
        ) from None
    if len(content) > LARGEST_FILE:
        raise JaxschedError(f"{source}: is no table of speeds; accepted: up to a MiB")
    return _parsed(str(source), text)


def _parsed(name: str, text: str) -> Speeds:
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise JaxschedError(f"{name}: is no table of speeds ({error})") from None
    if len(lines) > MOST_ROWS:
        raise JaxschedError(f"{name}: is no table of speeds; accepted: up to {MOST_ROWS} lines")
    header = tuple(cell.strip().lower() for cell in lines[0]) if lines else ()
    types = header[2:]
    named = bool(types) and len(set(types)) == len(types) and all(map(GPU_TYPE.fullmatch, types))
    if header[:2] != _FIRST or not named:
        raise JaxschedError(
            f"{name}, line 1: is {describe_value(','.join(header))}; accepted: job_type,num_gpus "
            "and a column for each type of GPU, such as v100"
        )
    rows: dict[tuple[str, int], list[int]] = {}
    for number, cells in enumerate(lines[1:], 2):
        if not cells:
            continue
        whole = [cell.strip() for cell in cells[1:]]
        fits = len(cells) == len(header) and all(c.isascii() and c.isdecimal() for c in whole)
        values = [int(cell[:19]) for cell in whole] if fits else []
        if not fits or not 1 <= values[0] <= 2**15 or max(values[1:]) > MOST_SPEED:
            raise JaxschedError(
                f"{name}, line {number}: is {describe_value(','.join(cells))}; accepted: "
                f"{','.join(header)}, whole numbers (GPUs from 1 on, thousandths from 0 to "
                f"{MOST_SPEED})"
            )
        key = cells[0].strip(), values[0]
        if key in rows:
            raise JaxschedError(f"{name}, line {number}: {key[0]!r} with {key[1]} GPUs comes twice")
        rows[key] = values[1:]
    if not rows:
        raise JaxschedError(f"{name}: has no rows; accepted: one for each type of job at least")
    keys = sorted(rows)
    return Speeds(
        name,
        types,
        tuple(job_type for job_type, _ in keys),
        np.array([num_gpus for _, num_gpus in keys], np.int64),
        np.array([rows[key] for key in keys], np.int64),
    )


def with_speeds(
    table: JobTable,
    speeds: Speeds,
    gpu_types: Sequence[str],
    job_types: npt.NDArray[np.str_] | None = None,
    *,
    able: npt.NDArray[np.bool_] | None = None,
) -> JobTable:
    """The jobs with their speed on each type of GPU (columns ``speed_<type>``).

    A job whose type is in the table has its speeds. Of the others every job draws a type on its
    own, evenly from those that have a row for jobs of its size: as Gavel's traces are made. The
    draws depend on the sizes and run times of the jobs alone, so that the same jobs have the same
    speeds at every load.

    Args:
      table: the jobs; speeds that they have are replaced.
      speeds: of types of jobs.
      gpu_types: the types of the cluster.
      job_types: what each job trains, ``[n]``; None: told by the column ``kind``, where there is
        one (``jaxsched.traces.details``; batch sizes are drawn then).
      able: whether each type of ``gpu_types`` can hold each job, ``[n, types]``; types of jobs that
        run on none of them are not drawn (Gavel has no speed for some on K80). None: all can.

    Raises:
      JaxschedError: a type of GPU that the table of speeds has not, or jobs too small for it.
    """
    unknown = [name for name in gpu_types if name not in speeds.gpu_types]
    if unknown:
        raise JaxschedError(
            f"{speeds.name} has no GPUs of type {unknown[0]!r}; accepted: "
            + ", ".join(speeds.gpu_types)
        )
    gpus = table["num_gpus"]
    if int(gpus.min()) < int(speeds.num_gpus.min()):
        raise JaxschedError(
            f"{speeds.name} has no row for jobs of {int(gpus.min())} GPUs; accepted: one that "
            "holds from so many on"
        )
    codes = _codes(table, job_types)
    named = [{kind_of(name), kind_of(name.partition(_BATCH)[0])} for name in speeds.job_types]
    row = np.zeros(len(table), np.int64)
    uniform, drawn = _draws(table), 0
    told = [gpus, codes] if able is None else [gpus, codes, *able.T]
    alike, of_job = np.unique(np.stack(told, axis=1), axis=0, return_inverse=True)
    for number, (size, code, *holds) in enumerate(alike.tolist()):
        own = of_job.reshape(-1) == number
        candidates = _rows_named(speeds, named, size, code)
        if not candidates.size:
            drawn += int(np.sum(own))
            most = speeds.num_gpus[speeds.num_gpus <= size].max()
            candidates = np.flatnonzero(speeds.num_gpus == most)
            if able is not None:  # no type of job that could run nowhere
                held = [name for name, can in zip(gpu_types, holds, strict=True) if can]
                kinds = [speeds.gpu_types.index(name) for name in held]
                runs = candidates[speeds.thousandths[candidates][:, kinds].max(1, initial=0) > 0]
                candidates = runs if runs.size else candidates
        row[own] = candidates[(uniform[own] * len(candidates)).astype(np.int64)]
    columns = {
        PREFIX + name: speeds.thousandths[row, speeds.gpu_types.index(name)]
        for name in dict.fromkeys(gpu_types)
    }
    found = table.with_columns(**columns)
    note = f"types of jobs for speeds by {speeds.name}: {len(table) - drawn} known, {drawn} drawn"
    return JobTable(found.columns, table.name, (*table.notes, note), table.schema)


def speeds_of_type(speeds: Speeds, job_type: str, num_gpus: int) -> dict[str, int] | None:
    """Thousandths of a type of jobs of a size by type of GPU; None: the table has none.

    Args:
      speeds: the table.
      job_type: as there. Where the batch size is left out, the mean of those that there are.
      num_gpus: GPUs of the job.
    """
    named = [{kind_of(name), kind_of(name.partition(_BATCH)[0])} for name in speeds.job_types]
    rows = _rows_named(speeds, named, num_gpus, kind_of(job_type))
    if not rows.size:
        return None
    means = speeds.thousandths[rows].mean(axis=0).astype(np.int64)
    return dict(zip(speeds.gpu_types, means.tolist(), strict=True))


def _codes(table: JobTable, job_types: npt.NDArray[np.str_] | None) -> Integers:
    """A number for what each job trains, int64 ``[n]``; -1: not known."""
    if job_types is not None:
        names, of_job = np.unique(job_types, return_inverse=True)
        numbers = np.array([kind_of(name) if name else -1 for name in names.tolist()], np.int64)
        return numbers[of_job.reshape(-1)]
    if KIND in table.columns:
        return table[KIND]
    return np.full(len(table), -1, np.int64)


def _rows_named(speeds: Speeds, named: Sequence[set[int]], size: int, code: int) -> Integers:
    """The rows that hold for jobs of a size that train something: one of each type of that name."""
    found: dict[str, int] = {}
    for row, name in enumerate(speeds.job_types):
        if speeds.num_gpus[row] <= size and code in named[row]:
            found[name] = row  # rows of a type are in order of their GPUs
    return np.array(list(found.values()), np.int64)


def _draws(table: JobTable) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each job."""
    sha = hashlib.sha256(b"jaxsched speeds 1\n")
    for name in ("num_gpus", "duration"):
        sha.update(table[name].astype("<i8").tobytes())
    return np.random.default_rng(int.from_bytes(sha.digest()[:8], "little")).random(len(table))
