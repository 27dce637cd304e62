"""Chic's episodes as recorded schedules: stacks of workers and parameter servers by phase."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.models import NAMES
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import IntervalMetrics, OptimusIntervals
from jaxsched.envs.chic.records import recorder
from jaxsched.envs.chic.rows import column
from jaxsched.envs.chic.tables import NUM_MODELS, WORKERS, Params, unpack
from jaxsched.jobs.lanes import stacks
from jaxsched.jobs.schedule import (
    Band,
    Fact,
    Line,
    Pieces,
    Schedule,
    by_job,
    counted,
    usual_lines,
)
from jaxsched.systems.recording import Recording
from jaxsched.types import Array


class Moment(NamedTuple):
    """What is kept of a step; ``[I]`` of each row of the window, or ``[n]`` of each workload.

    Attributes:
      phase: bool, workloads trained.
      began: s.
      ended: s, the end of the phase; of an interval the next instant.
      job: int32, workload of each row.
      trains: bool.
      workers: int32.
      servers: int32.
      until: s, when the workload finished; ``ended`` where it did not.
      finishes: bool.
    """

    phase: Array
    began: Array
    ended: Array
    job: Array
    trains: Array
    workers: Array
    servers: Array
    until: Array
    finishes: Array


@cache
def recording(env: Chic | OptimusIntervals) -> Recording:
    """How episodes of ``env``, of either view, are recorded."""
    clock = None if isinstance(env, OptimusIntervals) else _clock
    return Recording(env, recorder(env), _schedule, _moment, clock)


def _moment(env: Chic | OptimusIntervals, step: Step, params: Params) -> Moment:
    told = step.timestep.metrics
    if isinstance(told, IntervalMetrics):
        assert isinstance(env, OptimusIntervals)
        units = jnp.maximum(step.action, 0)
        ended = told.began + env.seconds_between(params)
        return Moment(
            phase=told.phase,
            began=told.began,
            ended=ended,
            job=jnp.arange(told.trains.shape[0], dtype=jnp.int32),
            trains=told.trains,
            workers=units[:, 0],
            servers=units[:, 1],
            until=jnp.where(told.finishes, told.finish, ended),
            finishes=told.finishes,
        )
    rows = step.before.rows
    return Moment(
        phase=told.phase,
        began=told.began,
        ended=told.ended,
        job=told.job,
        trains=told.trains,
        workers=column([row.workers for row in rows]),
        servers=column([row.servers for row in rows]),
        until=jnp.broadcast_to(told.ended, told.trains.shape),
        finishes=told.finishes,
    )


def _clock(env: Chic, state: Any) -> Array:
    del env
    seconds: Array = state.time
    return seconds


def _schedule(
    env: Chic | OptimusIntervals, params: Params, episode: int, trajectory: Trajectory
) -> Schedule:
    """When each workload trained, with its tasks where the moments are kept."""
    count, records = int(params.jobs.num_jobs[episode]), trajectory.records
    submit = np.asarray(params.jobs.submit_time, np.float64)[episode, :count]
    start, finish = (np.asarray(x, np.float64)[:count] for x in (records.start, records.finish))
    model, iterations = unpack(np.asarray(params.jobs.workload)[episode, :count])
    kinds = NAMES[:NUM_MODELS]
    told = by_job("chic", submit, start, finish, model=np.asarray(model, np.int64), models=kinds)
    if trajectory.moments is None:
        return told
    there = np.flatnonzero(np.asarray(trajectory.moments.phase))
    kept: Any = jax.tree.map(lambda leaf: np.asarray(leaf)[there], trajectory.moments)
    times = list(zip(kept.began.tolist(), kept.ended.tolist(), strict=True))
    workers, top = _stacked(times, kept, kept.workers, 0)
    servers, height = _stacked(times, kept, kept.servers, max(top, 1))
    gpus = _gpus(kept, model)
    return replace(
        told,
        unit="task",
        bands=(Band("workers", max(top, 1)), Band("parameter servers", max(height, 1))),
        pieces=Pieces.of([*workers, *servers]),
        facts=(
            Fact("iterations", iterations.tolist()),
            Fact("phases trained", _phases(kept, count)),
        ),
        lines=_lines(env, kept, submit, start, finish, gpus),
    )


def _stacked(
    times: list[tuple[float, float]], kept: Any, units: np.ndarray, first: int
) -> tuple[list[Any], int]:
    """Stacks of units of the workloads that train; each ends where its workload finishes."""
    amounts = [
        {int(job): int(n) for job, n in zip(jobs[t], u[t], strict=True)}
        for jobs, u, t in zip(kept.job, units, kept.trains, strict=True)
    ]
    pieces, most = stacks(times, amounts, first)
    done = {
        int(kept.job[at, row]): float(kept.until[at, row])
        for at, row in zip(*np.nonzero(kept.finishes & kept.trains), strict=True)
    }
    cut = [
        (job, row, rows, start, min(end, done.get(int(job), end)), 0)
        for job, row, rows, start, end, _ in pieces
    ]
    return cut, most


def _gpus(kept: Any, model: np.ndarray) -> np.ndarray:
    """GPUs that trained in each phase."""
    each = WORKERS[:, 0][model[np.minimum(kept.job, len(model) - 1)]]
    held: np.ndarray = np.where(kept.trains, kept.workers * each, 0).sum(axis=1)
    return held


def _phases(kept: Any, count: int) -> list[int]:
    trained = np.bincount(kept.job[kept.trains], minlength=count)
    return [int(number) for number in trained[:count]]


def _lines(
    env: Chic | OptimusIntervals,
    kept: Any,
    submit: np.ndarray,
    start: np.ndarray,
    finish: np.ndarray,
    gpus: np.ndarray,
) -> tuple[Line, ...]:
    lines = list(usual_lines(submit, start, finish, Pieces.of([]), {}))
    total = max(env.capacity[0], 1)
    lines.append(Line("GPUs", "utilisation", *counted(kept.began, kept.ended, gpus / total)))
    for name, units in (("workers", kept.workers), ("parameter servers", kept.servers)):
        held = np.where(kept.trains, units, 0).sum(axis=1)
        lines.append(Line(name, "tasks", *counted(kept.began, kept.ended, held), stacked=True))
    return tuple(lines)
