"""The records of ``sacct --json``, as Slurm's data parsers of versions 21.08 to 24.11 write them.

An object with a list ``jobs``; of each job its id (``array``, ``het``), ``time``, ``tres``,
``state``, ``user``, ``account`` and ``partition`` are read, steps are passed over. Numbers are
plain, or objects of ``set``, ``infinite`` and ``number``; 0 stands for a time that is not known.
The parsers of 21.08 write the time from which a job may run as its start.
"""

import math
from typing import Any

import numpy as np

from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces import times
from jaxsched.traces.odd_rows import Counts
from jaxsched.traces.readers.fields import NAN
from jaxsched.traces.readers.head import Head
from jaxsched.traces.readers.json_records import Fail, JsonRecords, mapping, text_of
from jaxsched.traces.readers.sacct import values
from jaxsched.traces.readers.sacct.records import (
    MOMENTS,
    Demands,
    Records,
    resources,
    something,
    split_ids,
    statuses,
)
from jaxsched.traces.readers.sacct.values import Demand, JobId
from jaxsched.traces.text import LONGEST_TEXT, open_text, read_head
from jaxsched.traces.trace import LARGEST

ACCEPTED = "an object with a list 'jobs', as 'sacct --json' writes it"

_LONGEST_RECORD = 1 << 26  # letters; a job has all its steps
_NO_NUMBERS = (-2.0, -1.0, values.NO_NUMBER, values.NO_NUMBER + 1.0)  # none, or no limit


def matches(head: Head) -> bool:
    """Whether a file begins like such an object."""
    return head.text.lstrip().startswith("{") and '"jobs"' in head.text and '"job_id"' in head.text


def read_records(path: PathLike, counts: Counts) -> Records:
    """The records of a file.

    Raises:
      JaxschedError: one line with record and line.
    """
    read_head(path)
    rows: list[dict[str, Any]] = []
    with open_text(path) as file:
        log = JsonRecords(path, file, ACCEPTED, key="jobs", longest=_LONGEST_RECORD)
        for record in log:
            rows.append(_row(record, counts, log.fail))
        if not rows:
            log.fail(f"has no jobs; accepted: {ACCEPTED}")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    del rows
    allocated, requested = (_coded(columns[name]) for name in ("allocated", "requested"))
    nodes = np.array(columns["nodes"], np.float64)
    numbers, kind, kinds = resources((allocated, requested), nodes)
    for name in ("elapsed", "limit", "restarts"):
        numbers[name] = np.array(columns[name], np.float64)
    jobs, components, tasks = split_ids(columns["ids"])
    return Records(
        jobs=jobs,
        components=components,
        tasks=tasks,
        clusters=np.array(columns["clusters"], np.str_),
        users=np.array(columns["users"], np.str_),
        groups=np.array(columns["groups"], np.str_),
        statuses=statuses(columns["states"], counts),
        kind=kind,
        kinds=kinds,
        moments={name: _moments(columns[name]) for name in MOMENTS},
        numbers=numbers,
        allocated=something((allocated,), len(jobs)),
    )


def _coded(demands: list[Demand]) -> Demands:
    places: dict[Demand, int] = {}
    which = [places.setdefault(demand, len(places)) for demand in demands]
    return np.array(which, np.int64), list(places)


def _moments(seconds: list[float]) -> times.Moments:
    found = np.array(seconds, np.float64)
    return times.Moments(found, np.full(len(found), np.nan), np.zeros(len(found), np.bool_))


def _row(record: dict[str, Any], counts: Counts, fail: Fail) -> dict[str, Any]:
    time = mapping(record, "time", fail)
    tres = mapping(record, "tres", fail)
    if not time or "submission" not in time:
        fail(f"has no time of submission; accepted: {ACCEPTED}")
    submit, eligible, start, end = (
        _number(time.get(name), f"time.{name}", fail) or NAN
        for name in ("submission", "eligible", "start", "end")
    )
    elapsed = _number(time.get("elapsed"), "time.elapsed", fail)
    suspended = _number(time.get("suspended"), "time.suspended", fail)
    ran = elapsed + (0.0 if math.isnan(suspended) else suspended)
    if start == eligible and elapsed > 0 and abs(end - start - ran) >= 1:
        start = end - ran
        counts["{} starts that are the time from which a job might run, taken from run times"] += 1
    return {
        "ids": _id(record, fail),
        "clusters": text_of(record, "cluster", fail),
        "users": text_of(record, "user", fail),
        "groups": next(
            filter(None, (text_of(record, name, fail) for name in ("partition", "qos", "account"))),
            "",
        ),
        "states": _state(record, fail),
        times.SUBMIT: submit,
        times.START: start,
        times.END: end,
        "elapsed": elapsed,
        "limit": 60 * _number(time.get("limit"), "time.limit", fail),
        "restarts": _number(record.get("restart_cnt"), "restart_cnt", fail),
        "nodes": _number(record.get("allocation_nodes"), "allocation_nodes", fail),
        "allocated": _demand(tres.get("allocated"), "tres.allocated", fail),
        "requested": _demand(tres.get("requested"), "tres.requested", fail),
    }


def _id(record: dict[str, Any], fail: Fail) -> JobId:
    array, het = mapping(record, "array", fail), mapping(record, "het", fail)
    array_job = _number(array.get("job_id"), "array.job_id", fail)
    task = _number(array.get("task_id"), "array.task_id", fail)
    tasks = array.get("task") or ""
    if array_job > 0 and not math.isnan(task):
        return JobId(f"{array_job:.0f}_{task:.0f}")
    if array_job > 0 and tasks:
        if not isinstance(tasks, str):
            fail(f"array.task is {describe_value(tasks)}; accepted: tasks such as 2-9")
        return JobId(f"{array_job:.0f}", tasks=tasks.strip("[] "))
    het_job = _number(het.get("job_id"), "het.job_id", fail)
    offset = _number(het.get("job_offset"), "het.job_offset", fail)
    if het_job > 0:
        return JobId(f"{het_job:.0f}", 0 if math.isnan(offset) else int(offset))
    job = _number(record.get("job_id"), "job_id", fail)
    if math.isnan(job):
        fail(f"has no job_id; accepted: {ACCEPTED}")
    return JobId(f"{job:.0f}")


def _state(record: dict[str, Any], fail: Fail) -> str:
    """The state, of a list the first that says how a job stands."""
    state: Any = record.get("state")
    if isinstance(state, dict):
        state = state.get("current")
    states = state if isinstance(state, list) else [state or ""]
    if not all(isinstance(name, str) for name in states):
        fail(f"state.current is {describe_value(state)}; accepted: a state or a list of them")
    known = [name for name in states if values.status(name)]
    return str((known or states or [""])[0])[:LONGEST_TEXT]


def _demand(entries: Any, name: str, fail: Fail) -> Demand:
    """Resources of a list of objects with ``type``, ``name`` and ``count``."""
    if entries is None:
        return Demand()
    if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
        items = []
        for entry in entries:
            kind = f"{entry.get('type')}/{entry.get('name') or ''}".rstrip("/")
            amount = _number(entry.get("count"), name, fail)
            if not math.isnan(amount):
                items.append(f"{kind}={amount:.0f}")
        found = values.demand(",".join(items))
        if found is not None:
            return found
    elif isinstance(entries, str):
        found = values.demand(entries)
        if found is not None:
            return found
    fail(f"{name} is {describe_value(entries)}; accepted: a list of type, name and count")


def _number(value: Any, name: str, fail: Fail) -> float:
    """A number, plain or as an object that says whether it is set; NaN: there is none."""
    given = value
    if isinstance(value, dict):
        is_number = value.get("set", True) is True and not value.get("infinite")
        value = value.get("number") if is_number else None
    if isinstance(value, str):
        text = value.strip()
        value = None if text.lower() in values.ABSENT else values.count(text)
        if value is None and text.lower() not in values.ABSENT:
            fail(f"{name} is {describe_value(given)}; accepted: a number from 0 on")
    if value is None:
        return NAN
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(f"{name} is {describe_value(given)}; accepted: a number from 0 on")
    if math.isnan(value) or value in _NO_NUMBERS or value > 2.0**62:
        return NAN
    if not 0 <= value <= LARGEST:
        fail(f"{name} is {describe_value(given)}; accepted: a number from 0 to {LARGEST:g}")
    return float(value)
