"""Reader for the tables of Alibaba's PAI cluster (2020): jobs, their tasks and instances.

Source: "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters" (NSDI'22). The tables ``pai_job_table``, ``pai_task_table`` and, if it is there,
``pai_instance_table`` (``.csv``, plain or gzip) lie in one folder and have no header line; their
columns are named by ``pai_*_table.header`` beside them or are the published ones. A job's start is
its submission, a task's start its launch. Demands are per instance, those of CPU and GPU in
percent. Seconds count from a shifted origin: as Unix time in the cluster's zone (UTC+8), hours and
weekdays are right and dates are not; 8 hours are added to give that zone's clock.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.odd_rows import UNSUBMITTED, Counts, finished
from jaxsched.traces.readers.fields import NAN, number, statuses
from jaxsched.traces.readers.head import Head, head_of
from jaxsched.traces.rows import Rows, iterate_rows, join_columns
from jaxsched.traces.text import read_head
from jaxsched.traces.trace import Trace

NAME = "pai"
DESCRIPTION = "Alibaba PAI (2020), folder with its job, task and instance tables"
JOBS, TASKS, INSTANCES = "pai_job_table", "pai_task_table", "pai_instance_table"
COLUMNS = {
    JOBS: ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    TASKS: (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
        "gpu_type",
    ),
    INSTANCES: (
        "job_name",
        "task_name",
        "inst_name",
        "worker_name",
        "inst_id",
        "status",
        "start_time",
        "end_time",
        "machine",
    ),
}
STATUSES = {
    "Terminated": "completed",
    "Failed": "failed",
    "Running": "running",
    "Waiting": "pending",
}

ZONE_S = 8 * 3600

_ENDINGS = (".csv", ".csv.gz")

Floats = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Index = dict[str, int]


def matches(head: Head) -> bool:
    """Whether a path is a folder with a job table, or the job table itself beside the others."""
    if head.path.is_dir():
        return _table(head.path, JOBS) is not None
    names = COLUMNS[JOBS]
    is_job = len(head.header) == len(names) and head.header[names.index("status")] in STATUSES
    return (is_job or head.header == names) and _table(head.path.parent, TASKS) is not None


def read(path: PathLike) -> Trace:
    """Read the tables of a folder, given as such or as the path of its job table.

    ``num_gpus`` is the sum over tasks of inst_num * plan_gpu / 100; tasks without ``plan_gpu`` use
    none. A job starts with its first and ends with its last instance where instances are given,
    else with its first task and its own end; jobs that run or wait have no end.

    Raises:
      JaxschedError: one line with file and line number, or the file that is missing.
    """
    given = Path(path)
    folder = given if given.is_dir() else given.parent
    job_file = _needed(folder, JOBS) if given.is_dir() else given
    counts: Counts = Counter()
    jobs, index, rows_read = _jobs(job_file, folder, counts)
    num_jobs = len(jobs["job_id"])
    demands, task_end = _tasks(_needed(folder, TASKS), folder, index, num_jobs, counts)
    jobs |= demands
    end = _first_known(jobs["end_time"], task_end)
    instance_file = _table(folder, INSTANCES)
    if instance_file is None:
        counts["no instance table, so that jobs start with their first task"] = 1
    else:
        seen, machines = _instances(instance_file, folder, index, num_jobs, counts)
        jobs["start_time"] = _first_known(seen.start, jobs["start_time"])
        end = _first_known(seen.end, end)
        jobs["num_nodes"] = machines
        jobs["num_instances"] = np.where(seen.count > 0, seen.count, jobs["num_instances"])
    unfinished = np.isin(jobs["status"], ("running", "pending"))
    jobs["end_time"] = np.where(unfinished, np.nan, end)
    jobs["duration"] = jobs["end_time"] - jobs["start_time"]
    counts["{} jobs running or waiting, their run times not known"] = int(np.sum(unfinished))
    for column in ("submit_time", "start_time", "end_time"):
        jobs[column] = jobs[column] + ZONE_S
    return finished(folder.resolve(), jobs, NAME, "local", counts=counts, rows_read=rows_read)


def _table(folder: Path, table: str) -> Path | None:
    return next((f for e in _ENDINGS if (f := folder / f"{table}{e}").is_file()), None)


def _needed(folder: Path, table: str) -> Path:
    file = _table(folder, table)
    if file is None:
        raise JaxschedError(
            f"{folder}: has no {table}.csv; accepted: {JOBS} and {TASKS}, .csv[.gz]"
        )
    return file


def _rows(file: Path, folder: Path, table: str, counts: Counts) -> Iterator[Rows]:
    """The rows of a table in batches; a header line, which the published files lack, is allowed."""
    wanted = COLUMNS[table]
    names = wanted
    header_file = folder / f"{table}.header"
    if header_file.is_file():
        names = tuple(name.strip() for name in read_head(header_file).strip().split(","))
        if not set(wanted) <= set(names) or len(set(names)) < len(names):
            raise JaxschedError(
                f"{header_file}: names {describe_value(','.join(names), 80)}; accepted: "
                f"{','.join(wanted)}"
            )
    found = head_of(file).header
    if found == names:
        return iterate_rows(file, (names,), counts=counts)
    return iterate_rows(file, (), header=names, counts=counts)


def _jobs(file: Path, folder: Path, counts: Counts) -> tuple[Columns, Index, int]:
    """Columns of the job table, the row of each job's name, and the number of rows read."""
    parts: list[Columns] = []
    index: Index = {}
    rows_read = num_jobs = 0
    for rows in _rows(file, folder, JOBS, counts):
        names = rows.column("job_name")
        submit = number(rows, "start_time", from_zero=False)
        kept: list[int] = []
        for row, (name, missing) in enumerate(zip(names, np.isnan(submit).tolist(), strict=True)):
            if missing:
                counts[UNSUBMITTED] += 1
            elif name in index:
                counts["{} repeated jobs dropped"] += 1
            else:
                index[name] = num_jobs + len(kept)
                kept.append(row)
        columns: Columns = {
            "submit_time": submit,
            "job_id": rows.texts("job_name"),
            "user": rows.texts("user"),
            "status": statuses(rows, "status", STATUSES),
            "end_time": number(rows, "end_time", from_zero=False),
        }
        parts.append({name: values[np.array(kept, np.int64)] for name, values in columns.items()})
        rows_read += len(names)
        num_jobs += len(kept)
    if not num_jobs:
        raise JaxschedError(f"{file}: has no jobs with a start_time; accepted: at least one")
    return join_columns(parts), index, rows_read


class _Span:
    """First start, last end and number of the tasks or instances of each job, ``[num_jobs]``."""

    def __init__(self, num_jobs: int) -> None:
        self.start = np.full(num_jobs, NAN)
        self.end = np.full(num_jobs, NAN)
        self.count = np.zeros(num_jobs)

    def add(self, rows: Rows, listed: Mask, job: Places) -> None:
        """Count rows; ``job`` are the jobs of those that are listed."""
        np.fmin.at(self.start, job, number(rows, "start_time", from_zero=False)[listed])
        np.fmax.at(self.end, job, number(rows, "end_time", from_zero=False)[listed])
        np.add.at(self.count, job, 1)


class _Kinds:
    """Kind of GPU of each job: that of its first task with GPUs."""

    def __init__(self, num_jobs: int) -> None:
        self.mixed = np.zeros(num_jobs, np.bool_)
        self._codes: Index = {"": 0}
        self._kind = np.zeros(num_jobs, np.int64)

    def add(self, kinds: list[str], job: Places) -> None:
        """Note the kinds that tasks with GPUs ask for, and the jobs of these."""
        codes = _encode(kinds, self._codes)
        places, firsts = np.unique(job[codes > 0], return_index=True)
        fresh = self._kind[places] == 0
        self._kind[places[fresh]] = codes[codes > 0][firsts[fresh]]
        self.mixed[job[(codes > 0) & (codes != self._kind[job])]] = True

    def texts(self) -> npt.NDArray[np.str_]:
        """The kind of each job, ``[num_jobs]``."""
        return np.array(list(self._codes), np.str_)[self._kind]


def _tasks(
    file: Path, folder: Path, index: Index, num_jobs: int, counts: Counts
) -> tuple[Columns, Floats]:
    """Demands and launches of the jobs, and the last end of their tasks, ``[num_jobs]``."""
    names = ("num_instances", "num_gpus", "cpus", "memory_gb")
    sums = {name: np.zeros(num_jobs) for name in names}
    span, kinds = _Span(num_jobs), _Kinds(num_jobs)
    for rows in _rows(file, folder, TASKS, counts):
        listed, job = _places(rows, index)
        instances, plan = number(rows, "inst_num"), number(rows, "plan_gpu")
        gpus = instances * np.nan_to_num(plan)
        cpus = instances * number(rows, "plan_cpu")
        memory = instances * number(rows, "plan_mem")
        for name, amounts in zip(names, (instances, gpus, cpus, memory), strict=True):
            np.add.at(sums[name], job, amounts[listed])
        span.add(rows, listed, job)
        uses = (gpus > 0)[listed]
        kinds.add(rows.texts("gpu_type")[listed][uses].tolist(), job[uses])
        counts["{} tasks of unknown jobs left out"] += int(np.sum(~listed))
        counts["{} tasks without plan_gpu, taken to use none"] += int(
            np.sum(np.isnan(plan[listed]))
        )
    counts["{} jobs without tasks, their demands not known"] = int(np.sum(span.count == 0))
    counts["{} jobs with several kinds of GPU, the first task's given"] = int(np.sum(kinds.mixed))
    sums["num_gpus"] /= 100  # last, since sums of percents are exact
    sums["cpus"] /= 100
    columns: Columns = {
        name: np.where(span.count > 0, values, np.nan) for name, values in sums.items()
    }
    return {**columns, "gpu_type": kinds.texts(), "start_time": span.start}, span.end


def _instances(
    file: Path, folder: Path, index: Index, num_jobs: int, counts: Counts
) -> tuple[_Span, Floats]:
    """Times and number of the instances of the jobs, and their machines, ``[num_jobs]``."""
    span = _Span(num_jobs)
    codes: Index = {"": 0}
    pairs: list[Places] = []
    for rows in _rows(file, folder, INSTANCES, counts):
        listed, job = _places(rows, index)
        counts["{} instances of unknown jobs left out"] += int(np.sum(~listed))
        span.add(rows, listed, job)
        machine = _encode(rows.column("machine"), codes)[listed]
        pairs.append(np.unique((job << 32 | machine)[machine > 0]))
    placed = np.unique(np.concatenate(pairs))
    machines = np.bincount(placed >> 32, minlength=num_jobs).astype(np.float64)
    return span, np.where(machines > 0, machines, np.nan)


def _places(rows: Rows, index: Index) -> tuple[Mask, Places]:
    """Which rows are of known jobs, and the jobs of these."""
    job = np.array([index.get(name, -1) for name in rows.column("job_name")], np.int64)
    return job >= 0, job[job >= 0]


def _encode(texts: list[str], codes: Index) -> Places:
    """The code of each text; new ones are given the next code."""
    return np.array([codes.setdefault(text, len(codes)) for text in texts], np.int64)


def _first_known(values: Floats, others: Floats) -> Floats:
    return np.where(np.isnan(values), others, values)
