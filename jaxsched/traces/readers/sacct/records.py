"""Records of jobs as columns: what one line or one JSON object says, before they are joined.

A requeued job has several records, a heterogeneous one a record for each component, and one record
may stand for several tasks of an array. Axis: ``n`` records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.columns import describe_value
from jaxsched.traces import times
from jaxsched.traces.odd_rows import Counts, count_state
from jaxsched.traces.readers.sacct import values
from jaxsched.traces.readers.sacct.lines import RESOURCES, Lines
from jaxsched.traces.readers.sacct.values import Demand, JobId
from jaxsched.traces.trace import LARGEST

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]

MOMENTS = (times.SUBMIT, times.START, times.END)

_EACH_NODE = "ReqGRES"  # asks for so many of each node
_ALLOCATED = ("AllocTRES", "AllocGRES")
_LONGEST_ID = 18  # digits


Demands = tuple[Places, Sequence[Demand]]
"""Demands that occur, and which of them each record has, ``[n]``."""


@dataclass(frozen=True, eq=False)
class Records:
    """Records of jobs.

    Attributes:
      jobs: their ids, of tasks those of arrays.
      components: of heterogeneous jobs, ``[n]``; -1 for others.
      tasks: record -> the tasks of an array that it is about, as Slurm lists them.
      clusters, users, groups, statuses: texts, ``[n]`` each; empty where the source does not say.
      kind: place in ``kinds``, ``[n]``.
      kinds: kinds of GPU, those that are named; the first one is none.
      moments: ``MOMENTS`` as they are written, ``[n]`` each.
      numbers: ``elapsed``, ``limit`` (s), ``restarts``, ``gpus``, ``cpus``, ``memory_gb`` and
        ``nodes``, ``[n]`` each; NaN: not known.
      allocated: 1 where something was allocated, 0 where not, NaN where nothing is said, ``[n]``.
    """

    jobs: list[str]
    components: Places
    tasks: dict[int, str]
    clusters: Texts
    users: Texts
    groups: Texts
    statuses: Texts
    kind: Places
    kinds: list[tuple[str, ...]]
    moments: dict[str, times.Moments]
    numbers: dict[str, Floats]
    allocated: Floats

    def __len__(self) -> int:
        """Number of records."""
        return len(self.jobs)


def joined(parts: Sequence[Records]) -> Records:
    """Records of consecutive batches as one."""
    jobs: list[str] = []
    tasks: dict[int, str] = {}
    codes: dict[tuple[str, ...], int] = {(): 0}
    kind = []
    for part in parts:
        tasks |= {len(jobs) + place: spec for place, spec in part.tasks.items()}
        jobs += part.jobs
        places = [codes.setdefault(named, len(codes)) for named in part.kinds]
        kind.append(np.array(places, np.int64)[part.kind])

    def whole(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return Records(
        jobs=jobs,
        components=whole("components"),
        tasks=tasks,
        clusters=whole("clusters"),
        users=whole("users"),
        groups=whole("groups"),
        statuses=whole("statuses"),
        kind=np.concatenate(kind),
        kinds=list(codes),
        moments={name: times.joined([part.moments[name] for part in parts]) for name in MOMENTS},
        numbers={
            name: np.concatenate([part.numbers[name] for part in parts])
            for name in parts[0].numbers
        },
        allocated=whole("allocated"),
    )


def of_lines(rows: Lines, group: str) -> Records:
    """The records of a batch of lines.

    Args:
      rows: the lines.
      group: the column that gives the group of a job, empty if there is none.

    Raises:
      JaxschedError: a value that is not of its kind; one line with file and line.
    """
    asked = {name: _demands(rows, name) for name in RESOURCES if name in rows.header}
    nodes = _first_number(rows, ("NNodes", values.count), ("AllocNodes", values.count))
    numbers, kind, kinds = resources(list(asked.values()), nodes, each_node=_EACH_NODE in asked)
    cpus = _first_number(rows, ("AllocCPUS", values.count), ("NCPUS", values.count))
    numbers["cpus"] = np.where(cpus > 0, cpus, numbers["cpus"])
    numbers["elapsed"] = _first_number(rows, ("ElapsedRaw", values.count), ("Elapsed", values.span))
    numbers["limit"] = _first_number(
        rows, ("TimelimitRaw", values.time_limit), ("Timelimit", values.time_limit)
    )
    numbers["restarts"] = _first_number(rows, ("Restarts", values.count))
    jobs, components, tasks = split_ids(_ids(rows, _one_of(rows, "JobID", "JobIDRaw")))
    return Records(
        jobs=jobs,
        components=components,
        tasks=tasks,
        clusters=_texts(rows, "Cluster"),
        users=_texts(rows, "User"),
        groups=_texts(rows, group),
        statuses=statuses(rows.column("State"), rows.counts)
        if "State" in rows.header
        else _texts(rows, "State"),
        kind=kind,
        kinds=kinds,
        moments={
            times.SUBMIT: _moments(rows, _one_of(rows, "Submit", "Eligible")),
            times.START: _moments(rows, "Start"),
            times.END: _moments(rows, "End"),
        },
        numbers=numbers,
        allocated=something([asked[name] for name in _ALLOCATED if name in asked], len(rows.cells)),
    )


def split_ids(ids: Sequence[str | JobId]) -> tuple[list[str], Places, dict[int, str]]:
    """Names of jobs, components ``[n]`` and lists of tasks of ids; plain ones are texts."""
    jobs: list[str] = []
    components = np.full(len(ids), -1, np.int64)
    tasks: dict[int, str] = {}
    for place, found in enumerate(ids):
        if isinstance(found, str):
            jobs.append(found)
            continue
        jobs.append(found.job)
        components[place] = found.component
        if found.tasks:
            tasks[place] = found.tasks
    return jobs, components, tasks


def statuses(states: Iterable[str], counts: Counts) -> Texts:
    """What traces call Slurm's states; those that are not known are counted, and empty."""
    found = list(states)
    names: dict[str, str] = {}
    for state, number in Counter(found).items():
        called = values.status(state)
        if called is None:
            count_state(counts, state, number)
        names[state] = called or ""
    return np.array([names[state] for state in found], np.str_)


def resources(
    sources: Sequence[Demands], nodes: Floats, *, each_node: bool = False
) -> tuple[dict[str, Floats], Places, list[tuple[str, ...]]]:
    """What jobs had, of several sources that tell it; the first that mentions GPUs counts.

    Args:
      sources: of each job, the best source first.
      nodes: of each job, where something else tells them, ``[n]``; NaN: not known.
      each_node: whether the last source is about each node of a job.

    Returns:
      ``gpus``, ``cpus``, ``memory_gb`` and ``nodes`` -> values, ``[n]``; the place of each record's
      kinds of GPU, ``[n]``, and these kinds. GPUs are 0 where some source tells resources and none
      of them GPUs, NaN where none tells any.
    """
    found = {name: np.full(len(nodes), np.nan) for name in ("gpus", "cpus", "memory_gb")}
    found["nodes"] = np.where(nodes > 0, nodes, np.nan)
    kind = np.zeros(len(nodes), np.int64)
    codes: dict[tuple[str, ...], int] = {(): 0}
    for place, (which, demands) in enumerate(sources):
        for name, known in found.items():
            told = np.array([getattr(demand, name) for demand in demands], np.float64)[which]
            if name == "gpus" and each_node and place == len(sources) - 1:
                told = told * np.where(np.isnan(found["nodes"]), 1.0, found["nodes"])
            found[name] = np.where(np.isnan(known), told, known)
        named = [codes.setdefault(demand.kinds, len(codes)) for demand in demands]
        kind = np.where(kind == 0, np.array(named, np.int64)[which], kind)
    said = something(sources, len(nodes)) == 1
    found["gpus"] = np.where(np.isnan(found["gpus"]) & said, 0.0, found["gpus"])
    return found, kind, list(codes)


def something(sources: Sequence[Demands], some: int) -> Floats:
    """1 where one of the sources tells a demand, 0 where none does, NaN if there are none, [n]."""
    if not sources:
        return np.full(some, np.nan)
    said = [
        np.array([demand != Demand() for demand in demands], np.float64)[which]
        for which, demands in sources
    ]
    found: Floats = np.max(said, axis=0)
    return found


def no_moments(some: int) -> times.Moments:
    """Moments that are not known."""
    return times.Moments(np.full(some, np.nan), np.full(some, np.nan), np.zeros(some, np.bool_))


def _ids(rows: Lines, name: str) -> list[str | JobId]:
    cells = rows.column(name)
    ids: list[str | JobId] = []
    for row, cell in enumerate(cells):
        if cell.isdigit() and cell.isascii() and len(cell) <= _LONGEST_ID:
            ids.append(cell)
            continue
        found = values.job_id(cell)
        if found is None:
            rows.fail(row, f"{name} is {describe_value(cell)}; accepted: an id such as 1002_1")
        ids.append(found)
    return ids


def _demands(rows: Lines, name: str) -> Demands:
    """The demands in a column; a text that occurs often is looked at once."""
    places: dict[str, int] = {}
    which = [places.setdefault(cell, len(places)) for cell in rows.column(name)]
    demands = []
    for cell, place in places.items():
        found = values.demand(cell)
        if found is None:
            what = describe_value(cell)
            rows.fail(which.index(place), f"{name} is {what}; accepted: resources as gres/gpu=4")
        demands.append(found)
    return np.array(which, np.int64), demands


def _one_of(rows: Lines, *names: str) -> str:
    return next(name for name in names if name in rows.header)


def _texts(rows: Lines, name: str) -> Texts:
    return rows.texts(name) if name in rows.header else np.zeros(len(rows.cells), "U1")


def _moments(rows: Lines, name: str) -> times.Moments:
    """A column of times; 0 stands for one that is not known."""
    if name not in rows.header:
        return no_moments(len(rows.cells))
    found = times.moments(rows, name)
    far = np.abs(found.seconds) > LARGEST
    if np.any(far):
        row = int(np.argmax(far))
        rows.fail(row, f"{name} is {found.seconds[row]:g}; accepted: numbers up to {LARGEST:g}")
    nothing = (found.seconds == 0) & ~found.dated
    return found._replace(seconds=np.where(nothing, np.nan, found.seconds))


def _first_number(rows: Lines, *columns: tuple[str, Callable[[str], float | None]]) -> Floats:
    """The numbers of the first of some columns that knows one, ``[n]``."""
    found = np.full(len(rows.cells), np.nan)
    for name, parse in columns:
        if name not in rows.header:
            continue
        cells = rows.column(name)
        known = {cell: parse(cell) for cell in set(cells)}
        if None in known.values():
            row = next(row for row, cell in enumerate(cells) if known[cell] is None)
            what = describe_value(cells[row])
            rows.fail(row, f"{name} is {what}; accepted: {_ACCEPTED.get(name, 'a number')}")
        told = np.array([known[cell] for cell in cells], np.float64)
        found = np.where(np.isnan(found), told, found)
    return found


_ACCEPTED = {
    "Elapsed": "[days-]hours:minutes:seconds",
    "Timelimit": "[days-]hours:minutes:seconds, UNLIMITED or Partition_Limit",
    "TimelimitRaw": "minutes, UNLIMITED or Partition_Limit",
}
