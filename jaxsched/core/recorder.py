"""The standard record of an episode: which jobs started and finished when, and sums over steps.

An environment whose ``timestep.metrics`` is a ``JobEvents`` needs no recorder of its own; others
say how their metrics read as one. Axes: ``n`` jobs of a table, ``k`` starts and ``m`` finishes that
one step can report.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.evaluation import Recorder
from jaxsched.types import Array, TimeStep

NEVER = -1


class JobEvents(NamedTuple):
    """What one step did to the jobs of the episode's table; rows of -1 (or beyond it) are none.

    Attributes:
      started: int32 ``[k]``, rows of jobs that started.
      start: ``[k]``, when (s).
      finished: int32 ``[m]``, rows of jobs that finished.
      finish: ``[m]``, when (s).
      of_started: name -> ``[k, ...]``, what is noted of a job at its start.
      amounts: name -> scalar, summed over the episode.
    """

    started: Array
    start: Array
    finished: Array
    finish: Array
    of_started: Mapping[str, Array] = {}
    amounts: Mapping[str, Array] = {}


class JobLog(NamedTuple):
    """One episode, as ``job_recorder`` gathers it.

    Attributes:
      start: ``[n]`` in table order, s; -1 before.
      finish: ``[n]``, s; -1 before.
      noted: name -> ``[n, ...]``, 0 before the start.
      amounts: name -> scalar.
      total_reward: float32 scalar.
      steps: int32 scalar, steps that were decisions.
    """

    start: Array
    finish: Array
    noted: Mapping[str, Array]
    amounts: Mapping[str, Array]
    total_reward: Array
    steps: Array


def events_in_metrics(timestep: TimeStep) -> JobEvents:
    """The events of an environment whose metrics are just these."""
    events: JobEvents = timestep.metrics
    return events


@cache
def job_recorder(env: Any, events: Callable[[TimeStep], JobEvents] = events_in_metrics) -> Recorder:
    """Gathers a ``JobLog`` from the steps of one episode.

    The same object for equal arguments: it is a static argument of the evaluation.

    Args:
      env: the environment; its ``max_jobs(params)`` are the jobs of the longest table.
      events: how its time steps read as events.
    """

    def init(params: Any) -> JobLog:
        jobs = env.max_jobs(params)
        like = jax.eval_shape(lambda p: events(env.reset(jax.random.key(0), p)[1]), params)
        noted = {k: jnp.zeros((jobs, *v.shape[1:]), v.dtype) for k, v in like.of_started.items()}
        return JobLog(
            start=jnp.full(jobs, NEVER, like.start.dtype),
            finish=jnp.full(jobs, NEVER, like.finish.dtype),
            noted=noted,
            amounts={name: jnp.zeros((), v.dtype) for name, v in like.amounts.items()},
            total_reward=jnp.float32(0),
            steps=jnp.int32(0),
        )

    def update(log: JobLog, timestep: TimeStep, playing: Array) -> JobLog:
        step, nobody = events(timestep), log.start.shape[0]  # out of range: dropped
        started = jnp.where((step.started >= 0) & playing, step.started, nobody)
        finished = jnp.where((step.finished >= 0) & playing, step.finished, nobody)
        return JobLog(
            start=log.start.at[started].set(step.start, mode="drop"),
            finish=log.finish.at[finished].set(step.finish, mode="drop"),
            noted={
                name: column.at[started].set(step.of_started[name], mode="drop")
                for name, column in log.noted.items()
            },
            amounts={
                name: total + jnp.where(playing, step.amounts[name], 0).astype(total.dtype)
                for name, total in log.amounts.items()
            },
            total_reward=log.total_reward + jnp.where(playing, timestep.reward, 0.0),
            steps=log.steps + playing,
        )

    return Recorder(init, update)
