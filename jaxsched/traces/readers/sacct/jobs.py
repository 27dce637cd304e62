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
Places = npt.NDArray[np.int64]

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
_BACK = "{} ends before their starts (the clock went back), taken from run times"
_TASKS = "{} waiting tasks of arrays, listed by ranges, are a job each"
_CUT = "{} lists of waiting tasks are cut off or too long, further tasks left out"
_USERS = "{} ids of several users, taken for a job of each"
_REPEATED = "{} records of requeued or repeated jobs joined: first start, last end"
_COMPONENTS = "{} components of heterogeneous jobs joined, their GPUs added up"


class _Record(NamedTuple):
    """A record, what several say together, or columns of them.

    ``start`` and ``run`` are NaN where it never ran. ``kind`` is the code of the kinds of GPU.
    """

    submit: Any
    start: Any
    end: Any
    run: Any
    attempts: Any
    status: Any
    limit: Any
    gpus: Any
    cpus: Any
    memory_gb: Any
    nodes: Any
    kind: Any
    user: Any
    group: Any


def to_jobs(
    records: Records, moments: Mapping[str, Floats], counts: Counts
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a trace, ``[m]``, of records.

    Args:
      records: what the source says.
      moments: its times, all on one clock (s), ``[n]``; NaN: not known.
      counts: where what was joined or is not known is counted.
    """
    names, source = _named(records, counts)
    rows = _Record(*(column[source] for column in _rows(records, moments, counts)))
    components = records.components[source]
    kinds = [*records.kinds]
    is_first, again = _again(names, records, source, rows.user, counts)
    for first, places in again.items():
        parts = [_Record(*(column[place] for column in rows)) for place in places]
        job = _job(parts, [int(components[place]) for place in places], kinds, counts)
        for column, value in zip(rows, job, strict=True):
            column[first] = value
    jobs = _Record(*(column[is_first] for column in rows))
    return _columns(np.array(names, np.str_)[is_first], jobs, kinds, counts)


def _rows(records: Records, moments: Mapping[str, Floats], counts: Counts) -> _Record:
    """The records as columns, with the start, end and run time that other fields tell."""
    submit, start, end = (moments[name] for name in (times.SUBMIT, times.START, times.END))
    elapsed, states = records.numbers["elapsed"], records.statuses
    final = ~np.isin(states, _UNFINISHED)
    ran = elapsed > 0
    told = ~np.isnan(records.allocated)
    empty = np.where(told, records.allocated == 0, states == "killed") & (end == start)
    empty |= (states == "pending") & np.isnan(end)
    start = np.where(empty & ~ran, np.nan, start)  # old versions give the end of such jobs
    start = np.where(np.isnan(start) & final & ran, end - elapsed, start)
    end = np.where(np.isnan(end) & final & ran, start + elapsed, end)
    back = (end < start) & ran & (start + elapsed - end <= _CLOCK_CHANGE_S)
    end = np.where(back, start + elapsed, end)
    between = end - start
    run = np.where(ran | np.isnan(between), elapsed, between)
    never = np.isnan(start) & ~ran
    restarts = np.nan_to_num(records.numbers["restarts"])
    counts[_BACK] += int(np.sum(back))
    counts[_SHORTER] += int(np.sum(final & (between - run >= 1)))
    return _Record(
        submit=submit,
        start=start,
        end=end,
        run=np.where(never, np.nan, run),
        attempts=np.where(never, 0.0, 1.0 + restarts),
        status=states,
        **{name: records.numbers[name] for name in ("limit", *_AMOUNTS)},
        kind=records.kind,
        user=records.users,
        group=records.groups,
    )


_AMOUNTS = ("gpus", "cpus", "memory_gb", "nodes")


def _named(records: Records, counts: Counts) -> tuple[list[str], Places]:
    """The names of jobs, those of tasks that one record lists each, and their records."""
    if not records.tasks:
        return records.jobs, np.arange(len(records.jobs))
    names: list[str] = []
    source: list[int] = []
    left = MOST_TASKS
    for place, job in enumerate(records.jobs):
        spec = records.tasks.get(place)
        if spec is None:
            found = [job]
        else:
            tasks, all_listed = tasks_of(spec, left)
            left -= len(tasks)
            counts[_TASKS] += len(tasks)
            counts[_CUT] += not all_listed
            found = [f"{job}_{task}" for task in tasks]
            if not tasks and left:
                found = [f"{job}_[{spec}]"]
        names += found
        source += [place] * len(found)
    return names, np.array(source, np.int64)


def _again(
    names: Sequence[str], records: Records, source: Places, users: Any, counts: Counts
) -> tuple[npt.NDArray[np.bool_], dict[int, list[int]]]:
    """Which rows are the first of a job, and of jobs with several rows all of them."""
    keys: Sequence[Any] = names
    if len(set(records.clusters.tolist())) > 1:
        keys = list(zip(records.clusters[source].tolist(), names, strict=True))
    firsts: dict[Any, int] = {}
    same: dict[int, list[int]] = {}
    is_first = np.ones(len(names), np.bool_)
    for place, key in enumerate(keys):
        first = firsts.setdefault(key, place)
        if first != place:
            is_first[place] = False
            same.setdefault(first, [first]).append(place)
    again: dict[int, list[int]] = {}
    for places in same.values():
        by_user = _by_user(places, users)
        counts[_USERS] += len(by_user) > 1
        for part in by_user:
            is_first[part[0]] = True
            if len(part) > 1:
                again[part[0]] = part
    return is_first, again


def _by_user(places: Sequence[int], users: Any) -> list[list[int]]:
    """Rows of one id, a list for each user: ids are used again after the last one."""
    names = [str(users[place]) for place in places]
    some = next(filter(None, names), "")
    found: dict[str, list[int]] = {}
    for place, name in zip(places, names, strict=True):
        found.setdefault(name or some, []).append(place)
    return list(found.values())


def _job(
    rows: Sequence[_Record],
    components: Sequence[int],
    kinds: list[tuple[str, ...]],
    counts: Counts,
) -> _Record:
    """One job of several records; new kinds of GPU are added."""
    parts: dict[int, list[_Record]] = {}
    for row, component in zip(rows, components, strict=True):
        parts.setdefault(component, []).append(row)
    joined = [_attempts(part) if len(part) > 1 else part[0] for part in parts.values()]
    counts[_REPEATED] += sum(len(part) for part in parts.values() if len(part) > 1)
    if len(joined) == 1:
        return joined[0]
    counts[_COMPONENTS] += len(joined)
    return _together(joined, kinds)


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
        kind=next((row.kind for row in reversed(ordered) if row.kind), 0),
        limit=_last_known(row.limit for row in ordered),
        gpus=_last_known(row.gpus for row in ordered),
        cpus=_last_known(row.cpus for row in ordered),
        memory_gb=_last_known(row.memory_gb for row in ordered),
        nodes=_last_known(row.nodes for row in ordered),
    )


def _together(parts: Sequence[_Record], kinds: list[tuple[str, ...]]) -> _Record:
    """What the components of a heterogeneous job say together."""
    status = min((str(part.status) for part in parts), key=_SEVERITY.index)
    start = _least(part.start for part in parts)
    end, run = _most(part.end for part in parts), _most(part.run for part in parts)
    if len({part.start for part in parts if part.attempts}) > 1:
        run = end - start
    kinds.append(tuple(kind for part in parts for kind in kinds[part.kind]))
    return parts[0]._replace(
        submit=_least(part.submit for part in parts),
        start=start,
        end=end,
        run=run,
        attempts=max(part.attempts for part in parts),
        status=status,
        limit=_most(part.limit for part in parts),
        kind=len(kinds) - 1,
        gpus=_sum(part.gpus for part in parts),
        cpus=_sum(part.cpus for part in parts),
        memory_gb=_sum(part.memory_gb for part in parts),
        nodes=_sum(part.nodes for part in parts),
    )


def _columns(
    names: npt.NDArray[np.str_],
    jobs: _Record,
    kinds: Sequence[tuple[str, ...]],
    counts: Counts,
) -> dict[str, npt.NDArray[Any]]:
    """The columns of a trace; those that no job has a value of are left out."""
    unfinished = np.isin(jobs.status, _UNFINISHED)
    never = (jobs.attempts == 0) & ~unfinished
    mixed = np.array([len(set(kind)) > 1 for kind in kinds], np.bool_)[jobs.kind]
    for sentence, which in (
        ("{} jobs never started, their run times not known", never),
        ("{} jobs still running or waiting, their run times not known", unfinished),
        ("{} jobs whose number of GPUs is not known", np.isnan(jobs.gpus)),
        ("{} jobs with several kinds of GPU, the first one given", mixed),
    ):
        counts[sentence] += int(np.sum(which))
    needed = {
        "submit_time": jobs.submit,
        "num_gpus": jobs.gpus,
        "duration": np.where(unfinished, np.nan, jobs.run),
    }
    others = {
        "job_id": names,
        "user": jobs.user,
        "group": jobs.group,
        "status": jobs.status,
        "start_time": jobs.start,
        "end_time": np.where(unfinished, np.nan, jobs.end),
        "attempts": jobs.attempts,
        "num_nodes": jobs.nodes,
        "cpus": jobs.cpus,
        "memory_gb": jobs.memory_gb,
        "gpu_type": np.array([next(iter(kind), "") for kind in kinds], np.str_)[jobs.kind],
        "requested_time": jobs.limit,
    }
    return needed | {name: values for name, values in others.items() if _says_something(values)}


def _says_something(values: npt.NDArray[Any]) -> bool:
    return bool(np.any(values != "" if values.dtype.kind == "U" else ~np.isnan(values)))


def _moment(row: _Record) -> tuple[float, bool]:
    """What records of a job are ordered by: when they began, the ended ones last."""
    return _begin(row), not math.isnan(row.end)


def _begin(row: _Record) -> float:
    begin = float(row.submit if math.isnan(row.start) else row.start)
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
