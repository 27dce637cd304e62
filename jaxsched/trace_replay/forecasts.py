"""What scorers say of the jobs of any schedule, a real cluster's too, at their submissions.

A replay scores a job when it is submitted, from the jobs that have ended so far in this very
schedule (``history``). Here the schedule is given: what a queue holds now and what it has done.
Jobs run in one piece. Axes: ``n`` jobs in order of submission, ``F`` features.
"""

import bisect
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.scorers import SCORERS, Predictor, shipped
from jaxsched.types import Array

LATER = 2**31 - 1
"""The start of a job that has not started, the end of one that has not ended."""


class Schedule(NamedTuple):
    """Jobs and what became of them so far; int64 ``[n]``, whole seconds.

    Attributes:
      submit: submissions, not decreasing.
      num_gpus: GPUs, from 1 on.
      group: owners, whole numbers from 0 on.
      start: starts; ``LATER`` for jobs that wait.
      end: ends; ``LATER`` for jobs that have not ended.
    """

    submit: Integers
    num_gpus: Integers
    group: Integers
    start: Integers
    end: Integers


def forecasts(
    schedule: Schedule, scorer: str, predictor: Predictor | None = None
) -> tuple[Integers, Integers]:
    """Levels of all jobs at their submission, lower first, and the features that they come from.

    Args:
      schedule: the jobs.
      scorer: ``qssf``, ``learned`` (the level before a first start) or ``learned-once``.
      predictor: the network; the one that comes with the library if absent.

    Returns:
      int32 ``[n]`` and int32 ``[n, F]``.

    Raises:
      JaxschedError: an unknown scorer, or jobs that are not in order of submission.
    """
    if scorer not in SCORERS:
        raise JaxschedError(f"scorer is {scorer!r}; accepted: {', '.join(SCORERS)}")
    if np.any(np.diff(schedule.submit) < 0):
        raise JaxschedError("jobs are not in order of submission; accepted: sorted ones")
    count = len(schedule.submit)
    room = 1 << max(count, 15).bit_length()
    run_time = np.where(schedule.end < LATER, schedule.end - schedule.start, 1)
    known = hs.known(schedule.submit, schedule.num_gpus, run_time, schedule.group)
    num_rows = int(known.scopes.max()) + 1
    rows = 1 << num_rows.bit_length()
    padded = hs.Known(*(_padded(column, room + 1) for column in known))
    padded.scopes[count:] = rows - 1
    events = np.full(2 * room, room)
    ends = np.zeros(2 * room, bool)
    events[: 2 * count], ends[: 2 * count] = _events(schedule)
    levels, features = _scored(
        scorer,
        rows,
        jax.tree.map(partial(jnp.asarray, dtype=jnp.int32), padded),
        jnp.asarray(events, jnp.int32),
        jnp.asarray(ends),
        jnp.asarray(_padded(np.maximum(run_time, 1), room + 1), jnp.int32),
        jnp.asarray(_padded(schedule.num_gpus, room + 1, 1), jnp.int32),
        jnp.asarray(_padded(schedule.submit, room + 1), jnp.int32),
        jnp.asarray(_padded(_around(schedule, known.scopes[:, -1]), room + 1), jnp.int32),
        shipped() if predictor is None else predictor,
    )
    return np.asarray(levels[:count]), np.asarray(features[:count])


def _padded(values: Any, length: int, value: int = 0) -> Any:
    """With rows of one value at the end."""
    more = length - len(values)
    return np.pad(values, [(0, more), *((0, 0),) * (values.ndim - 1)], constant_values=value)


def _events(schedule: Schedule) -> tuple[Integers, Any]:
    """Jobs whose ends and submissions come one after the other, and which of these are ends.

    At one instant ends come first, those of lower jobs first.
    """
    number = np.arange(len(schedule.submit))
    jobs = np.concatenate([number, number])
    is_end = np.repeat([True, False], len(number))
    times = np.concatenate([schedule.end, schedule.submit])
    order = np.lexsort((jobs, ~is_end, times))
    return jobs[order], is_end[order]


def _around(schedule: Schedule, stream: Integers) -> Integers:
    """Siblings and waiting jobs at each submission, ``[n, 4]``: ``history.Siblings``, waiting."""
    active: dict[int, list[int]] = {}
    starts: list[int] = []
    found = np.zeros((len(stream), 4), np.int64)
    for job, (now, start) in enumerate(zip(schedule.submit, schedule.start, strict=True)):
        mine = [k for k in active.get(int(stream[job]), []) if schedule.end[k] > now]
        running = [k for k in mine if schedule.start[k] < now]
        if running:
            attained = [int(now - schedule.start[k]) for k in running]
            found[job, :3] = len(running), attained[-1], max(attained)
        found[job, 3] = job - bisect.bisect_left(starts, now)
        active[int(stream[job])] = [*mine, job]
        bisect.insort(starts, start)
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _scored(
    scorer: str,
    rows: int,
    known: hs.Known,
    events: Array,
    ends: Array,
    run_time: Array,
    num_gpus: Array,
    submit: Array,
    around: Array,
    predictor: Predictor,
) -> tuple[Array, Array]:
    """A level and features for each job; the last row is of no job."""

    def passed(carry: tuple[Array, Array, Array], event: tuple[Array, Array]) -> tuple[Any, None]:
        table, levels, features = carry
        job, is_end = event
        no_job = len(num_gpus) - 1
        table = hs.completed(table, known, jnp.where(is_end, job, no_job), run_time[job])
        siblings = hs.Siblings(*around[job, :3])
        found = hs.features(table, known, job, siblings, around[job, 3])
        seen = hs.Seen(num_gpus[job], submit[job], found)
        mean_s = hs.of_scopes(table, known, job).mean_s[-1]
        level = SCORERS[scorer](predictor, seen, mean_s)[0]
        place = jnp.where(is_end, no_job, job)
        return (table, levels.at[place].set(level), features.at[place].set(found)), None

    start = (
        hs.nothing_yet(rows),
        jnp.zeros(len(num_gpus), jnp.int32),
        jnp.zeros((len(num_gpus), hs.NUM_FEATURES), jnp.int32),
    )
    (_, levels, features), _ = jax.lax.scan(passed, start, (events, ends))
    return levels, features
