"""From records of Slurm's accounting to jobs: requeued, heterogeneous and array jobs are joined.

Records with the same id are attempts of one job: it was submitted first, started first and ended
last as they say, and the last record tells how it ended and, unless it does not know, what it had.
Components of a heterogeneous job run together: their resources add up. A record of several tasks of
an array that all wait is a job for each task. Axes: ``n`` records, ``m`` jobs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.traces import times
from jaxsched.traces.odd_rows import Counts
from jaxsched.traces.readers.fields import NAN
from jaxsched.traces.readers.sacct.records import Records
from jaxsched.traces.readers.sacct.values import tasks_of

Floats = npt.NDArray[np.float64]

MOST_TASKS = 100_000
"""Waiting tasks of arrays that get a row, in one file; a short line may list millions."""

_SEVERITY = ("running", "pending", "failed", "killed", "", "completed")
"""The state of a job whose components differ is the first of these."""

_UNFINISHED = ("running", "pending")

_CLOCK_CHANGE_S = 7200.0  # from summer time; two hours is the most that a zone ever had
_SHORTER = (
    "{} jobs ran shorter than from start to end (suspended, or the clock was changed), as Elapsed "
    "says"
)


class _Record(NamedTuple):
    """A record, or what several say together of a job or a component of one.

    ``start`` and ``run`` are NaN where it never ran.
    """

    submit: float
    start: float
    end: float
    run: float
    attempts: float
    status: str
    limit: float
    gpus: float
    cpus: float
    memory_gb: float
    nodes: float
    kinds: tuple[str, ...]
    user: str
    group: str


def to_jobs(
    records: Records, moments: Mapping[str, Floats], counts: Counts
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a trace, ``[m]``, of records.

    Args:
      records: what the source says.
      moments: its times, all on one clock (s), ``[n]``; NaN: not known.
      counts: where what was joined or is not known is counted.
    """
    rows = _rows(records, moments, counts)
    names: list[str] = []
    jobs: list[_Record] = []
    for name, places in _groups(records, rows, counts):
        names.append(name)
        if len(places) == 1:
            jobs.append(rows[places[0]])
        else:
            components = [records.ids[place].component for place in places]
            jobs.append(_job([rows[place] for place in places], components, counts))
    return _columns(names, jobs, counts)


def _rows(records: Records, moments: Mapping[str, Floats], counts: Counts) -> list[_Record]:
    """The records one by one, with the start, end and run time that their other fields tell."""
    submit, start, end = (moments[name] for name in (times.SUBMIT, times.START, times.END))
    elapsed = records.numbers["elapsed"]
    states = np.array(records.statuses)
    final = ~np.isin(states, _UNFINISHED)
    ran = elapsed > 0
    told = np.isnan(records.allocated)
    empty = np.where(told, states == "killed", records.allocated == 0) & (end == start)
    empty |= (states == "pending") & np.isnan(end)
    start = np.where(empty & ~ran, np.nan, start)  # old versions give the end of such jobs
    start = np.where(np.isnan(start) & final & ran, end - elapsed, start)
    end = np.where(np.isnan(end) & final & ran, start + elapsed, end)
    back = (end < start) & ran & (start + elapsed - end <= _CLOCK_CHANGE_S)
    counts["{} ends before their starts (the clock went back), taken from run times"] += int(
        np.sum(back)
    )
    end = np.where(back, start + elapsed, end)
    between = end - start
    run = np.where(ran | np.isnan(between), elapsed, between)
    never = np.isnan(start) & ~ran
    run = np.where(never, np.nan, run)
    counts[_SHORTER] += int(np.sum(final & (between - run >= 1)))
    columns = (
        *(submit, start, end, run, np.where(never, 0.0, 1.0)),
        records.statuses,
        *(records.numbers[name] for name in ("limit", "gpus", "cpus", "memory_gb", "nodes")),
        *(records.kinds, records.users, records.groups),
    )
    lists = (part.tolist() if isinstance(part, np.ndarray) else part for part in columns)
    rows = list(map(_Record._make, zip(*lists, strict=True)))
    for row in np.flatnonzero(records.numbers["restarts"] > 0).tolist():
        if rows[row].attempts:
            restarts = float(records.numbers["restarts"][row])
            rows[row] = rows[row]._replace(attempts=1 + restarts)
    return rows


def _groups(
    records: Records, rows: Sequence[_Record], counts: Counts
) -> Iterable[tuple[str, list[int]]]:
    """The name of each job and its records, in order of the first ones."""
    several = len(set(records.clusters)) > 1
    groups: dict[tuple[str, str], list[int]] = {}
    left = MOST_TASKS
    for place, found in enumerate(records.ids):
        cluster = records.clusters[place] if several else ""
        if not found.tasks:
            groups.setdefault((cluster, found.job), []).append(place)
            continue
        tasks, all_listed = tasks_of(found.tasks, left)
        left -= len(tasks)
        counts["{} waiting tasks of arrays, listed by ranges, are a job each"] += len(tasks)
        counts[
            "{} lists of waiting tasks are cut off or too long, further tasks left out"
        ] += not all_listed
        for task in tasks:
            groups.setdefault((cluster, f"{found.job}_{task}"), []).append(place)
        if not tasks and left:
            groups.setdefault((cluster, f"{found.job}_[{found.tasks}]"), []).append(place)
    for (_, name), places in groups.items():
        by_user = _by_user(places, rows) if len(places) > 1 else [places]
        counts["{} ids of several users, taken for a job of each"] += len(by_user) > 1
        for found_places in by_user:
            yield name, found_places


def _by_user(places: list[int], rows: Sequence[_Record]) -> list[list[int]]:
    """Records of one id, a list for each user: ids are used again after the last one."""
    first = next((rows[place].user for place in places if rows[place].user), "")
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(rows[place].user or first, []).append(place)
    return list(found.values())


def _job(rows: Sequence[_Record], components: Sequence[int], counts: Counts) -> _Record:
    """One job of several records."""
    parts: dict[int, list[_Record]] = {}
    for row, component in zip(rows, components, strict=True):
        parts.setdefault(component, []).append(row)
    joined = [_attempts(part) for part in parts.values()]
    counts["{} records of requeued or repeated jobs joined: first start, last end"] += sum(
        len(part) for part in parts.values() if len(part) > 1
    )
    if len(joined) == 1:
        return joined[0]
    counts["{} components of heterogeneous jobs joined, their GPUs added up"] += len(joined)
    return _together(joined)


def _attempts(rows: Sequence[_Record]) -> _Record:
    """What the records of a job say together."""
    ordered = sorted(rows, key=_moment)
    last = ordered[-1]
    started = {_begin(row): row for row in ordered if row.attempts}  # a later one replaces
    ran = list(started.values())
    start = _least(row.start for row in ran)
    if ran:
        end = _most(row.end for row in ran)
        run = ran[0].run if len(ran) == 1 else end - start
        if math.isnan(run):  # no starts and ends, but run times
            run = math.fsum(row.run for row in ran)
    else:
        end, run = last.end, NAN
    return last._replace(
        submit=_least(row.submit for row in ordered),
        start=start,
        end=end,
        run=run,
        attempts=max(float(len(ran)), last.attempts if ran else 0.0),
        user=next((row.user for row in ordered if row.user), ""),
        group=next((row.group for row in ordered if row.group), ""),
        kinds=next((row.kinds for row in reversed(ordered) if row.kinds), ()),
        limit=_last_known(row.limit for row in ordered),
        gpus=_last_known(row.gpus for row in ordered),
        cpus=_last_known(row.cpus for row in ordered),
        memory_gb=_last_known(row.memory_gb for row in ordered),
        nodes=_last_known(row.nodes for row in ordered),
    )


def _together(parts: Sequence[_Record]) -> _Record:
    """What the components of a heterogeneous job say together."""
    first = parts[0]
    status = min((part.status for part in parts), key=_SEVERITY.index)
    start = _least(part.start for part in parts)
    end, run = _most(part.end for part in parts), _most(part.run for part in parts)
    if len({part.start for part in parts if part.attempts}) > 1:
        run = end - start
    return first._replace(
        submit=_least(part.submit for part in parts),
        start=start,
        end=end,
        run=run,
        attempts=max(part.attempts for part in parts),
        status=status,
        limit=_most(part.limit for part in parts),
        kinds=tuple(kind for part in parts for kind in part.kinds),
        gpus=_sum(part.gpus for part in parts),
        cpus=_sum(part.cpus for part in parts),
        memory_gb=_sum(part.memory_gb for part in parts),
        nodes=_sum(part.nodes for part in parts),
    )


def _columns(
    names: list[str], jobs: Sequence[_Record], counts: Counts
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a trace; those that no job has a value of are left out."""
    columns: tuple[Any, ...] = tuple(zip(*jobs, strict=True))
    found = _Record(*columns)
    kinds = [list(dict.fromkeys(kind)) for kind in found.kinds]
    unfinished = np.isin(found.status, _UNFINISHED)
    attempts, gpus = np.array(found.attempts), np.array(found.gpus)
    for sentence, which in (
        ("{} jobs never started, their run times not known", (attempts == 0) & ~unfinished),
        ("{} jobs still running or waiting, their run times not known", unfinished),
        ("{} jobs whose number of GPUs is not known", np.isnan(gpus)),
        ("{} jobs with several kinds of GPU, the first one given", [len(k) > 1 for k in kinds]),
    ):
        counts[sentence] += int(np.sum(which))
    needed = {
        "submit_time": np.array(found.submit),
        "num_gpus": gpus,
        "duration": np.where(unfinished, np.nan, np.array(found.run)),
    }
    others = {
        "job_id": np.array(names, np.str_),
        "user": np.array(found.user, np.str_),
        "group": np.array(found.group, np.str_),
        "status": np.array(found.status, np.str_),
        "start_time": np.array(found.start),
        "end_time": np.where(unfinished, np.nan, np.array(found.end)),
        "attempts": attempts,
        "num_nodes": np.array(found.nodes),
        "cpus": np.array(found.cpus),
        "memory_gb": np.array(found.memory_gb),
        "gpu_type": np.array([next(iter(kind), "") for kind in kinds], np.str_),
        "requested_time": np.array(found.limit),
    }
    return needed | {name: values for name, values in others.items() if _says_something(values)}


def _says_something(values: npt.NDArray[Any]) -> bool:
    return bool(np.any(values != "" if values.dtype.kind == "U" else ~np.isnan(values)))


def _moment(row: _Record) -> tuple[float, bool]:
    """What records of a job are ordered by: when they began, the ended ones last."""
    return _begin(row), not math.isnan(row.end)


def _begin(row: _Record) -> float:
    begin = row.submit if math.isnan(row.start) else row.start
    return -math.inf if math.isnan(begin) else begin


def _least(found: Iterable[float]) -> float:
    return min((value for value in found if not math.isnan(value)), default=NAN)


def _most(found: Iterable[float]) -> float:
    return max((value for value in found if not math.isnan(value)), default=NAN)


def _sum(found: Iterable[float]) -> float:
    known = [value for value in found if not math.isnan(value)]
    return math.fsum(known) if known else NAN


def _last_known(found: Iterable[float]) -> float:
    last = NAN
    for value in found:
        last = last if math.isnan(value) else value
    return last
