"""Reading the jobs of a workload: files of any format, named traces, generators.

Axis: ``n`` jobs in order of submission.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import from_trace
from jaxsched.traces import Trace, registry
from jaxsched.traces.clusters import generate_trace, names
from jaxsched.traces.formats import load
from jaxsched.traces.job_kinds import kind_of
from jaxsched.traces.trace import known
from jaxsched.traces.usable import dropped_note, is_job, job_rows

Floats = npt.NDArray[np.float64]

ROUNDED = "shares of a GPU rounded up"
"""How a note on them begins."""
_NEEDED = ("submit_time", "num_gpus", "duration")


class Log(NamedTuple):
    """Facts of a log about its jobs besides their requests.

    Attributes:
      job_id: names, ``[n]``; None: it has none.
      wait: seconds from submission to the recorded first start, ``[n]``, NaN where not known; None:
        no job has any.
      jct: seconds from submission to the recorded end, ``[n]``, NaN where not known; or None.
      job_type: what each job trains, with its batch size as Gavel's tables write it, ``[n]``, empty
        where not known; None: no job has any.
    """

    job_id: npt.NDArray[np.str_] | None = None
    wait: Floats | None = None
    jct: Floats | None = None
    job_type: npt.NDArray[np.str_] | None = None

    def part(self, rows: slice) -> "Log":
        """The facts of some of the jobs."""
        job_id, wait, jct, job_type = self
        return Log(
            None if job_id is None else job_id[rows],
            None if wait is None else wait[rows],
            None if jct is None else jct[rows],
            None if job_type is None else job_type[rows],
        )


class Drawn(NamedTuple):
    """One draw of a workload.

    Attributes:
      table: its jobs.
      digest: of the trace or table.
      notes: what reading dropped or changed, one sentence each.
      log: further facts about the jobs.
    """

    table: JobTable
    digest: str
    notes: tuple[str, ...]
    log: Log = Log()


def is_name(source: str) -> bool:
    """Whether a source is a named trace or a generator, which need no file."""
    if os.sep in source:  # no name has one; listing all names imports all systems
        return False
    return source in names() or source in registry.names()


def read(
    source: str,
    data: Path | None,
    *,
    seed: int,
    draws: int,
    num_jobs: int,
    reading: Sequence[tuple[str, Any]] = (),
    longest_s: float = np.inf,
) -> list[Drawn]:
    """The draws of a source.

    Args:
      source: a generator, a named trace, or a file below ``data``.
      data: folder; None: the source is a path of its own.
      seed: of the first draw; others have the following ones. Of named traces all draws have it.
      draws: most draws; a recorded trace has one.
      num_jobs: rows to generate; ignored for other sources.
      reading: options of ``jaxsched.traces.load``, name and value each.
      longest_s: jobs that run longer are left out.

    Raises:
      JaxschedError: one line with what cannot be read, or has no rigid jobs.
    """
    if source in names():
        return [
            of_trace(generate_trace(source, seed + k, num_jobs), longest_s) for k in range(draws)
        ]
    if is_name(source):
        tables = registry.get(source, seed=seed, num_traces=draws)
        return _of_tables(tables, source, draws)
    path = Path(source) if data is None else data / source
    found = load(path, **dict(reading))
    if isinstance(found, Trace):
        return [of_trace(found, longest_s)]
    return _of_tables(found, str(path), draws)


def of_trace(trace: Trace, longest_s: float = np.inf) -> Drawn:
    """A log as a draw: its jobs, as rigid ones, and further facts about them.

    Args:
      trace: the log.
      longest_s: jobs that run longer are left out.

    Raises:
      JaxschedError: no row is a job.
    """
    notes, digest = list(trace.notes), trace.digest()
    left_out = len(trace) - int(np.sum(is_job(trace)))
    notes += [dropped_note(left_out)] if left_out else []
    if longest_s < np.inf:
        brief = trace.take(~(trace["duration"] > longest_s))
        notes.append(
            f"{len(trace) - len(brief)} jobs of more than {longest_s / 86400:g} days left out"
        )
        trace = brief
    return Drawn(from_trace(trace), digest, (*notes, *_rounding(trace)), _log_of(trace))


def _log_of(trace: Trace) -> Log:
    """Names, waits and completion times of the jobs; a missing end is the start plus run time."""
    rows = job_rows(trace)
    nan = np.full(len(rows), np.nan)
    start, end = (
        trace[name][rows] if name in trace else nan for name in ("start_time", "end_time")
    )
    submit, duration = trace["submit_time"][rows], trace["duration"][rows]
    start, end = (
        np.where(np.isnan(start), end - duration, start),
        np.where(np.isnan(end), start + duration, end),
    )
    ids = trace["job_id"][rows] if known(trace, "job_id").any() else None
    job_type = _job_types(trace, rows)
    if not np.any(known(trace, "start_time")) and not np.any(known(trace, "end_time")):
        return Log(ids, job_type=job_type)
    return Log(ids, start - submit, end - submit, job_type)


def _job_types(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.str_] | None:
    """Models of the jobs, with their batch sizes where these are known."""
    if not known(trace, "model").any():
        return None
    sizes = trace["batch_size"][rows] if "batch_size" in trace else np.full(len(rows), np.nan)
    names = [
        model if np.isnan(size) or not model else f"{model} (batch size {size:.0f})"
        for model, size in zip(trace["model"][rows].tolist(), sizes.tolist(), strict=True)
    ]
    return np.array(names, np.str_)


def _rounding(trace: Trace) -> list[str]:
    """A note on fractional GPUs, which are rounded up."""
    kept = is_job(trace)
    gpus = np.asarray(trace["num_gpus"], np.float64)
    shared = float(np.mean((gpus % 1 > 0)[kept])) if kept.any() else 0.0
    return [f"{ROUNDED} in {shared:.1%} of the jobs"] if shared else []


def _of_tables(tables: Sequence[JobTable], source: str, draws: int) -> list[Drawn]:
    """Job tables as draws of one workload."""
    note = (
        (f"the first {draws} of {len(tables)} tables; --draws {len(tables)} plays all",)
        if draws < len(tables)
        else ()
    )
    return [
        Drawn(table, table.digest(), (*table.notes, *note))
        for table in (_rigid(table, source) for table in tables[:draws])
    ]


def _rigid(table: JobTable, source: str) -> JobTable:
    """A table's jobs as rigid ones.

    Raises:
      JaxschedError: its jobs have no GPUs or run time of their own.
    """
    found = kind_of(table).as_rigid(table)
    lacking = [name for name in _NEEDED if name not in found.columns]
    if lacking:
        raise JaxschedError(
            f"{source}: its jobs have no {' and no '.join(lacking)} of their own; accepted: jobs "
            "with a fixed number of GPUs and a run time"
        )
    return JobTable(
        {name: found[name] for name in found.columns if name != "model"}, table.name, table.notes
    )
