"""How a system's episodes become recorded schedules, and the one of systems that say nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy
from jaxsched.core.recorder import NOBODY, JobEvents
from jaxsched.core.trail import Clock, Moment, Step, Trail
from jaxsched.errors import JaxschedError
from jaxsched.jobs.lanes import Lanes
from jaxsched.jobs.schedule import NEVER, Band, Fact, Pieces, Schedule, by_job
from jaxsched.types import PyTree


class Recording(NamedTuple):
    """What pictures of a system need; the same object for equal environments.

    Attributes:
      env: the environment that is played: the one asked for, or one that plays the same schedule
        and tells more of it.
      moment: what is kept of each step (static: compiled into the program that plays).
      schedule: ``schedule(env, params, episode, trail)``, made of what was kept; names of system,
        policy and episode, and decisions, are filled in by who asked.
      clock: ``clock(env, state) -> seconds`` of a state; None: the seconds that passed since the
        reset.
      inputs: names of the numbers of an observation; those of its spec if empty.
      answers: names of the numbers of an action that is no choice; likewise.
    """

    env: Environment
    moment: Moment
    schedule: Callable[[Any, Any, int, Trail], Schedule]
    clock: Clock | None = None
    inputs: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class Staged(NamedTuple):
    """A golden case, ready to be played.

    Attributes:
      env: the environment.
      params: its parameters; the case is episode 0.
      policy: the policy, or what plays the listed actions.
      weights: of the policy.
      most_steps: steps that the case lists; None: to the end.
      state: where the episode begins; None: where resets begin. Its first action has no effect.
    """

    env: Environment
    params: Any
    policy: Policy
    weights: PyTree = ()
    most_steps: int | None = None
    state: PyTree | None = None


def listed_actions(actions: Any) -> tuple[Policy, PyTree]:
    """What plays a list of actions one after the other, the last one from then on; its weights.

    Args:
      actions: pytree of arrays ``[n, ...]``.
    """
    return _LISTED, actions


def _first(params: Any) -> Any:
    del params
    return np.int32(0)


def _act(weights: PyTree, memory: Any, view: Any, key: Any) -> tuple[PyTree, Any]:
    import jax
    import jax.numpy as jnp

    del view, key

    def entry(leaf: Any) -> Any:
        return jnp.asarray(leaf)[jnp.minimum(memory, leaf.shape[0] - 1)]

    return jax.tree.map(entry, weights), memory + 1


_LISTED = Policy("listed actions", _first, _act)


@cache
def job_recording(env: Any) -> Recording:
    """That of an environment whose ``timestep.metrics`` is a ``JobEvents``.

    Jobs have a row each while they run, from the first that is free on. Of what the events name,
    ``start``, ``finish`` and ``submit`` are seconds.
    """
    return Recording(env, _events, _schedule_of_events)


def _events(env: Any, step: Step, params: Any) -> PyTree:
    del params
    happened = step.timestep.metrics
    if not isinstance(happened, JobEvents):
        raise JaxschedError(f"{env.name}: does not say how its episodes are drawn")
    return happened


def _schedule_of_events(env: Any, params: Any, episode: int, trail: Trail) -> Schedule:
    events: JobEvents = trail.moments
    del episode
    num_jobs = int(env.max_jobs(params))
    columns = {"start": np.full(num_jobs, NEVER), "finish": np.full(num_jobs, NEVER)}
    for rows, values in (
        (np.asarray(events.started), events.of_started),
        (np.asarray(events.finished), events.of_finished),
    ):
        there = rows != NOBODY
        for name, value in values.items():
            column = columns.setdefault(name, np.full(num_jobs, np.nan))
            each = np.asarray(value)
            if each.ndim < rows.ndim:  # one number for all
                each = np.broadcast_to(each[..., None], rows.shape)
            if each.shape == rows.shape:
                column[rows[there]] = each[there]
    schedule = schedule_of_columns(env.name, columns)
    assert schedule is not None
    start, finish = schedule.start, schedule.finish
    ran = np.flatnonzero((start >= 0) & (finish >= start))
    most = _most_at_once(start[ran], finish[ran])
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
      records: name -> values; those with one for each job become facts, ``submit`` is known.
    """
    if not isinstance(records, Mapping) or not {"start", "finish"} <= set(records):
        return None
    start, finish = (np.asarray(records[name], np.float64) for name in ("start", "finish"))
    columns = {
        name: np.asarray(values, np.float64)
        for name, values in records.items()
        if np.shape(values) == start.shape and name not in ("start", "finish")
    }
    submit = columns.pop("submit", np.where(start >= 0, start, 0.0))
    return by_job(
        system,
        np.where(np.isfinite(submit), submit, 0.0),
        start,
        finish,
        facts=tuple(Fact(name, column.tolist()) for name, column in columns.items()),
    )


def _most_at_once(start: np.ndarray, finish: np.ndarray) -> int:
    times = np.concatenate([finish, start])
    change = np.concatenate([-np.ones(len(finish)), np.ones(len(start))])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))
