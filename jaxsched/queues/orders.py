"""The order in which a policy wants the waiting jobs, first in line first."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.queues.jobs import EndedJob, QueuedJob, by_submission
from jaxsched.trace_replay.forecasts import LATER, Schedule, forecasts

Scores = Sequence[float]
Score = Callable[[Sequence[QueuedJob], Sequence[QueuedJob], Sequence[EndedJob]], Scores]
"""Waiting jobs, running jobs and the past -> a number for each waiting job, lower first."""


def _fifo(waiting: Sequence[QueuedJob], running: object, past: object) -> Scores:
    return [job.submit for job in waiting]


def _lrf(waiting: Sequence[QueuedJob], running: object, past: object) -> Scores:
    return [job.num_gpus for job in waiting]


def _sjf_est(waiting: Sequence[QueuedJob], running: object, past: object) -> Scores:
    return [_limit(job) for job in waiting]


def _spf_est(waiting: Sequence[QueuedJob], running: object, past: object) -> Scores:
    return [job.num_gpus * _limit(job) for job in waiting]


def _limit(job: QueuedJob) -> float:
    """A job's time limit stands for its run time; one without a limit comes last."""
    return job.limit_s or float("inf")


def _forecast(scorer: str) -> Score:
    def score(
        waiting: Sequence[QueuedJob], running: Sequence[QueuedJob], past: Sequence[EndedJob]
    ) -> Scores:
        jobs: list[EndedJob | QueuedJob] = [*past, *running, *waiting]
        rows = [(job.submit, job.num_gpus, job.owner, job.start, job.end) for job in past]
        rows += [(job.submit, job.num_gpus, job.owner, job.start, LATER) for job in running]
        rows += [(job.submit, job.num_gpus, job.owner, LATER, LATER) for job in waiting]
        order = sorted(range(len(rows)), key=lambda k: by_submission(jobs[k]))
        first = rows[order[0]][0]

        def since(time: int) -> int:
            return LATER if time == LATER else min(max(time - first, 0), LATER - 1)

        columns = list(zip(*(rows[k] for k in order), strict=True))
        schedule = Schedule(
            submit=np.array([since(time) for time in columns[0]]),
            num_gpus=np.maximum(np.array(columns[1]), 1),
            group=np.unique(np.array(columns[2]), return_inverse=True)[1].reshape(-1),
            start=np.array([since(time) for time in columns[3]]),
            end=np.array([since(time) for time in columns[4]]),
        )
        levels, _ = forecasts(schedule, scorer)
        place = {row: k for k, row in enumerate(order)}
        begin = len(past) + len(running)
        return [int(levels[place[begin + k]]) for k in range(len(waiting))]

    return score


ORDERS: Mapping[str, Score] = MappingProxyType(
    {
        "fifo": _fifo,
        "lrf": _lrf,
        "sjf-est": _sjf_est,
        "spf-est": _spf_est,
        "qssf": _forecast("qssf"),
        "learned": _forecast("learned"),
        "learned-once": _forecast("learned-once"),
    }
)
"""The leaderboard's orders that need no suspension; ``est``: users' time limits are the run times.
``learned`` is its index before a job has run."""


def scores_of(
    policy: str,
    waiting: Sequence[QueuedJob],
    running: Sequence[QueuedJob],
    past: Sequence[EndedJob],
) -> list[float]:
    """A policy's number for each waiting job, lower first; those of different passes compare.

    Raises:
      JaxschedError: an unknown policy, or scores that are no numbers.
    """
    if policy not in ORDERS:
        raise JaxschedError(f"policy is {policy!r}; accepted: {', '.join(ORDERS)}")
    if not waiting:
        return []
    scores = ORDERS[policy](waiting, running, past)
    if len(scores) != len(waiting) or np.isnan(np.asarray(scores, np.float64)).any():
        raise JaxschedError(f"{policy}: scores are no numbers")
    return [float(score) for score in scores]


def ordered(
    waiting: Sequence[QueuedJob],
    scores: Scores,
    *,
    now: int,
    longest_wait_s: float,
    ranks: Sequence[int] | None = None,
) -> list[QueuedJob]:
    """The waiting jobs, first in line first.

    Who has waited for ``longest_wait_s`` goes before everybody who has not, in order of submission.
    Ties go to the earlier submission, then to the lower number.

    Args:
      waiting: the jobs.
      scores: of each job, lower first.
      now: Unix time.
      longest_wait_s: s.
      ranks: of each job: larger ones go first, whatever the policy says and however long others
        have waited; None: all are equal.
    """

    def place(row: tuple[QueuedJob, float, int]) -> tuple[Any, ...]:
        job, score, rank = row
        aged = now - job.submit >= longest_wait_s
        return -rank, not aged, 0.0 if aged else score, by_submission(job)

    rows = zip(waiting, scores, ranks or [0] * len(waiting), strict=True)
    return [job for job, _, _ in sorted(rows, key=place)]
