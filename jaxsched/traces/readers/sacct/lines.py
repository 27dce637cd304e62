"""The lines of ``sacct --parsable`` and ``--parsable2``, whatever stands between their fields.

Slurm writes fields as they are, without quotes. Where a delimiter stands inside a field as well
(commas in lists of resources, any text in the names of jobs), the fields that belong together are
found by what they look like, or lie beyond the text columns that are not needed.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TextIO

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.odd_rows import Counts
from jaxsched.traces.readers.sacct.values import job_id
from jaxsched.traces.rows import BATCH_ROWS, Rows
from jaxsched.traces.text import LONGEST_LINE, long_line, open_text, read_head

STEPS = "{} lines of job steps (.batch, .extern, .0) left out"

RESOURCES = ("AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES")
"""Columns that tell the GPUs of a job, the first one that mentions them counts."""

USED = (
    *("JobID", "JobIDRaw", "Cluster", "User", "Account", "Partition", "QOS", "State"),
    *("Submit", "Eligible", "Start", "End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw"),
    *RESOURCES,
    *("NNodes", "AllocNodes", "AllocCPUS", "NCPUS", "Restarts"),
)
TEXTS = (
    *("JobName", "AdminComment", "Comment", "Constraints", "Container", "Extra", "SystemComment"),
    *("SubmitLine", "WorkDir", "StdErr", "StdIn", "StdOut", "Reason", "Licenses", "WCKey"),
)
"""Columns that may hold any letters, line feeds among them."""

OTHERS = (
    *("AssocID", "AveCPU", "AveCPUFreq", "AveDiskRead", "AveDiskWrite", "AvePages", "AveRSS"),
    *("AveVMSize", "BlockID", "ConsumedEnergy", "ConsumedEnergyRaw", "CPUTime", "CPUTimeRAW"),
    *("DBIndex", "DerivedExitCode", "ExitCode", "FailedNode", "Flags", "GID", "Group", "Layout"),
    *("MaxRSS", "MaxVMSize", "McsLabel", "NodeList", "NTasks", "Planned", "PlannedCPU"),
    *("PlannedCPURAW", "Priority", "QOSRAW", "QOSREQ", "ReqCPUFreq", "ReqCPUS", "ReqMem"),
    *("ReqNodes", "Reservation", "ReservationId", "Reserved", "ResvCPU", "Suspended"),
    *("SystemCPU", "TotalCPU", "TRESUsageInTot", "UID", "UserCPU", "WCKeyID"),
)
"""Further columns, of which a header may consist."""

_PIECE = 1 << 20  # letters read at a time
_CANONICAL = {name.lower(): name for name in (*USED, *TEXTS, *OTHERS)}
_SEPARATOR = re.compile(r'\bJobID(?:Raw)?\b"?([^A-Za-z0-9_"\n\r]+)(?=["A-Za-z])', re.IGNORECASE)
_SEPARATOR_BEFORE = re.compile(r'(?<=["A-Za-z])([^A-Za-z0-9_"\n\r]+)"?JobID(?:Raw)?\b', re.I)
_RESOURCE = re.compile(r"\s*(?:[a-z]+(?:/[^=,]*)?=|gres[:/]|gpu\b|per_node:)", re.IGNORECASE)


@dataclass(frozen=True)
class Header:
    """The first line.

    Attributes:
      names: of the columns as ``sacct`` spells them, others as they are.
      separator: between fields.
      is_quoted: whether fields stand in quotes, as other programs write them.
    """

    names: tuple[str, ...]
    separator: str
    is_quoted: bool

    @property
    def is_fixed_width(self) -> bool:
        """Whether the columns are set off by blanks, and may be cut off."""
        return not self.separator.strip(" ")

    def place(self, name: str) -> int:
        """The first column of a name, -1 where there is none."""
        return self.names.index(name) if name in self.names else -1


@dataclass(frozen=True, eq=False)
class Lines(Rows):
    """A batch of lines about jobs as columns; ``cells`` has their number only.

    Attributes:
      columns: the columns of ``USED`` that are there.
    """

    columns: dict[str, list[str]] | None = None

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        assert self.columns is not None
        return self.columns[name]


def header_of(text: str) -> Header | None:
    """The header line at the beginning of a file; None if it is none of ``sacct``'s.

    It has an id and either a column of resources or no column that is not ``sacct``'s.
    """
    line = next((line for line in text.splitlines() if line.strip()), "")
    match = _SEPARATOR.search(line) or _SEPARATOR_BEFORE.search(line)
    if match is None:
        return None
    separator = match[1]
    found = line.split(separator) if separator.strip(" ") else line.split()
    plain = [name.strip().strip('"').strip() for name in found]
    names = tuple(_CANONICAL.get(name.lower(), name) for name in plain)
    known = [name for name in names if name in plain and name.lower() in _CANONICAL]
    some = set(names) & set(USED)
    if not some & {"JobID", "JobIDRaw"} or len(some) < 3:
        return None
    if not some & set(RESOURCES) and len(known) < sum(map(bool, names)):
        return None
    return Header(names, separator, '"' in line)


def read_lines(path: PathLike, header: Header, counts: Counts) -> Iterator[Lines]:
    """The lines about jobs in batches; those of steps are counted (``STEPS``).

    Raises:
      JaxschedError: one line with file and line if it cannot be read or has no jobs, or a line has
        the wrong number of fields.
    """
    read_head(path)
    reader = _Reader(path, header, counts)
    columns = {name: header.place(name) for name in USED if name in header.names}
    id_place = columns.get("JobID", columns.get("JobIDRaw", 0))
    cells: list[list[str]] = []
    numbers: list[int] = []
    some = False

    def batch() -> Lines:
        found = {name: [row[place] for row in cells] for name, place in columns.items()}
        rows: list[list[str]] = [[]] * len(cells)
        return Lines(str(path), tuple(columns), rows, numbers, counts, found)

    for number, row in reader.records():
        if "." in row[id_place]:
            counts[STEPS] += 1
            continue
        cells.append(row)
        numbers.append(number)
        if len(cells) == BATCH_ROWS:
            some = True
            yield batch()
            cells, numbers = [], []
    if cells:
        yield batch()
    elif not some:
        raise JaxschedError(f"{path}: has no jobs; accepted: a header line and one line per job")


def _numbered(path: PathLike, file: TextIO) -> Iterator[tuple[int, str]]:
    """The lines of a file, from 1, without their ends."""
    number = 0
    left = ""
    while piece := file.read(_PIECE):
        if "\r" in piece:
            piece += file.read(1) if piece.endswith("\r") else ""
            piece = piece.replace("\r\n", "\n").replace("\r", "\n")
        lines = f"{left}{piece}".split("\n")
        left = lines.pop()
        if max(map(len, lines), default=0) > LONGEST_LINE or len(left) > LONGEST_LINE:
            at = next((k for k, line in enumerate(lines) if len(line) > LONGEST_LINE), len(lines))
            raise long_line(path, number + at + 1)
        yield from enumerate(lines, number + 1)
        number += len(lines)
    if left:
        yield number + 1, left


class _Reader:
    """The fields of each line."""

    def __init__(self, path: PathLike, header: Header, counts: Counts) -> None:
        self._path, self._header, self._counts = path, header, counts
        names = header.names
        self._width = len(names)
        self._id = header.place("JobID") if "JobID" in names else header.place("JobIDRaw")
        self._texts = [place for place, name in enumerate(names) if name in TEXTS]
        self._needed = [place for place, name in enumerate(names) if name in USED]

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Line and fields of each record; repeated header lines and blank lines are left out."""
        separator, width = self._header.separator, self._width
        split = self._quoted if self._header.is_quoted else lambda text: text.split(separator)
        first = self._header.names[0]
        id_first = self._id == 0 and not self._header.is_quoted
        last_is_text = next(filter(None, reversed(self._header.names))) in TEXTS
        begun = False
        short: list[str] = []  # the fields of a record that goes on in the next line
        short_line = letters = 0
        with open_text(self._path) as file:
            for number, text in _numbered(self._path, file):
                if not short and not text.strip():
                    continue
                if not begun:
                    begun = True  # the header
                    continue
                if id_first and not short and "." in text.partition(separator)[0]:
                    self._counts[STEPS] += 1
                    continue
                row = split(text)
                if len(row) == width and not short:
                    if row[0] == first and self._is_header(row):
                        continue
                    yield number, row
                    continue
                if not short and last_is_text and len(row) < width and not self._has_id(row):
                    self._counts["{} lines that go on a text in the last column passed over"] += 1
                    continue
                if not short:
                    short_line, letters = number, 0
                elif len(row) == width and self._has_id(row):
                    self._fail(short_line, short)
                else:
                    short += row[1:]  # the rest of a text is not needed
                    row = short
                letters += len(text)
                whole = self._whole(row, text)
                if whole is not None:
                    short = []
                    yield short_line, whole
                elif self._texts and len(row) < width and letters <= LONGEST_LINE:
                    short = row
                else:
                    self._fail(short_line, row)
        if short:
            self._fail(short_line, short)

    def _has_id(self, row: list[str]) -> bool:
        cell = row[self._id] if self._id < len(row) else ""
        return job_id(cell.partition(".")[0]) is not None

    def _quoted(self, text: str) -> list[str]:
        separator = self._header.separator
        if len(separator) > 1:
            return [cell.strip().strip('"') for cell in text.split(separator)]
        try:
            return next(csv.reader([text], delimiter=separator), [])
        except csv.Error:
            return []

    def _is_header(self, row: list[str]) -> bool:
        found = [cell.strip().strip('"').lower() for cell in row]
        return found == [name.lower() for name in self._header.names]

    def _whole(self, row: list[str], text: str) -> list[str] | None:
        """A row of another number of fields as one of the right number; None if there is none."""
        width, names = self._width, self._header.names
        if len(row) == width + 1 and not row[-1].strip():  # a delimiter at the end of lines only
            return row[:-1]
        if len(row) == width - 1 and not names[-1]:  # or of the header only
            return [*row, ""]
        if len(row) <= width:
            return row if len(row) == width else None
        if '"' in text and len(quoted := self._quoted(text)) == width:
            return quoted
        joined = self._joined(row)
        if len(joined) == width:
            return joined
        if not self._texts or len(row) < width:
            return None
        first, last = self._texts[0], self._texts[-1]
        if any(first < place < last for place in self._needed):
            return None
        after = width - 1 - last
        return [*row[:first], *[""] * (last - first + 1), *row[len(row) - after :]]

    def _joined(self, row: list[str]) -> list[str]:
        """The fields with lists in one piece again, whose commas were taken for delimiters."""
        separator, names = self._header.separator, self._header.names
        closing = [place for place, field in enumerate(row) if "]" in field]
        closing.reverse()
        fields: list[str] = []
        place = 0
        while place < len(row):
            field = row[place]
            name = names[len(fields)] if len(fields) < len(names) else ""
            place += 1
            if "[" in field and "]" not in field:  # 1002_[3,5-7], node[1,3]
                while closing and closing[-1] < place:
                    closing.pop()
                if closing:
                    field = separator.join([field, *row[place : closing[-1] + 1]])
                    place = closing[-1] + 1
            elif name in RESOURCES and _RESOURCE.match(field):
                end = self._end_of_list(row, place)
                field = separator.join([field, *row[place:end]])
                place = end
            fields.append(field)
        return fields

    @staticmethod
    def _end_of_list(row: list[str], place: int) -> int:
        """Where a list of resources ends that began before ``place``: none is there twice."""
        seen = {row[place - 1].partition("=")[0]}
        while place < len(row) and _RESOURCE.match(row[place]):
            name, equals, _ = row[place].partition("=")
            if equals and name in seen:
                break
            seen.add(name)
            place += 1
        return place

    def _fail(self, line: int, row: list[str]) -> NoReturn:
        names = [name for name in self._header.names if name]
        raise JaxschedError(
            f"{self._path}, line {line}: has {len(row)} fields; accepted: {len(names)} "
            f"({describe_value(self._header.separator.join(names), 80)})"
        )
