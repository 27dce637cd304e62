"""DL2's episodes as recorded schedules: stacks of workers and parameter servers, slot by slot."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2 import dynamics
from jaxsched.envs.dl2.dynamics import ONE_PS, ONE_WORKER
from jaxsched.envs.dl2.environment import DL2, StepMetrics
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.records import job_times, recorder
from jaxsched.envs.dl2.slotwise import DL2Slots
from jaxsched.jobs.lanes import stacks
from jaxsched.jobs.schedule import (
    Band,
    Fact,
    Line,
    Pieces,
    Schedule,
    by_job,
    counted,
    steps,
    usual_lines,
)
from jaxsched.systems.recording import Recording
from jaxsched.types import Array


class Moment(NamedTuple):
    """What is kept of a step; ``[N]`` of each job."""

    slot: Array
    ended: Array
    tasks: Array  # int32 [N], held when the slot ended
    gpus: Array
    cpus: Array


@cache
def recording(env: DL2) -> Recording:
    """How episodes of ``env``, a ``DL2`` or ``DL2Slots``, are recorded."""
    return Recording(env, recorder(env), _schedule, _moment, _clock)


def _moment(env: DL2, step: Step, params: Params) -> Moment:
    del params
    told: StepMetrics = step.timestep.metrics
    if isinstance(env, DL2Slots):
        workers = jnp.clip(step.action.workers, 0, env.max_workers)
        servers = jnp.clip(step.action.ps, 0, env.max_ps if env.comm == "ps" else 0)
        there = dynamics.is_active(step.before.cluster)
        tasks = jnp.where(there, workers * ONE_WORKER + servers * ONE_PS, 0)
    else:
        tasks = dynamics.held_after(step.before.tasks, told.increment)
    return Moment(told.slot, told.slot_ended, tasks, told.report.gpus, told.report.cpus)


def _clock(env: DL2, state: Any) -> Array:
    cluster = state.cluster if isinstance(env, DL2Slots) else state
    seconds: Array = cluster.slot * env.slot_seconds
    return seconds


def _schedule(env: DL2, params: Params, episode: int, trajectory: Trajectory) -> Schedule:
    """When each job trained, with its tasks where the moments are kept."""
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], trajectory.records)
    times = job_times(env, params, np.array([episode]), one)
    count, unit = int(params.jobs.num_jobs[episode]), float(env.slot_seconds)
    submit, start, finish = (column[0, :count] for column in times[:3])
    model = np.asarray(params.jobs.model)[episode, :count].astype(np.int64)
    told = by_job("dl2", submit, start, finish, model=model, models=NAMES)
    if trajectory.moments is None:
        return told
    kept: Any = trajectory.moments
    ended = np.flatnonzero(kept.ended)
    kept = jax.tree.map(lambda leaf: np.asarray(leaf)[ended], kept)
    begins = kept.slot * unit
    slots = [(begin, begin + unit) for begin in begins.tolist()]
    tasks: Any = kept.tasks[:, :count]
    workers, top = _stacked(slots, np.asarray(dynamics.workers(tasks)), 0, finish)
    servers, height = _stacked(slots, np.asarray(dynamics.parameter_servers(tasks)), top, finish)
    bands = [Band("workers", top)] + ([Band("parameter servers", height)] if height else [])
    return replace(
        told,
        unit="task",
        bands=tuple(bands),
        pieces=Pieces.of([*workers, *servers]),
        facts=_facts(params, episode, count, tasks, unit),
        lines=_lines(env, kept, submit, start, finish),
    )


def _stacked(
    slots: list[tuple[float, float]], held: np.ndarray, first: int, finish: np.ndarray
) -> tuple[list[Any], int]:
    """Stacks of tasks from row ``first`` on, each job's until it finishes; and their height."""
    amounts = [{int(job): int(row[job]) for job in np.flatnonzero(row)} for row in held]
    pieces, most = stacks(slots, amounts, first)
    cut = [
        (job, row, rows, start, min(end, finish[int(job)]) if finish[int(job)] > start else end, 0)
        for job, row, rows, start, end, _ in pieces
    ]
    return cut, most


def _facts(params: Params, episode: int, count: int, tasks: Any, unit: float) -> tuple[Fact, ...]:
    columns = {"epochs": params.jobs.true_epochs, "estimated epochs": params.jobs.epochs}
    workers, servers = dynamics.workers(tasks), dynamics.parameter_servers(tasks)
    slots = np.maximum((workers > 0).sum(axis=0), 1)
    facts = [
        Fact(name, np.asarray(column, np.float64)[episode, :count].tolist())
        for name, column in columns.items()
    ]
    return (
        *facts,
        Fact("workers, mean of its slots", (workers.sum(axis=0) / slots).tolist()),
        Fact("parameter servers, mean", (servers.sum(axis=0) / slots).tolist()),
        Fact("time in slots with a worker", ((workers > 0).sum(axis=0) * unit).tolist(), "s"),
    )


def _lines(
    env: DL2, kept: Any, submit: np.ndarray, start: np.ndarray, finish: np.ndarray
) -> tuple[Line, ...]:
    unit = float(env.slot_seconds)
    begins = kept.slot * unit
    totals = {"GPUs": env.num_servers * env.gpus_per_server, "CPU cores": env.num_servers
              * env.cpus_per_server}  # fmt: skip
    lines = list(usual_lines(submit, start, finish, Pieces.of([]), {}))
    for name, used in (("GPUs", kept.gpus), ("CPU cores", kept.cpus)):
        if totals[name]:
            times, values = counted(begins, begins + unit, used / totals[name])
            lines.append(Line(name, "utilisation", times, values))
    for name, amount in (
        ("workers", dynamics.workers(kept.tasks)),
        ("parameter servers", dynamics.parameter_servers(kept.tasks)),
    ):
        if amount.any():
            total = counted(begins, begins + unit, amount.sum(axis=1))
            lines.append(Line(name, "tasks", *steps(*total), stacked=True))
    return tuple(lines)
