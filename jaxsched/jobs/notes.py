"""What was changed in job tables, told of a whole set of them."""

import re
from collections.abc import Sequence

from jaxsched.jobs.table import JobTable

_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)


def notes_of(tables: Sequence[JobTable]) -> list[str]:
    """The notes of some tables, each once, in the order in which they first appear.

    Notes that begin with a count and differ in it alone become one, which says the largest.
    """
    counts: dict[str, set[int]] = {}  # words behind a count -> the counts
    order: dict[str, bool] = {}  # text, or words behind a count -> whether it is the latter
    for note in dict.fromkeys(note for table in tables for note in table.notes):
        counted = _COUNTED.fullmatch(note)
        if counted is None:
            order.setdefault(note, False)
            continue
        number, words = int(counted[1]), counted[2]
        order.setdefault(words, True)
        counts.setdefault(words, set()).add(number)
    return [_told(words, counts[words]) if counted else words for words, counted in order.items()]


def _told(words: str, counts: set[int]) -> str:
    if len(counts) == 1:
        return f"{min(counts)} {words}"
    return f"up to {max(counts)} {words}, by table"
