"""Servers that fail, are drained or reserved: logs, draws at a rate, and as arrays.

Axes: ``F`` outages, ``R`` of them reservations, ``S`` servers.
"""

import csv
import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.columns import describe_value, to_column
from jaxsched.jobs.draws import generator
from jaxsched.options import Bounds, check
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.types import Array

NEVER = 2**31 - 1
MOST_OUTAGES = 2**18
MOST_CUTS = 2**22  # runs that failures could cut: of a server at most one for each GPU, or slot
LARGEST_FILE = 2**24
COLUMNS = ("server", "begin", "end", "what")
WHAT = ("fail", "drain")
RESERVED_COLUMNS = ("servers", "begin", "end")
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?):(\d{1,9}(?:\.\d{1,6})?)", re.ASCII)
_BRANCH = 7
_LATEST = 2**30
_TIMES = f"whole seconds for begin and a later end, at most {_LATEST}"


@dataclass(frozen=True, eq=False)
class Outages:
    """When servers are away, and what a failure costs the jobs on them.

    A server that **fails** stops all jobs that have a GPU there. They wait again and go on,
    anywhere, from their last checkpoint: a run makes one every ``checkpoint_s`` seconds. A server
    that is **drained** takes no new jobs; those that run there run on. Until the end of the outage
    nothing starts there. At an instant completions come before outages, and these before starts.

    A **reserved** server is away as one that fails or is drained, and this is known beforehand: no
    job starts there whose run time, as the policy knows it, reaches into the reservation. So only
    those are stopped that outrun their estimates.

    Attributes:
      server: number of the server, ``[F]``.
      begin: seconds, on the clock of the submissions, ``[F]``.
      end: likewise, later than ``begin``.
      drains: whether the server is drained, not failed, ``[F]``, 0 or 1.
      checkpoint_s: seconds of a run between checkpoints; 0: a failure loses the whole run.
      restart_s: seconds of work that a failure adds.
      reserved: whether it is known beforehand, ``[F]``, 0 or 1; empty: 0 for all.

    Raises:
      JaxschedError: columns of different lengths, numbers out of range, or too many outages.
    """

    server: Integers
    begin: Integers
    end: Integers
    drains: Integers
    checkpoint_s: Annotated[int, Bounds(0, 2**30)] = 0
    restart_s: Annotated[int, Bounds(0, 2**23)] = 0
    reserved: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Copy the columns, in order of their beginning, and refuse what cannot be."""
        check(self, "outages: ")
        columns = {
            name: to_column(getattr(self, name), name, "outages", "whole")
            for name in ("server", "begin", "end", "drains", "reserved")
        }
        if not len(columns["reserved"]):
            columns["reserved"] = np.zeros(len(columns["begin"]), np.int64)
        if len({len(column) for column in columns.values()}) > 1:
            raise JaxschedError("outages: columns have different lengths; accepted: equal ones")
        if len(columns["begin"]) > MOST_OUTAGES:
            raise JaxschedError(
                f"outages: {len(columns['begin'])} of them; accepted: up to {MOST_OUTAGES}"
            )
        begin, end = columns["begin"], columns["end"]
        wrong = (columns["server"] < 0) | (begin < 0) | (end <= begin) | (end > _LATEST)
        for name in ("drains", "reserved"):
            wrong |= (columns[name] != 0) & (columns[name] != 1)
        if wrong.any():
            first = int(np.argmax(wrong))
            row = {name: int(column[first]) for name, column in columns.items()}
            raise JaxschedError(
                f"outages: row {first} is {row}; accepted: a server from 0 on, 0 <= begin < end <= "
                f"{_LATEST} (s), and 0 or 1 for drains and reserved"
            )
        order = np.lexsort((columns["server"], begin))
        for name, column in columns.items():
            sorted_ = column[order]
            sorted_.setflags(write=False)
            object.__setattr__(self, name, sorted_)

    def __len__(self) -> int:
        """Number of outages."""
        return len(self.begin)

    def joined(self, other: "Outages") -> "Outages":
        """These and others, of which failures cost what these do."""
        names = ("server", "begin", "end", "drains", "reserved")
        both: dict[str, Any] = {
            name: np.append(getattr(self, name), getattr(other, name)) for name in names
        }
        return replace(self, **both)

    def digest(self) -> str:
        """SHA-256 (hex) of all values."""
        columns = [self.server, self.begin, self.end, self.drains]
        columns += [self.reserved] if self.reserved.any() else []
        values = np.append(np.concatenate(columns), [self.checkpoint_s, self.restart_s])
        return hashlib.sha256(b"jaxsched outages 1\n" + values.astype("<i8").tobytes()).hexdigest()


class Windows(NamedTuple):
    """Reservations as a replay sees them, int32 ``[R]``; padding never comes.

    Attributes:
      server: which one.
      begin: seconds.
      end: seconds.
    """

    server: Array
    begin: Array
    end: Array


class Events(NamedTuple):
    """Outages as a replay sees them, int32 ``[F + 1]``; padding never comes.

    Attributes:
      begin: seconds.
      server: which one.
      until: seconds, when it is back.
      fails: bool, whether jobs on it are stopped.
      checkpoint_s: scalar; 0: none are made.
      restart_s: scalar.
      windows: the reservations among them; None where no table of a batch has any.
    """

    begin: Array
    server: Array
    until: Array
    fails: Array
    checkpoint_s: Array
    restart_s: Array
    windows: Windows | None = None


def as_events(outages: Outages, cluster: Cluster, length: int, num_windows: int) -> Events:
    """Outages as arrays, padded.

    Args:
      outages: which.
      cluster: the cluster.
      length: pad to so many.
      num_windows: pad reservations to so many; 0: there are none.

    Raises:
      JaxschedError: a server that the cluster has not, or too many of too large ones.
    """
    highest = int(outages.server.max(initial=0))
    if highest >= cluster.num_servers:
        raise JaxschedError(
            f"failures or reservations: server {highest} of {cluster.num_servers}; accepted: from "
            f"0 to {cluster.num_servers - 1}"
        )
    places = cluster.gpus_per_server * cluster.slots
    if length * places > MOST_CUTS:
        raise JaxschedError(
            f"outages: {length} of servers of {places} GPUs or slots; accepted: up to {MOST_CUTS} "
            "of the product"
        )

    def number(value: int) -> Any:
        return np.int32(value)

    own, most = outages.reserved == 1, length + 1
    windows = Windows(
        _padded(outages.server[own], 0, num_windows),
        _padded(outages.begin[own], NEVER, num_windows),
        _padded(outages.end[own], 0, num_windows),
    )
    return Events(
        _padded(outages.begin, NEVER, most),
        _padded(outages.server, 0, most),
        _padded(outages.end, NEVER, most),
        _padded(1 - outages.drains, 0, most) == 1,
        number(outages.checkpoint_s),
        number(outages.restart_s),
        windows if num_windows else None,
    )


def _padded(column: Integers, filler: int, length: int) -> Any:
    more = (0, length - len(column))
    return np.pad(column, more, constant_values=filler).astype(np.int32)


def read_outages(path: PathLike, *, checkpoint_s: int = 0, restart_s: int = 0) -> Outages:
    """A log of outages: comma-separated ``server,begin,end,what``, the last ``fail`` or ``drain``.

    Raises:
      JaxschedError: one line with the line of the file and what is accepted.
    """
    rows = []
    for number, words in _lines(path, "failures", COLUMNS, "HOURS:HOURS, or "):
        if len(words) != 4 or not _are_numbers(*words[:3]) or words[3] not in WHAT:
            raise JaxschedError(
                f"{path}, line {number}: is {describe_value(','.join(words))}; accepted: a server, "
                f"{_TIMES}, and {' or '.join(WHAT)}"
            )
        rows.append([*map(int, words[:3]), WHAT.index(words[3])])
    server, begin, end, drains = np.array(rows, np.int64).reshape(-1, 4).T
    return Outages(server, begin, end, drains, checkpoint_s, restart_s)


def read_reservations(path: PathLike, *, checkpoint_s: int = 0, restart_s: int = 0) -> Outages:
    """A list of reservations: comma-separated ``servers,begin,end``, servers such as 3 or 0-15.

    Jobs that outrun their estimates are stopped as by a failure.

    Raises:
      JaxschedError: one line with the line of the file and what is accepted.
    """
    rows: list[tuple[int, int, int]] = []
    for number, words in _lines(path, "reservations", RESERVED_COLUMNS):
        servers = _RANGE.fullmatch(words[0])
        if servers is None or len(words) != 3 or not _are_numbers(servers[1], *words[1:]):
            raise JaxschedError(
                f"{path}, line {number}: is {describe_value(','.join(words))}; accepted: servers "
                f"such as 3 or 0-15, and {_TIMES}"
            )
        first, last = int(servers[1]), int(servers[2] or servers[1])
        if last < first or len(rows) + last - first >= MOST_OUTAGES:
            raise JaxschedError(
                f"{path}, line {number}: has servers {words[0]}; accepted: the lower one first, "
                f"and up to {MOST_OUTAGES} servers of all lines"
            )
        rows += [(server, int(words[1]), int(words[2])) for server in range(first, last + 1)]
    server, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
    fails, known = np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64)
    return Outages(server, begin, end, fails, checkpoint_s, restart_s, known)


def _lines(
    path: PathLike, option: str, columns: tuple[str, ...], otherwise: str = ""
) -> list[tuple[int, list[str]]]:
    """The words of each line below the header, with its number; none of empty lines."""
    names = ",".join(columns)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(LARGEST_FILE + 1)
        lines = list(csv.reader(text.splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise JaxschedError(
            f"{argument(option)} is {describe_value(str(path))}, which cannot be read "
            f"({getattr(error, 'strerror', None) or error}); accepted: {otherwise}a file of {names}"
        ) from None
    if len(text) > LARGEST_FILE or len(lines) > MOST_OUTAGES:
        raise JaxschedError(f"{path}: is too large; accepted: up to {MOST_OUTAGES} outages")
    header = ",".join(cell.strip().lower() for cell in lines[0]) if lines else ""
    if header != names:
        raise JaxschedError(f"{path}, line 1: is {describe_value(header)}; accepted: {names}")
    return [
        (number, [cell.strip() for cell in cells])
        for number, cells in enumerate(lines[1:], 2)
        if cells
    ]


def _are_numbers(server: str, begin: str, end: str) -> bool:
    """Whether these words are a server, a time, and a later one that a replay can tell."""
    words = (server, begin, end)
    whole = all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words)
    return whole and int(begin) < int(end) <= _LATEST


def draw_outages(
    cluster: Cluster,
    horizon_s: int,
    *,
    between_s: float,
    repair_s: float,
    seed: int = 0,
    checkpoint_s: int = 0,
    restart_s: int = 0,
) -> Outages:
    """Failures at a rate: every server on its own, times between and until repair exponential.

    Args:
      cluster: the cluster.
      horizon_s: no failure begins later (s).
      between_s: mean time of a server from its repair to its next failure (s).
      repair_s: mean time until it is repaired (s), at least 1 each.
      seed: of the draw.
      checkpoint_s: of ``Outages``.
      restart_s: of ``Outages``.

    Raises:
      JaxschedError: times that are not above 0, or more failures than ``MOST_OUTAGES``.
    """
    if not (0 < between_s < float("inf") and 0 < repair_s < float("inf")):
        raise JaxschedError(
            f"outages: means of {between_s:g} s between failures and {repair_s:g} s until repair; "
            "accepted: numbers above 0"
        )
    expected = cluster.num_servers * horizon_s / (between_s + repair_s)
    if expected > MOST_OUTAGES / 2:
        raise JaxschedError(
            f"outages: about {expected:.3g} failures; accepted: up to {MOST_OUTAGES // 2} (longer "
            "times between them)"
        )
    random = generator(seed, _BRANCH)
    rows: list[tuple[int, int, int]] = []
    for server in range(cluster.num_servers):
        time = float(random.exponential(between_s))
        while time < horizon_s:
            back = time + max(float(random.exponential(repair_s)), 1.0)
            rows.append((server, int(time), min(int(np.ceil(back)), _LATEST)))
            time = back + float(random.exponential(between_s))
    servers, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
    nothing = np.zeros(len(rows), np.int64)
    return Outages(servers, begin, end, nothing, checkpoint_s, restart_s)


def outages_of(
    text: str, table: JobTable, cluster: Cluster, *, seed: int = 0, checkpoint_s: int = 0
) -> Outages:
    """What a text stands for: a log of outages, or ``HOURS:HOURS``.

    ``720:4`` is a failure of each server every 720 hours on average and 4 until it is repaired,
    drawn up to the last submission of the table and its longest run time after it.

    Args:
      text: as it was typed.
      table: the jobs.
      cluster: the cluster.
      seed: of a draw.
      checkpoint_s: of ``Outages``.

    Raises:
      JaxschedError: one line: neither a file nor a rate, or numbers out of range.
    """
    rate = _RATE.fullmatch(text.strip()) if len(text) < 64 else None
    if rate is None:
        if ":" in text and not text.strip("0123456789:. "):
            raise JaxschedError(
                f"{argument('failures')} is {describe_value(text)}; accepted: HOURS:HOURS (between "
                "failures of a server, until its repair), such as 720:4, or a file"
            )
        return read_outages(text, checkpoint_s=checkpoint_s)
    between_s, repair_s = (3600 * float(hours) for hours in rate.groups())
    return draw_outages(
        cluster,
        int(table["submit_time"][-1] + table["duration"].max()),
        between_s=between_s,
        repair_s=repair_s,
        seed=seed,
        checkpoint_s=checkpoint_s,
    )


def outages_told(
    failures: str | None,
    reservations: str | None,
    table: JobTable,
    cluster: Cluster,
    *,
    checkpoint_s: int = 0,
) -> Outages | None:
    """The failures of servers (``outages_of``) and their reservations (``read_reservations``).

    None where neither is told; drawn failures are the same for equal jobs.

    Raises:
      JaxschedError: one line with what cannot be read.
    """
    found = None
    if failures:
        seed = int(table.digest()[:8], 16)
        found = outages_of(failures, table, cluster, seed=seed, checkpoint_s=checkpoint_s)
    if reservations:
        reserved = read_reservations(reservations, checkpoint_s=checkpoint_s)
        found = reserved if found is None else found.joined(reserved)
    return found
