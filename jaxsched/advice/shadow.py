"""What the order that a policy wanted in the shadow would have done: a row of the page.

``jaxsched slurm --dry-run`` and ``jaxsched kueue --dry-run`` log the score that a policy gave each
job that waited. The jobs of the log are played in order of these: the first that fits starts, and
no job is suspended. Jobs that no pass saw wait go first, as they came: the scheduler had started
them before the policy had a say.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.leaderboard.entries import Entry, by_priority, entries_of
from jaxsched.leaderboard.window import Window
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.queues.decisions import shadow_scores
from jaxsched.trace_replay import Cluster, Records


def shadow_entries(place: Path, ready: Prepared, window: Window) -> tuple[list[Entry], list[str]]:
    """A row for each policy of a log of passes, and how many jobs it is about.

    Args:
      place: as of ``shadow_scores``.
      ready: the log's jobs.
      window: those that count.

    Raises:
      JaxschedError: the log of passes cannot be read, is of other jobs, or the jobs have no names.
    """
    found, notes = list[Entry](), list[str]()
    count = window.stop - window.first
    for policy, scores in shadow_scores(place).items():
        priority = _priority(scores, ready)
        seen = int(np.sum(priority[window.jobs] > -np.inf))
        if not seen:
            raise JaxschedError(
                f"{place}: {policy} saw none of the {count} jobs that count wait; accepted: passes "
                "of the same weeks"
            )
        entry = _entry(policy, priority)
        found.append(entry)
        notes.append(
            f"{entry.name}: the policy saw {seen} of the {count} jobs that count wait; the others "
            "go first"
        )
    return found, notes


def _priority(scores: Mapping[str, float], ready: Prepared) -> np.ndarray:
    """The score of each job, float64 ``[n]``; minus infinity: none."""
    if ready.log.job_id is None:
        raise JaxschedError(
            f"{ready.name}: jobs have no names; accepted: a log with the scheduler's names of "
            "jobs, such as sacct writes it"
        )
    return np.array([scores.get(str(name), -np.inf) for name in ready.log.job_id], np.float64)


def _entry(policy: str, priority: np.ndarray) -> Entry:
    (known,) = entries_of([policy])

    def play(table: JobTable, cluster: Cluster) -> Records:
        return by_priority(table, cluster, priority)

    return Entry(
        f"{policy}, shadow", play, knows=known.knows, suspends=False, learned=known.learned
    )
