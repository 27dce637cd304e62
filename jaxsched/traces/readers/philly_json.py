"""Reader for the job log of Microsoft's Philly cluster (2017), ``cluster_job_log`` in JSON.

Source: "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (ATC'19): a
list of objects with ``status``, ``vc``, ``jobid``, ``attempts`` (each with ``start_time``,
``end_time`` and ``detail``, a list of servers with ``ip`` and ``gpus``), ``submitted_time`` and
``user``. The log is decoded record by record, so that memory is bounded by its jobs, not its size.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, NoReturn, TextIO

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.odd_rows import UNSUBMITTED, Counts, count_state, finished
from jaxsched.traces.readers.head import Head
from jaxsched.traces.rows import ABSENT, NOT_KNOWN, STAMP
from jaxsched.traces.text import LONGEST_TEXT, open_text, read_head, too_long
from jaxsched.traces.trace import Trace

NAME = "philly-json"
DESCRIPTION = "Microsoft Philly (2017), job log in JSON with all attempts"

STATUSES = {"Pass": "completed", "Killed": "killed", "Failed": "failed"}

_PIECE = 1 << 20  # letters read at a time
_MAX_RECORD = 1 << 24  # letters after which a record that does not end is given up
_ACCEPTED = "a list of jobs, objects with status, vc, jobid, attempts, submitted_time and user"
_BEGINNING = re.compile(r"\s*\[\s*\{")
_BLANKS = re.compile(r"[ \t\r\n]*")
_ORIGIN = datetime(1970, 1, 1)
_UNKNOWN = math.nan  # one object, so that equal attempts with missing times compare equal

Fail = Callable[[str], NoReturn]
Values = npt.NDArray[Any]


class _Attempt(NamedTuple):
    """One start of a job: times (s), and servers with the names of the GPUs used."""

    start: float
    end: float
    servers: tuple[tuple[str, tuple[str, ...]], ...]


class _Job(NamedTuple):
    submit_time: float
    num_gpus: float
    duration: float
    job_id: str
    user: str
    group: str
    status: str
    start_time: float
    end_time: float
    attempts: float
    num_nodes: float


def matches(head: Head) -> bool:
    """Whether a file begins like a list of jobs with attempts."""
    return bool(_BEGINNING.match(head.text)) and '"attempts"' in head.text


def read(path: PathLike) -> Trace:
    """Read a Philly job log.

    GPUs and servers are those of the first attempt, run times last from the first start to the
    last end; a job whose last attempt has no end was still running. ``group`` is the virtual
    cluster; times are naive local times, zones are dropped.

    Raises:
      JaxschedError: one line with file, record and line.
    """
    read_head(path)
    jobs: list[_Job] = []
    counts: Counts = Counter()
    with open_text(path) as file:
        log = _Log(path, file)
        for record in log.records():
            job = _job(record, counts, log.fail)
            if math.isnan(job.submit_time):
                counts[UNSUBMITTED] += 1
            else:
                jobs.append(job)
    if not jobs:
        raise JaxschedError(f"{path}: has no jobs with a submission time; accepted: {_ACCEPTED}")
    columns: dict[str, Values] = dict(
        zip(_Job._fields, map(np.array, zip(*jobs, strict=True)), strict=True)
    )
    return finished(path, columns, NAME, "local", counts=counts, rows_read=log.number)


class _Log:
    """The records of a JSON list, of which only the unread part of a piece is held."""

    def __init__(self, path: PathLike, file: TextIO) -> None:
        self.number = 0  # of the current record, from 1
        self._path, self._file = path, file
        self._text, self._at, self._first_line = "", 0, 1
        self._record_at = 0

    def records(self) -> Iterator[Any]:
        """The values of the list, one after the other."""
        if self._letter() != "[":
            self.fail(f"begins with {describe_value(self._letter())}; accepted: {_ACCEPTED}")
        self._at += 1
        if self._letter() == "]":
            self._at += 1
        else:
            yield from self._values()
        if self._letter():
            self.fail(
                f"the list is followed by {describe_value(self._letter())}; accepted: no more"
            )

    def fail(self, reason: str) -> NoReturn:
        """Refuse the file because of the current record."""
        line = self._first_line + self._text.count("\n", 0, self._record_at)
        where = f"record {self.number}, line {line}" if self.number else f"line {line}"
        raise JaxschedError(f"{self._path}, {where}: {reason}")

    def _values(self) -> Iterator[Any]:
        while True:
            self.number += 1
            letter = self._letter()
            self._record_at = self._at
            if letter != "{":
                self.fail(f"begins with {describe_value(letter)}; accepted: {_ACCEPTED}")
            yield self._decode()
            letter = self._letter()
            if letter not in (",", "]"):
                found = describe_value(letter) if letter else "the end of the file"
                self.fail(f"is followed by {found}; accepted: ',' or ']'")
            self._at += 1
            if letter == "]":
                return

    def _decode(self) -> Any:
        while True:
            try:
                record, self._at = _DECODER.raw_decode(self._text, self._at)
                return record
            except json.JSONDecodeError as error:
                if len(self._text) - self._at <= _MAX_RECORD and self._more():
                    continue  # the piece may have ended within the record
                self.fail(f"is not JSON ({error.msg}); accepted: {_ACCEPTED}")
            except RecursionError:
                self.fail(f"is nested too deeply; accepted: {_ACCEPTED}")
            except ValueError as error:  # of _object
                self.fail(str(error))

    def _letter(self) -> str:
        """The next letter that is not blank; empty at the end of the file."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, as much as is held, so that a long record is decoded a few times only."""
        piece = self._file.read(max(_PIECE, len(self._text) - self._at))
        self._first_line += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + piece
        self._at = self._record_at = 0
        return bool(piece)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"has {describe_value(name)} twice; accepted: each name once")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float)


def _job(record: dict[str, Any], counts: Counts, fail: Fail) -> _Job:
    every = _list(record.get("attempts"), "attempts", fail)
    attempts = list(dict.fromkeys(_attempt(attempt, fail) for attempt in every))
    if len(attempts) < len(every):
        counts["{} repeated attempts counted once"] += len(every) - len(attempts)
    if len(attempts) > 1:
        attempts = _in_order(attempts)
    start = end = gpus = nodes = _UNKNOWN
    if attempts:
        start = _known(min, [attempt.start for attempt in attempts])
        if not math.isnan(attempts[-1].end):
            end = _known(max, [attempt.end for attempt in attempts])
        servers = attempts[0].servers
        if servers:
            gpus = float(sum(len(names) for _, names in servers))
            nodes = float(len({server for server, _ in servers}))
    if not attempts:
        counts["{} jobs without attempts, their GPUs and run times not known"] += 1
    elif math.isnan(end):
        counts["{} jobs without a last end (still running), their run times not known"] += 1
    elif math.isnan(start):
        counts["{} jobs without a start, their run times not known"] += 1
    return _Job(
        submit_time=_time(record, "submitted_time", fail),
        num_gpus=gpus,
        duration=end - start,
        job_id=_text(record, "jobid", fail),
        user=_text(record, "user", fail),
        group=_text(record, "vc", fail),
        status=_status(record, counts, fail),
        start_time=start,
        end_time=end,
        attempts=float(len(attempts)),
        num_nodes=nodes,
    )


def _attempt(attempt: Any, fail: Fail) -> _Attempt:
    if not isinstance(attempt, dict):
        fail(f"an attempt is {describe_value(attempt)}; accepted: an object")
    servers = tuple(
        _server(server, fail) for server in _list(attempt.get("detail"), "detail", fail)
    )
    return _Attempt(_time(attempt, "start_time", fail), _time(attempt, "end_time", fail), servers)


def _server(server: Any, fail: Fail) -> tuple[str, tuple[str, ...]]:
    if not isinstance(server, dict):
        fail(f"a server of an attempt is {describe_value(server)}; accepted: an object")
    gpus = _list(server.get("gpus"), "gpus", fail)
    for gpu in gpus:
        if not isinstance(gpu, str):
            fail(f"a GPU of an attempt is {describe_value(gpu)}; accepted: its name")
    return _text(server, "ip", fail), tuple(gpus)


def _in_order(attempts: list[_Attempt]) -> list[_Attempt]:
    """Attempts by start, else by end; one without times stays behind the one before it."""
    keys: list[float] = []
    for attempt in attempts:
        key = attempt.end if math.isnan(attempt.start) else attempt.start
        if math.isnan(key):
            key = keys[-1] if keys else -math.inf
        keys.append(key)
    return [attempts[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def _known(choose: Callable[[list[float]], float], times: list[float]) -> float:
    some = [time for time in times if not math.isnan(time)]
    return choose(some) if some else _UNKNOWN


def _list(value: Any, name: str, fail: Fail) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        fail(f"{name} is {describe_value(value)}; accepted: a list")
    return value


def _time(record: dict[str, Any], name: str, fail: Fail) -> float:
    """A time stamp as naive seconds from 1970; NaN where it is missing."""
    stamp = record.get(name)
    if stamp is None:
        return _UNKNOWN
    if isinstance(stamp, str):
        text = stamp.strip()
        match = STAMP.fullmatch(text) if len(text) <= LONGEST_TEXT else None
        if match:
            try:
                since = datetime.fromisoformat(match[1]) - _ORIGIN
                return since.days * 86400.0 + since.seconds
            except ValueError:  # a day or an hour that does not exist
                pass
        elif text.lower() in NOT_KNOWN:
            return _UNKNOWN
    fail(f"{name} is {describe_value(stamp)}; accepted: YYYY-MM-DD HH:MM:SS, None or null")


def _text(record: dict[str, Any], name: str, fail: Fail) -> str:
    text = record.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        fail(f"{name} is {describe_value(text)}; accepted: a text")
    if not text.isascii() and any("\ud800" <= letter < "\ue000" for letter in text):
        fail(f"{name} is {describe_value(text)}, with half of a character; accepted: a text")
    if len(text) > LONGEST_TEXT:
        fail(f"{name} is {describe_value(text)}; {too_long(text)}")
    return text


def _status(record: dict[str, Any], counts: Counts, fail: Fail) -> str:
    status = _text(record, "status", fail)
    if status.strip().lower() in ABSENT:
        return ""
    if status not in STATUSES:
        count_state(counts, status)
    return STATUSES.get(status, "")
