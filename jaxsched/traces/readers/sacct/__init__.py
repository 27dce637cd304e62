"""Reader for Slurm's accounting, as ``sacct -P``, ``sacct -p`` and ``sacct --json`` write it.

Columns may stand in any order, with any delimiter; needed are an id, a submission, a run time and
GPUs, as ``sacct -a -X -P -o JobID,User,Partition,State,Submit,Start,End,AllocTRES,ReqTRES`` gives
them. Lines of steps are no jobs. Sources: the manual pages of Slurm, and what its data parsers of
versions 21.08 to 24.11 write.
"""

from collections import Counter

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces import times
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.head import Head
from jaxsched.traces.readers.sacct import documents, records
from jaxsched.traces.readers.sacct.jobs import to_jobs
from jaxsched.traces.readers.sacct.lines import RESOURCES, STEPS, Header, header_of, read_lines
from jaxsched.traces.text import read_head
from jaxsched.traces.trace import Trace

NAME = "sacct"
DESCRIPTION = "Slurm's accounting: sacct -P, -p or --json"

_GROUPS = ("Partition", "QOS", "Account")
_SUBMISSIONS = ("Submit", "Eligible")
_RUN_TIMES = ("ElapsedRaw", "Elapsed")
_COMMAND = (
    "sacct -a -X -P -o JobID,User,Partition,State,Submit,Start,End,ElapsedRaw,TimelimitRaw,NNodes,"
    "AllocTRES,ReqTRES"
)


def matches(head: Head) -> bool:
    """Whether a file begins like one that ``sacct`` wrote."""
    return documents.matches(head) or header_of(head.text) is not None


def read(path: PathLike, timezone: str | None = None) -> Trace:
    """Read an export of ``sacct``; ``group`` is the partition, else the QOS or the account.

    Args:
      path: the file, plain or gzip.
      timezone: of the cluster, such as ``Europe/Berlin``; None: times stay as they are written.

    Raises:
      JaxschedError: one line with file and line number.
    """
    counts: Counts = Counter()
    zone = None if timezone is None else times.zone_of(timezone)
    text = read_head(path)
    if text.lstrip().startswith("{"):
        found = documents.read_records(path, counts)
    else:
        found = _read_lines(path, header_of(text), counts)
    try:
        settled = times.settle(found.moments, zone=zone, duration=found.numbers["elapsed"])
    except JaxschedError as error:
        raise JaxschedError(f"{path}: {error}") from None
    columns = to_jobs(found, settled.columns, counts)
    rows = len(found) + counts[STEPS]
    return finished(
        path, columns, NAME, settled.clock, counts=counts, notes=settled.notes, rows_read=rows
    )


def _read_lines(path: PathLike, header: Header | None, counts: Counts) -> records.Records:
    if header is None:
        raise JaxschedError(f"{path}: is no output of sacct; accepted: that of '{_COMMAND}'")
    _check(path, header)
    group = next((name for name in _GROUPS if name in header.names), "")
    parts = [records.of_lines(rows, group) for rows in read_lines(path, header, counts)]
    return records.joined(parts)


def _check(path: PathLike, header: Header) -> None:
    """Refuse columns cut to a width, and those of which no trace can be made."""
    if header.is_fixed_width:
        raise JaxschedError(
            f"{path}: its columns have a fixed width, which cuts values off; accepted: the same "
            "command with -P, 'sacct -P ...'"
        )
    names = set(header.names)
    has_run = names & set(_RUN_TIMES) or {"Start", "End"} <= names
    missing = [
        needed
        for needed, there in (
            ("Submit", names & set(_SUBMISSIONS)),
            ("Start and End, or Elapsed", has_run),
            ("AllocTRES or ReqTRES", names & set(RESOURCES)),
        )
        if not there
    ]
    if missing:
        raise JaxschedError(
            f"{path}: is output of sacct without {', '.join(missing)}; accepted: that of "
            f"'{_COMMAND}'"
        )
