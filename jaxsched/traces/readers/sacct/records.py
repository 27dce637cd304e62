"""Records of jobs as columns: what one line or one JSON object says, before they are joined.

A requeued job has several records, a heterogeneous one a record for each component, and one record
may stand for several tasks of an array. Axis: ``n`` records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.columns import describe_value
from jaxsched.traces import times
from jaxsched.traces.odd_rows import Counts, count_state
from jaxsched.traces.readers.sacct import values
from jaxsched.traces.readers.sacct.lines import RESOURCES, Lines
from jaxsched.traces.readers.sacct.values import Demand, JobId

Floats = npt.NDArray[np.float64]
Value = TypeVar("Value")

MOMENTS = (times.SUBMIT, times.START, times.END)

_EACH_NODE = "ReqGRES"  # asks for so many of each node
_ALLOCATED = ("AllocTRES", "AllocGRES")


@dataclass(frozen=True, eq=False)
class Records:
    """Records of jobs.

    Attributes:
      ids: of the jobs.
      clusters, users, groups: texts, empty where the source does not say.
      kinds: of GPUs, those that are named.
      statuses: as traces call them.
      moments: ``MOMENTS`` as they are written, ``[n]`` each.
      numbers: ``elapsed``, ``limit`` (s), ``restarts``, ``gpus``, ``cpus``, ``memory_gb`` and
        ``nodes``, ``[n]`` each; NaN: not known.
      allocated: 1 where something was allocated, 0 where not, NaN where nothing is said, ``[n]``.
    """

    ids: list[JobId]
    clusters: list[str]
    users: list[str]
    groups: list[str]
    kinds: list[tuple[str, ...]]
    statuses: list[str]
    moments: dict[str, times.Moments]
    numbers: dict[str, Floats]
    allocated: Floats

    def __len__(self) -> int:
        """Number of records."""
        return len(self.ids)


def joined(parts: Sequence[Records]) -> Records:
    """Records of consecutive batches as one."""

    def whole(name: str) -> list[Any]:
        return [value for part in parts for value in getattr(part, name)]

    return Records(
        ids=whole("ids"),
        clusters=whole("clusters"),
        users=whole("users"),
        groups=whole("groups"),
        kinds=whole("kinds"),
        statuses=whole("statuses"),
        moments={name: times.joined([part.moments[name] for part in parts]) for name in MOMENTS},
        numbers={
            name: np.concatenate([part.numbers[name] for part in parts])
            for name in parts[0].numbers
        },
        allocated=np.concatenate([part.allocated for part in parts]),
    )


def of_lines(rows: Lines, group: str) -> Records:
    """The records of a batch of lines.

    Args:
      rows: the lines.
      group: the column that gives the group of a job, empty if there is none.

    Raises:
      JaxschedError: a value that is not of its kind; one line with file and line.
    """

    def texts(name: str) -> list[str]:
        if name not in rows.header:
            return [""] * len(rows.cells)
        found: list[str] = rows.texts(name).tolist()
        return found

    asked = {
        name: _each(rows, name, values.demand, "resources such as gres/gpu=4")
        for name in RESOURCES
        if name in rows.header
    }
    nodes = _first_number(rows, ("NNodes", values.count), ("AllocNodes", values.count))
    numbers, kinds = resources(list(asked.values()), nodes, each_node=_EACH_NODE in asked)
    cpus = _first_number(rows, ("AllocCPUS", values.count), ("NCPUS", values.count))
    numbers["cpus"] = np.where(cpus > 0, cpus, numbers["cpus"])
    numbers["elapsed"] = _first_number(rows, ("ElapsedRaw", values.count), ("Elapsed", values.span))
    numbers["limit"] = _first_number(
        rows, ("TimelimitRaw", values.time_limit), ("Timelimit", values.time_limit)
    )
    numbers["restarts"] = _first_number(rows, ("Restarts", values.count))
    return Records(
        _each(rows, _one_of(rows, "JobID", "JobIDRaw"), values.job_id, "an id such as 1002_1"),
        texts("Cluster"),
        texts("User"),
        texts(group),
        kinds,
        statuses(rows.column("State") if "State" in rows.header else texts("State"), rows.counts),
        {
            times.SUBMIT: times.moments(rows, _one_of(rows, "Submit", "Eligible")),
            times.START: _moments(rows, "Start"),
            times.END: _moments(rows, "End"),
        },
        numbers,
        _allocated([asked[name] for name in _ALLOCATED if name in asked], len(rows.cells)),
    )


def statuses(states: Iterable[str], counts: Counts) -> list[str]:
    """What traces call Slurm's states; those that are not known are counted, and empty."""
    found = list(states)
    names: dict[str, str] = {}
    for state, number in Counter(found).items():
        called = values.status(state)
        if called is None:
            count_state(counts, state, number)
        names[state] = called or ""
    return [names[state] for state in found]


def resources(
    sources: Sequence[Sequence[Demand]], nodes: Floats, *, each_node: bool = False
) -> tuple[dict[str, Floats], list[tuple[str, ...]]]:
    """What jobs had, of several sources that tell it; the first that mentions GPUs counts.

    Args:
      sources: of each job, the best source first.
      nodes: of each job, where something else tells them, ``[n]``; NaN: not known.
      each_node: whether the last source is about each node of a job.

    Returns:
      ``gpus``, ``cpus``, ``memory_gb`` and ``nodes`` -> values, ``[n]``, and the kinds of GPUs.
      GPUs are 0 where some source tells resources and none of them GPUs, NaN where none tells any.
    """
    found = {name: np.full(len(nodes), np.nan) for name in ("gpus", "cpus", "memory_gb", "nodes")}
    found["nodes"] = np.where(nodes > 0, nodes, np.nan)
    kinds: list[tuple[str, ...]] = [()] * len(nodes)
    said = np.zeros(len(nodes), np.bool_)
    for place, source in enumerate(sources):
        for name, values_found in found.items():
            told = np.array([getattr(demand, name) for demand in source], np.float64)
            if name != "gpus":
                said |= ~np.isnan(told)
            elif each_node and place == len(sources) - 1:
                told = told * np.where(np.isnan(found["nodes"]), 1.0, found["nodes"])
            found[name] = np.where(np.isnan(values_found), told, values_found)
        kinds = [kind or demand.kinds for kind, demand in zip(kinds, source, strict=True)]
    found["gpus"] = np.where(np.isnan(found["gpus"]) & said, 0.0, found["gpus"])
    return found, kinds


def _allocated(sources: Sequence[Sequence[Demand]], some: int) -> Floats:
    if not sources:
        return np.full(some, np.nan)
    said = [[demand != Demand() for demand in source] for source in sources]
    return np.array(said).max(axis=0).astype(np.float64)


def _one_of(rows: Lines, *names: str) -> str:
    return next(name for name in names if name in rows.header)


def _moments(rows: Lines, name: str) -> times.Moments:
    return times.moments(rows, name) if name in rows.header else no_moments(len(rows.cells))


def no_moments(some: int) -> times.Moments:
    """Moments that are not known."""
    return times.Moments(np.full(some, np.nan), np.full(some, np.nan), np.zeros(some, np.bool_))


def _first_number(rows: Lines, *columns: tuple[str, Callable[[str], float | None]]) -> Floats:
    """The numbers of the first of some columns that knows one."""
    found = np.full(len(rows.cells), np.nan)
    for name, parse in columns:
        if name in rows.header:
            told = np.array(_each(rows, name, parse, _ACCEPTED.get(name, "a number")), np.float64)
            found = np.where(np.isnan(found), told, found)
    return found


_ACCEPTED = {
    "Elapsed": "[days-]hours:minutes:seconds",
    "Timelimit": "[days-]hours:minutes:seconds, UNLIMITED or Partition_Limit",
    "TimelimitRaw": "minutes, UNLIMITED or Partition_Limit",
}


def _each(
    rows: Lines, name: str, parse: Callable[[str], Value | None], accepted: str
) -> list[Value]:
    """What the cells of a column mean; a text that occurs often is looked at once."""
    cells = rows.column(name)
    known = {cell: parse(cell) for cell in set(cells)}
    found = [known[cell] for cell in cells]
    for row, value in enumerate(found):
        if value is None:
            rows.fail(row, f"{name} is {describe_value(cells[row])}; accepted: {accepted}")
    return found  # type: ignore[return-value]
