"""Odd rows, treated alike by all readers: counted, said in a note, and never a reason to refuse.

A value that cannot be is not known: a number below 0 where there is none, a run time below 0, that
of a job that ends before it starts, a state that the format does not have. Rows without a
submission time are dropped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.rows import Rows
from jaxsched.traces.text import stem
from jaxsched.traces.trace import Clock, Trace

Counts = Counter[str]
"""A sentence -> rows that it is true of; ``{}`` in it stands for their number."""

UNSUBMITTED = "{} jobs without a submission time dropped"
BACKWARDS = "{} jobs that end before they start, their run times not known"
NEGATIVE = "{} run times below 0, taken as not known"
STATES_NAMED = 5
"""States and other words that notes name; jobs of further ones are counted together."""

_STATE = "{} jobs of the state "


def finished(
    path: PathLike,
    columns: Mapping[str, npt.NDArray[Any]],
    source: str,
    clock: Clock = "relative",
    *,
    counts: Counts | None = None,
    notes: Sequence[str] = (),
    rows_read: int = -1,
) -> Trace:
    """The trace of what a reader found, odd rows treated as all readers treat them.

    Args:
      path: of the file or folder; the trace is called after it.
      columns: name -> values, ``[n]``; submissions that are not known are NaN.
      source: the format.
      clock: what times count from.
      counts: what the reader counted.
      notes: what else the reader says, one sentence each; these come first.
      rows_read: rows of the source; n if not given.

    Raises:
      JaxschedError: no row has a submission time, or a column is not as a trace has it.
    """
    counts = Counter() if counts is None else counts
    found = dict(columns)
    submitted = ~np.isnan(found["submit_time"])
    rows = len(submitted)
    counts[UNSUBMITTED] += rows - int(np.sum(submitted))
    if rows and not np.any(submitted):
        raise JaxschedError(
            f"{path}: none of its {rows} rows has a submission time; accepted: at least one"
        )
    if not np.all(submitted):
        found = {name: values[submitted] for name, values in found.items()}
    found["duration"] = known_run_times(found, counts)
    sentences = (*notes, *in_words(counts))
    return Trace(found, stem(path), source, clock, sentences, rows if rows_read < 0 else rows_read)


def known_run_times(
    columns: Mapping[str, npt.NDArray[Any]], counts: Counts
) -> npt.NDArray[np.float64]:
    """Run times (s), ``[n]``; NaN where they are below 0 or the end is before the start."""
    duration = columns["duration"]
    backwards = np.zeros(len(duration), np.bool_)
    if "start_time" in columns and "end_time" in columns:
        backwards = columns["end_time"] < columns["start_time"]
    negative = (duration < 0) & ~backwards
    counts[BACKWARDS] += int(np.sum(backwards))
    counts[NEGATIVE] += int(np.sum(negative))
    return np.where(backwards | negative, np.nan, duration)


def from_zero_on(rows: Rows, name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Numbers of a column, ``[n]``; those below 0 are not known (NaN), and counted."""
    below = values < 0
    if not np.any(below):
        return values
    rows.counts[f"{{}} values of {name} below 0, taken as not known"] += int(np.sum(below))
    return np.where(below, np.nan, values)


def count_state(counts: Counts, state: str, number: int = 1, called: str = "") -> None:
    """Count jobs of a state that the format is not known to have.

    Args:
      counts: where.
      state: as the source calls it.
      number: of jobs.
      called: how the trace calls it; empty: not known.
    """
    what = f", taken for {called}" if called else ", which is not known, their status left empty"
    _count(counts, _STATE, state, number, f"{{}} jobs of further states{what}", what)


def count_word(counts: Counts, name: str, word: str, number: int, absent: str) -> None:
    """Count jobs of a word that the format is not known to have in a column.

    Args:
      counts: where.
      name: of the column.
      word: as the source has it.
      number: of jobs.
      absent: what then is not known of them.
    """
    what = f", which is not known, their {absent} left empty"
    before, otherwise = f"{{}} jobs of {name} ", f"{{}} jobs of further {name}s{what}"
    _count(counts, before, word, number, otherwise, what)


def _count(counts: Counts, before: str, word: str, number: int, otherwise: str, after: str) -> None:
    """Count jobs of a word, or once so many words are named, of further ones."""
    sentence = f"{before}{describe_value(word)}{after}"
    named = sum(text.startswith(before) for text in counts)
    counts[otherwise if sentence not in counts and named >= STATES_NAMED else sentence] += number


def in_words(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What was counted, one sentence each, without what happened to no row."""
    return tuple(text.replace("{}", str(count), 1) for text, count in counts.items() if count)
