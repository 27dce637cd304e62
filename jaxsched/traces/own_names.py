"""What the columns of a table of one's own are called: as a trace has them, as given, or guessed.

A column that is called as a trace calls it is that column. Others are named with ``columns``,
*name in the file*=*name in a trace*, or told by names that logs usually have; letters' size, blanks
and signs do not matter, and a unit at the end (``run_ms``, ``elapsed (h)``) counts. What is guessed
is said, and so is what nobody needs.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.times import UNITS, unit_of
from jaxsched.traces.trace import TRACE_COLUMNS

WAIT = "wait_time"
"""Time from submission to start, which a table may have instead of the start."""

OURS = (*(column.name for column in TRACE_COLUMNS), WAIT)
NEEDED = "submit_time, num_gpus and duration (or start_time and end_time)"

USUAL = {
    "submit_time": "submit submitted submission submit_ts submit_at submitted_at submission_time "
    "submission_ts submit_date submit_timestamp submitted_time arrival arrival_time arrival_ts "
    "arrived arrived_at created created_at create_time created_time creation_time "
    "creation_timestamp queued_at enqueued_at enqueue_time qtime timestamp ts time date",
    "num_gpus": "gpus gpu gpu_num num_gpu n_gpus n_gpu gpu_count gpus_count number_of_gpus "
    "req_gpus requested_gpus gpus_requested gpu_req alloc_gpus gpus_alloc allocated_gpus "
    "gpus_allocated gpu_demand ngpus_requested",
    "duration": "run_time elapsed elapsed_raw elapsed_time job_runtime job_duration "
    "run_secs run_seconds run exec_time execution_time walltime_used used_walltime "
    "wall_time",
    "start_time": "start started start_ts start_at started_at start_date start_timestamp begin "
    "begin_time begin_at launch_time launched_at scheduled_at run_start",
    "end_time": "end ended end_ts end_at ended_at end_date end_timestamp finish finished "
    "finish_time finished_at stop stop_time stopped_at completed_at terminated_at run_end",
    WAIT: "wait waiting waiting_time queue_wait wait_duration queue_delay queueing_delay "
    "queuing_delay planned",
    "job_id": "id job jobid job_name name",
    "user": "user_id user_name uid owner",
    "group": "vc virtual_cluster group_name queue queue_name partition account project tenant team "
    "organization namespace",
    "status": "state job_state job_status final_state",
    "attempts": "num_attempts",
    "num_instances": "instances inst_num num_inst n_instances workers num_workers worker_num "
    "replicas num_replicas",
    "num_nodes": "nodes n_nodes num_node node_num node_count alloc_nodes servers num_servers",
    "cpus": "cpu cpu_num num_cpu num_cpus n_cpus cpu_count cores num_cores n_cores req_cpus "
    "alloc_cpus",
    "memory_gb": "mem_gb ram_gb memory_in_gb",
    "gpu_type": "gpu_model gpu_kind gpu_name",
    "model": "model_name",
    "batch_size": "",
    "iterations": "num_iterations num_iteration iters num_iters total_steps num_steps steps",
    "deadline": "",
    "slo_class": "",
    "priority": "prio",
    "requested_time": "req_time time_limit walltime_limit requested_walltime requested_runtime "
    "estimated_runtime estimate",
}
"""Names that logs have, those that are taken first in front."""

_SIGNS = re.compile(r"[^0-9a-z]")
_UNIT = re.compile(r"(.*[^A-Za-z0-9])([A-Za-z]{1,12})[^A-Za-z0-9]{0,2}", re.DOTALL)
_LONGEST_NAME = 80  # letters; longer ones have no usual meaning
_TIMES = {column.name for column in TRACE_COLUMNS if column.unit == "s"} | {WAIT}
_SHOWN = 8

Given = Mapping[str, tuple[str, float | None]]
"""Our name -> the file's, and the seconds of its unit where that is said."""


class Plan(NamedTuple):
    """Which column of a file is which.

    Attributes:
      cells: our name -> the file's.
      units_s: our name -> seconds of the unit of its numbers, where its name says it.
      asked: our names that were given, so that nothing else will do.
      notes: what was guessed and what is left out, one sentence each.
    """

    cells: dict[str, str]
    units_s: dict[str, float]
    asked: frozenset[str]
    notes: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        """Whether a trace can be made of these columns."""
        runs = "duration" in self.cells or {"start_time", "end_time"} <= set(self.cells)
        return runs and {"submit_time", "num_gpus"} <= set(self.cells)

    def without(self, names: Collection[str]) -> "Plan":
        """The plan without some of our names."""
        cells = {ours: theirs for ours, theirs in self.cells.items() if ours not in names}
        return self._replace(cells=cells)


def read_given(columns: str | Mapping[str, str] | None) -> Given:
    """What the argument ``columns`` says.

    Args:
      columns: ``NAME=submit_time,OTHER=num_gpus`` or such a mapping, from names in the file to
        names in a trace; a unit may follow these (``NAME=duration:ms``). None: nothing.

    Raises:
      JaxschedError: another text, an unknown name or unit, or a name twice.
    """
    given: dict[str, tuple[str, float | None]] = {}
    for theirs, right in _pairs(columns):
        ours, colon, unit = right.partition(":")
        seconds = unit_of(unit.strip()) if colon else None
        if ours not in OURS:
            meant = f"; did you mean {ours}={theirs}?" if theirs in OURS else ""
            raise JaxschedError(
                f"{argument('columns')}: {describe_value(ours)} is no column of a trace{meant}; "
                f"accepted: NAME IN THE FILE=ONE OF {', '.join(OURS)}"
            )
        if colon and (seconds is None or ours not in _TIMES):
            units = ", ".join(names[0] for names in UNITS.values())
            raise JaxschedError(
                f"{argument('columns')}: the unit of {describe_value(right)} is not known; "
                f"accepted: {units} of times"
            )
        if ours in given:
            raise JaxschedError(f"{argument('columns')}: {ours} is given twice; accepted: once")
        given[ours] = theirs, seconds
    return given


def plan(path: PathLike, header: tuple[str, ...], given: Given) -> Plan:
    """Which column of a file is which.

    Args:
      path: of the file, for messages.
      header: its columns.
      given: those that are named.

    Raises:
      JaxschedError: a given name is not in the file.
    """
    cells: dict[str, str] = {}
    units: dict[str, float] = {}
    for ours, (theirs, unit) in given.items():
        if theirs not in header:
            raise JaxschedError(
                f"{path}: has no column {describe_value(theirs)} ({argument('columns')}); it has "
                f"{listed(header)}"
            )
        cells[ours] = theirs
        if unit is None and ours in _TIMES:
            unit = _base_and_unit(theirs)[1]
        if unit is not None:
            units[ours] = unit
    known = set(cells.values())
    cells |= {ours: ours for ours in OURS if ours in header and ours not in {*cells, *known}}
    guessed = _guess(header, cells)
    for ours, (theirs, unit) in guessed.items():
        cells[ours] = theirs
        if unit is not None:
            units[ours] = unit
    notes = []
    if guessed:
        pairs = ", ".join(f"{describe_value(cells[ours])} as {ours}" for ours in guessed)
        notes.append(f"read by their usual names, which {argument('columns')} can change: {pairs}")
    said = [f"{ours} in {UNITS[unit][-1]}" for ours, unit in units.items() if unit != 1.0]
    if said:
        notes.append(f"units as said: {', '.join(said)}")
    used = set(cells.values())
    others = [name for name in header if name not in used]
    twice = sorted({name for name in used if header.count(name) > 1})
    if others:
        notes.append(f"columns left out, which a trace does not have: {listed(others)}")
    if twice:
        notes.append(f"columns that are there twice, the first is taken: {listed(twice)}")
    return Plan(cells, units, frozenset(given), tuple(notes))


def lacking(found: Plan) -> str:
    """What the columns of a file lack, for messages that refuse it."""
    missing = [name for name in ("submit_time", "num_gpus") if name not in found.cells]
    if not {"duration"} <= set(found.cells) and not {"start_time", "end_time"} <= set(found.cells):
        missing.append("duration")
    return (
        f"no column is known for {', '.join(missing)}; three are enough: {NEEDED}, called so or "
        f"named with {argument('columns')}, such as {argument('columns')} NAME={missing[0]}"
    )


def _pairs(columns: str | Mapping[str, str] | None) -> list[tuple[str, str]]:
    if columns is None:
        return []
    if isinstance(columns, Mapping):
        return [(str(theirs).strip(), str(ours).strip()) for theirs, ours in columns.items()]
    pairs = []
    for word in str(columns).split(","):
        theirs, sign, ours = word.rpartition("=")
        if not sign:
            raise JaxschedError(
                f"{argument('columns')} is {describe_value(columns, 80)}; accepted: "
                "NAME=submit_time,OTHER=num_gpus,..., names in the file before the '='"
            )
        pairs.append((theirs.strip(), ours.strip()))
    return pairs


def _guess(
    header: tuple[str, ...], cells: Mapping[str, str]
) -> dict[str, tuple[str, float | None]]:
    """Columns of which the usual names say what they are, and their units."""
    by_name: dict[str, tuple[str, float | None]] = {}
    for name in header:
        if name in cells.values() or not name or len(name) > _LONGEST_NAME:
            continue
        base, unit = _base_and_unit(name)
        by_name.setdefault(_squeezed(name), (name, None))
        by_name.setdefault(_squeezed(base), (name, unit))
    found: dict[str, tuple[str, float | None]] = {}
    taken = set(cells.values())
    for ours, usual in USUAL.items():
        if ours in cells:
            continue
        for word in (ours, *usual.split()):
            theirs, unit = by_name.get(_squeezed(word), ("", None))
            if theirs and theirs not in taken and (unit is None or ours in _TIMES):
                found[ours] = theirs, unit
                taken.add(theirs)
                break
    return found


def _squeezed(name: str) -> str:
    return _SIGNS.sub("", name.lower())


def _base_and_unit(name: str) -> tuple[str, float | None]:
    """A name without the unit at its end, and the seconds of that unit."""
    match = _UNIT.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    unit = unit_of(match[2]) if match else None
    return (match[1], unit) if match and unit is not None else (name, None)


def listed(names: Iterable[str]) -> str:
    """Names of columns for messages, the first ones of many."""
    words = [describe_value(name) if name else "one without a name" for name in names]
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
