"""Which policies can run on a workload, and the log's own schedule as a row beside them.

That row is shown only where submission times are the log's own.
The log's cluster is not known; the notes say how many GPUs were in use at once, and how many the
policies have.
"""

from collections.abc import Sequence

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.schedule import most_at_once
from jaxsched.leaderboard.entries import Entry
from jaxsched.leaderboard.window import Window, window_of
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.trace_replay import Cluster, Records

NAME = "as recorded"


def players_of(
    ready: Prepared, entries: Sequence[Entry], window: Window | None = None
) -> tuple[list[Entry], list[str]]:
    """The policies that can run on a workload, then the row of its log; and notes on both.

    Args:
      ready: the workload.
      entries: the policies.
      window: the measured jobs; those of ``window_of`` if absent.

    Raises:
      JaxschedError: each policy needs a column that the jobs lack.
    """
    misses = {entry.name: entry.misses(ready) for entry in entries}
    found = [entry for entry in entries if not misses[entry.name]]
    reasons = [reason for reason in dict.fromkeys(misses.values()) if reason]
    if not found:
        raise JaxschedError(
            f"workload '{ready.name}' and its servers: for want of {' and '.join(reasons)} none of "
            f"{', '.join(misses)} can play; accepted: further policies, or a log or options with it"
        )
    notes = [
        f"not played, for want of {reason}: "
        + ", ".join(name for name, missed in misses.items() if missed == reason)
        for reason in reasons
    ]
    recorded, said = recorded_entry(ready, window)
    return [*found, *([recorded] if recorded else [])], [*said, *notes]


def recorded_entry(
    ready: Prepared, window: Window | None = None
) -> tuple[Entry | None, tuple[str, ...]]:
    """The row of a log, with notes; None if it cannot be compared with policies.

    Every measured job needs a recorded start and end; another job without them is taken to
    start at its submission.

    Args:
      ready: the log's jobs.
      window: the measured jobs; those of ``window_of`` if absent.
    """
    if not ready.recorded or ready.log.wait is None or ready.log.jct is None:
        return None, ()
    wait, jct = ready.log.wait, ready.log.jct
    unknown = np.isnan(wait) | np.isnan(jct)
    counted = window or window_of(ready.table)
    missing = int(np.sum(unknown[counted.jobs]))
    if missing:
        return None, (
            f"no row '{NAME}': {missing} of the {counted.stop - counted.first} jobs that count "
            "have no recorded start",
        )
    early = int(np.sum(wait < 0))
    records = _records(ready, wait, jct)
    notes = [
        f"'{NAME}' are the starts and ends of the log itself, with up to {_peak(records):,} GPUs "
        f"in use at once; the policies have {ready.cluster.num_gpus:,}"
    ]
    if early:
        notes.append(f"{early} jobs of the log start before their submission: at once")

    def play(table: JobTable, cluster: Cluster) -> Records:
        del table, cluster
        return records

    return Entry(NAME, play, knows="unstated", suspends=True, recorded=True), tuple(notes)


def _records(ready: Prepared, wait: np.ndarray, jct: np.ndarray) -> Records:
    """The log's schedule in whole seconds; no job ends before it starts."""
    submit, duration = ready.table["submit_time"], ready.table["duration"]
    waited = np.floor(np.where(np.isnan(wait), 0, np.maximum(wait, 0))).astype(np.int64)
    lasted = np.ceil(np.where(np.isnan(jct), waited + duration, jct)).astype(np.int64)
    lasted = np.maximum(lasted, waited + 1)
    nothing = np.zeros(len(submit), np.int64)
    return Records(
        submit=submit,
        num_gpus=ready.table["num_gpus"],
        duration=duration,
        start=submit + waited,
        end=submit + lasted,
        num_servers=nothing,
        first_server=nothing,
        preemptions=nothing,
        held=np.minimum(duration, lasted - waited),
    )


def _peak(records: Records) -> int:
    """The most GPUs that jobs hold together, each from its first start to its end."""
    return int(most_at_once(records.start, records.end, records.num_gpus))
