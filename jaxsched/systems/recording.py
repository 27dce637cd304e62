"""How a system's episodes become recorded schedules, and the one of systems that say nothing."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy
from jaxsched.core.recorder import NOBODY, JobEvents
from jaxsched.core.trail import Clock, Moment, Step, Trail
from jaxsched.errors import JaxschedError
from jaxsched.jobs.lanes import Lanes
from jaxsched.jobs.schedule import NEVER, Band, Fact, Pieces, Schedule, usual_lines
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
    """

    env: Environment
    moment: Moment
    schedule: Callable[[Any, Any, int, Trail], Schedule]
    clock: Clock | None = None
    inputs: tuple[str, ...] = ()


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
        (events.started, events.of_started),
        (events.finished, events.of_finished),
    ):
        there = np.asarray(rows) != NOBODY
        for name, value in values.items():
            column = columns.setdefault(name, np.full(num_jobs, np.nan))
            if np.shape(value) == np.shape(rows):
                column[np.asarray(rows)[there]] = np.asarray(value)[there]
    start, finish = columns.pop("start"), columns.pop("finish")
    submit = columns.pop("submit", np.where(start >= 0, start, 0.0))
    submit = np.where(np.isfinite(submit), submit, 0.0)
    ran = np.flatnonzero((start >= 0) & (finish >= start))
    most = _most_at_once(start[ran], finish[ran])
    lanes, entries = Lanes(0, most), []
    for job in ran[np.argsort(start[ran], kind="stable")].tolist():
        for row, rows in lanes.take(1, start[job], finish[job]):
            entries.append((job, row, rows, start[job], finish[job], 0))
    pieces = Pieces.of(entries)
    return Schedule(
        system=env.name,
        policy="",
        episode="",
        unit="job",
        bands=(Band("running jobs", max(most, 1)),),
        pieces=pieces,
        submit=submit,
        start=start,
        finish=finish,
        model=np.zeros(num_jobs, np.int64),
        models=("job",),
        facts=tuple(Fact(name, column.tolist()) for name, column in columns.items()),
        lines=usual_lines(submit, start, finish, pieces, {}),
    )


def _most_at_once(start: np.ndarray, finish: np.ndarray) -> int:
    times = np.concatenate([finish, start])
    change = np.concatenate([-np.ones(len(finish)), np.ones(len(start))])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))
