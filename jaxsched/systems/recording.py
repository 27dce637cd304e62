"""Recorded schedules of a system's episodes, and the default for systems without their own."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.core.trajectory import Clock, Moment, Trajectory, no_moment
from jaxsched.jobs.lanes import Lanes
from jaxsched.jobs.schedule import Band, Fact, Pieces, Schedule, by_job, most_at_once
from jaxsched.types import Array


class Recording(NamedTuple):
    """Functions that pictures of a system need; the same object for equal environments.

    Attributes:
      env: the environment that is played: the one asked for, or one with the same schedule whose
        steps say more of it.
      recorder: gathers the records that ``schedule`` reads.
      schedule: ``schedule(env, params, episode, trajectory)``, made of the records and, if kept,
        the moments; None if these do not suffice. The caller fills in names of system, policy and
        episode, and decisions.
      moment: ``moment(env, step, params)``, the part of a step that is kept (compiled into the
        program).
      clock: ``clock(env, state) -> seconds`` of a state; None: the seconds that passed since the
        reset.
    """

    env: Environment
    recorder: Recorder
    schedule: Callable[[Any, Any, int, Trajectory], Schedule | None]
    moment: Moment = no_moment
    clock: Clock | None = None


def time_of(env: Any, state: Any) -> Array:
    """The clock of environments whose states have a ``time`` in seconds."""
    del env
    seconds: Array = state.time
    return seconds


def running_jobs(env: Any, params: Any, episode: int, trajectory: Trajectory) -> Schedule | None:
    """Each job has a row while it runs, the first free one.

    Records ``start``, ``finish`` and ``submit`` are seconds.
    """
    del params, episode
    schedule = schedule_of_columns(env.name, trajectory.records)
    if schedule is None:
        return None
    start, finish = schedule.start, schedule.finish
    ran = np.flatnonzero((start >= 0) & (finish >= start))
    most = int(most_at_once(start[ran], finish[ran]))
    lanes, entries = Lanes(0, most), []
    for job in ran[np.argsort(start[ran], kind="stable")].tolist():
        for row, count in lanes.take(1, start[job], finish[job]):
            entries.append((job, row, count, start[job], finish[job], 0))
    bands = (Band("running jobs", max(most, 1)),)
    return replace(schedule, bands=bands, pieces=Pieces.of(entries))


def schedule_of_columns(system: str, records: Any) -> Schedule | None:
    """A row for each job, of records by name; None where they lack ``start`` or ``finish``.

    Args:
      system: name of the system.
      records: name -> values; those with one for each job become facts of jobs that started,
        ``submit`` is known.
    """
    if not isinstance(records, Mapping) or not {"start", "finish"} <= set(records):
        return None
    start, finish = (np.asarray(records[name], np.float64) for name in ("start", "finish"))
    columns = {
        name: np.where(start >= 0, np.asarray(values, np.float64), np.nan)
        for name, values in records.items()
        if np.shape(values) == start.shape and name not in ("start", "finish", "submit")
    }
    submit = np.asarray(records.get("submit", np.maximum(start, 0.0)), np.float64)
    return by_job(
        system,
        np.where(np.isfinite(submit), submit, 0.0),
        start,
        finish,
        facts=tuple(Fact(name, column.tolist()) for name, column in columns.items()),
    )
