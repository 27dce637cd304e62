"""What the cells of Slurm's accounting mean: ids, states, resources and spans of time.

Source: Slurm's manual pages ``sacct(1)`` (fields, job states) and ``sbatch(1)`` (GRES, arrays), and
what its versions 17 to 25 write.
"""

import re
from typing import NamedTuple

from jaxsched.traces.rows import NOT_KNOWN
from jaxsched.traces.states import SLURM
from jaxsched.traces.times import as_span
from jaxsched.traces.trace import LARGEST

NAN = float("nan")

ABSENT = NOT_KNOWN | {"(null)", "infinite", "partition_limit", "not_set"}
"""What stands for no value, in small letters."""

NO_NUMBER = 2**32 - 2
"""From here on a number of 32 bits says that there is none, or no limit."""

_ID = re.compile(r"(\d{1,18})(?:_(\d{1,18})|_\[([^\]\s]{1,4096})\]?|\+(\d{1,18}))?", re.ASCII)
_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)[nc]?", re.ASCII)
_GB = {"K": 2.0**-20, "": 2.0**-10, "M": 2.0**-10, "G": 1.0, "T": 2.0**10, "P": 2.0**20}
_PARENTHESIS = re.compile(r"\([^()]*\)")

_SHORT_STATES = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}
_LEAST_LETTERS = 4
"""A name of a state that was cut off has at least so many."""


class JobId(NamedTuple):
    """An id as ``sacct`` writes it.

    Attributes:
      job: the job, or the task of an array: ``1002``, ``1002_1``.
      component: of a heterogeneous job, -1 for others.
      tasks: what stands in brackets, the tasks of an array that one row is about.
    """

    job: str
    component: int = -1
    tasks: str = ""


class Demand(NamedTuple):
    """Resources of a job.

    Attributes:
      gpus: NaN where GPUs are not mentioned.
      kinds: their kinds, those that are named.
      cpus: cores, NaN where not mentioned.
      memory_gb: GB of 1024 MB, NaN where not mentioned.
      nodes: servers, NaN where not mentioned.
    """

    gpus: float = NAN
    kinds: tuple[str, ...] = ()
    cpus: float = NAN
    memory_gb: float = NAN
    nodes: float = NAN


def job_id(cell: str) -> JobId | None:
    """The id in a cell; None if it is none, such as that of a step (``1001.batch``)."""
    match = _ID.fullmatch(cell.strip())
    if match is None:
        return None
    job, task, tasks, component = match.groups()
    if task:
        return JobId(f"{job}_{task}")
    if component:
        return JobId(job, int(component))
    return JobId(job, tasks=tasks or "")


def tasks_of(spec: str, most: int) -> tuple[list[int], bool]:
    """The tasks of an array that a row lists, such as ``2-9%4``, ``3,5-7`` or ``0-20:5``.

    Args:
      spec: what stands in brackets.
      most: tasks that are given at most.

    Returns:
      The tasks, and whether these are all of them: Slurm cuts long lists off with ``...``.
    """
    tasks: list[int] = []
    for part in spec.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return tasks, False
        first = int(match[1])
        found = range(first, int(match[2] or first) + 1, max(int(match[3] or 1), 1))
        if len(found) > most - len(tasks):
            return [*tasks, *found[: most - len(tasks)]], False
        tasks += found
    return tasks, True


def status(cell: str) -> str | None:
    """How a trace calls a state such as ``CANCELLED by 1000`` or ``OUT_OF_ME+``; None: no state."""
    words = cell.upper().split(maxsplit=1)
    if not words or cell.strip().lower() in ABSENT:
        return ""
    name = words[0].rstrip("+")
    name = _SHORT_STATES.get(name, name)
    if name in SLURM:
        return SLURM[name]
    if len(name) >= _LEAST_LETTERS:
        found = {called for state, called in SLURM.items() if state.startswith(name)}
        if len(found) == 1:
            return found.pop()
    return None


def span(cell: str) -> float | None:
    """Seconds of a span such as ``2-03:04:05``; NaN: absent, None: neither."""
    text = cell.strip()
    return NAN if text.lower() in ABSENT else as_span(text)


def count(cell: str) -> float | None:
    """A number from 0 on; NaN: absent, None: neither."""
    text = cell.strip()
    if _NUMBER.fullmatch(text):
        value = float(text)
        return NAN if value >= NO_NUMBER else value
    return NAN if text.lower() in ABSENT else None


def time_limit(cell: str) -> float | None:
    """Seconds of a time limit, a bare number of minutes or a span; NaN: none, None: neither."""
    minutes = count(cell)
    return span(cell) if minutes is None else 60 * minutes


def demand(cell: str) -> Demand | None:
    """The resources in a list of TRES or GRES, in all spellings; None if one cannot be read.

    ``gres/gpu=4``, ``gres/gpu:a100=4``, ``gpu:4``, ``gpu:a100:4(S:0-1)`` and ``gres:gpu:2`` are
    GPUs; a sum beside its parts (``gres/gpu:a100=4,gres/gpu=4``) is not counted twice.
    """
    text = _PARENTHESIS.sub("", cell).strip()
    if text.lower() in ABSENT:
        return Demand()
    whole, parts = NAN, 0.0
    kinds: list[str] = []
    others = {"cpu": NAN, "mem": NAN, "node": NAN}
    for item in text.split(","):
        name, equals, amount = item.strip().partition("=")
        gres = name.lower().removeprefix("per_node:")
        gres = gres.removeprefix("gres/").removeprefix("gres:")
        if gres.partition(":")[0] == "gpu":
            kind = name[len(name) - len(gres) :].partition(":")[2]
            if not equals:  # gpu, gpu:4, gpu:a100, gpu:a100:4
                rest, colon, last = kind.rpartition(":")
                kind, amount = (rest, last) if _NUMBER.fullmatch(last) else (kind, "1")
            if not _NUMBER.fullmatch(amount) or float(amount) > LARGEST:
                return None
            if kind:
                parts += float(amount)
                kinds.append(kind)
            else:
                whole = max(float(amount), 0.0 if whole != whole else whole)
        elif name in others and (match := _AMOUNT.fullmatch(amount)):
            unit = _GB[match[2]] if name == "mem" else 1.0
            others[name] = float(match[1]) * unit
    if kinds:
        whole = parts if whole != whole else max(whole, parts)
    return Demand(whole, tuple(kinds), others["cpu"], others["mem"], others["node"])
