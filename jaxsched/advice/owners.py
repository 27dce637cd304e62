"""Owners of jobs, under names that do not identify them.

The names of users and groups stay on the machine: pages and files carry a keyed hash. The key, and
which hash is whose, are kept in a file of their own beside the results, so that names are the same
the next time and their owner can look them up. Axis: ``m`` jobs that count.
"""

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.jobs import Integers
from jaxsched.traces.trace import Trace, known
from jaxsched.traces.usable import job_rows

FILE = "names.json"
OTHERS = "others"
UNKNOWN = "unknown"
MOST = 20
"""Owners of the most GPU time that are told apart; all others are one."""

BY = ("group", "user")
"""Columns that owners come from: the first that tells jobs apart, unless one is asked for."""


class Owners(NamedTuple):
    """The owners of jobs.

    Attributes:
      by: the column that they come from; empty: the log has none.
      labels: of the owners, those of the most GPU time first.
      of: the owner of each job, ``[m]``.
    """

    by: str
    labels: tuple[str, ...]
    of: Integers


def owners_of(
    trace: Trace, rows: slice, names: "Names", *, by: str | None = None, most: int = MOST
) -> Owners:
    """The owners of some jobs of a log.

    Args:
      trace: the log.
      rows: of its jobs in order of submission, those that count.
      names: gives labels.
      by: ``group`` or ``user``; None: the first of them that tells jobs apart.
      most: owners that are told apart.

    Raises:
      JaxschedError: another column, or one that the log does not have.
    """
    if by is not None and by not in BY:
        raise JaxschedError(f"by is {by!r}; accepted: {', '.join(BY)}")
    chosen = job_rows(trace)[rows]
    there = [name for name in BY if name in trace and known(trace, name)[chosen].any()]
    if by is not None and by not in there:
        raise JaxschedError(f"the log has no {by}; accepted: {', '.join(there) or 'neither'}")
    several = [name for name in there if len(np.unique(trace[name][chosen])) > 1]
    column = by or next(iter(several or there), "")
    if not column:
        return Owners("", (UNKNOWN,), np.zeros(len(chosen), np.int64))
    texts, number = np.unique(np.asarray(trace[column][chosen], np.str_), return_inverse=True)
    work = np.bincount(number.reshape(-1), trace["num_gpus"][chosen] * trace["duration"][chosen])
    order = np.argsort(-work, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    labels = [names.label(column, str(texts[k])) for k in order[:most]]
    if len(order) > most:
        labels.append(OTHERS)
    return Owners(column, tuple(labels), np.minimum(place, most)[number.reshape(-1)])


class Names:
    """Labels of owners: keyed hashes, or the names themselves where that is asked for."""

    def __init__(self, *, shown: bool = False, kept: dict[str, Any] | None = None) -> None:
        """Labels with a key of their own, or that of an earlier time.

        Args:
          shown: show the names.
          kept: what ``to_json`` gave.
        """
        self.shown = shown
        self.key = bytes.fromhex(kept["key"]) if kept else secrets.token_bytes(16)
        self.names: dict[str, str] = dict(kept["names"]) if kept else {}

    def label(self, kind: str, name: str) -> str:
        """How an owner is called; the empty name is ``unknown``."""
        if not name:
            return UNKNOWN
        if self.shown:
            return name
        digest = hashlib.blake2b(f"{kind}\0{name}".encode(), key=self.key, digest_size=4)
        found = f"{kind} {digest.hexdigest()}"
        self.names[found] = name
        return found

    def to_json(self) -> dict[str, Any]:
        """The key, and whose each label is."""
        return {"key": self.key.hex(), "names": self.names}

    @staticmethod
    def of(folder: Path | None, *, shown: bool = False) -> "Names":
        """Labels as an earlier call into a folder gave them, else new ones."""
        if folder is None:
            return Names(shown=shown)
        try:
            kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
            return Names(shown=shown, kept=kept)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return Names(shown=shown)

    def write(self, folder: Path) -> None:
        """Keep key and names beside the results, for the owner of the folder alone."""
        if self.shown:
            return
        path = folder / FILE
        write_whole(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())
        path.chmod(0o600)
