"""Chic's episodes: records of workloads, metrics over them, schedules, golden cases.

What happened to each workload is section 8 of the specification. Schedules show stacks of workers
and parameter servers by phase. A golden case (section 14) is a workload table with a list of
actions, or Optimus.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, gather
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.elastic.models import NAMES
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import IntervalMetrics, OptimusIntervals, optimus
from jaxsched.envs.chic.rules import NUM_MODELS, SCALARS, WORKERS, Params, unpack
from jaxsched.envs.chic.rules.dynamics import column
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.jobs.lanes import stacks
from jaxsched.jobs.metrics import Metric, masked_mean
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
from jaxsched.systems.cases import (
    Episode,
    actions_of,
    list_of,
    listed_actions,
    moment,
    options_of,
    rows_of,
    shared_length,
)
from jaxsched.systems.recording import Recording, time_of
from jaxsched.types import NO_JOB, Array, TimeStep

NEVER = -1.0

OWN_METRICS = {
    "phases": Metric("phases", "", "neither", 0, "training phases"),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """One episode; arrays ``[n]`` in table order, scalars."""

    start: Array  # float, when it first trained; -1 before
    finish: Array  # float, -1 before
    progress: Array  # float, iterations made
    gpu_seconds: Array  # float, allocated to training workloads
    total_reward: Array  # float
    steps: Array  # int32
    phases: Array  # int32, calls of train(); decision instants of the interval view
    missed: Array  # int32, actions that chose a row without workload
    blocked: Array  # int32, actions whose unit did not fit


def _nothing(num_jobs: int) -> Records:
    never, zeros = jnp.full(num_jobs, NEVER, float), jnp.zeros(num_jobs, float)
    zero, none = jnp.zeros((), float), jnp.int32(0)
    return Records(never, never, zeros, zero, zero, none, none, none, none)


@cache
def recorder(env: Chic | OptimusIntervals) -> Recorder:
    """Gathers ``Records`` from the steps of one episode."""

    def init(params: Params) -> Records:
        return _nothing(env.max_jobs(params))

    if isinstance(env, OptimusIntervals):
        return Recorder(init, _after_interval)
    of_jobs = gather(init, _events)

    def update(records: Records, timestep: TimeStep, playing: Array) -> Records:
        step = timestep.metrics
        moved = jnp.where(step.trains & playing, step.job, records.start.shape[0])  # or dropped
        following: Records = of_jobs.update(records, timestep, playing)
        made = step.progress.astype(records.progress.dtype)
        return following._replace(progress=records.progress.at[moved].add(made, mode="drop"))

    return Recorder(init, update)


def _amounts(timestep: TimeStep) -> dict[str, Array]:
    """What both views sum over an episode."""
    step = timestep.metrics
    return {
        "gpu_seconds": step.gpu_seconds,
        "total_reward": timestep.reward,
        "phases": step.phase,
    }


def _events(records: Records, timestep: TimeStep) -> JobEvents:
    """A workload starts when it first trains."""
    step = timestep.metrics
    first = step.trains & (records.start.at[step.job].get(mode="clip") < 0)
    return JobEvents(
        started=jnp.where(first, step.job, NO_JOB),
        finished=jnp.where(step.finishes, step.job, NO_JOB),
        of_started={"start": step.began},
        of_finished={"finish": step.ended},
        amounts={
            **_amounts(timestep),
            "steps": step.decides | step.phase,
            "missed": step.missed,
            "blocked": step.blocked,
        },
    )


def _after_interval(records: Records, timestep: TimeStep, playing: Array) -> Records:
    """Intervals report every workload of the table: a select is cheaper than a scatter."""
    step = timestep.metrics
    first = step.trains & (records.start < 0) & playing
    sums = {
        name: getattr(records, name) + jnp.where(playing, amount, 0)
        for name, amount in {**_amounts(timestep), "steps": step.phase}.items()
    }
    return records._replace(
        **sums,
        start=jnp.where(first, step.began, records.start),
        finish=jnp.where(step.finishes & playing, step.finish, records.finish),
        progress=records.progress + jnp.where(playing, step.progress, 0.0),
    )


def summarise(
    env: Chic | OptimusIntervals, params: Params, episodes: Any, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode, float64 ``[E]``.

    Times are seconds. Averages, the median and the makespan are over finished workloads; without
    any they are 0, and so is the utilisation.

    Args:
      env: the environment the records come from, of either view.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.
    """
    records = jax.tree.map(np.asarray, records)
    submit = np.asarray(params.jobs.submit_time)[np.asarray(episodes), :-1].astype(np.float64)
    start, finish = (np.asarray(x, np.float64) for x in (records.start, records.finish))
    done = np.asarray(finish >= 0)
    some = np.any(done, axis=-1)
    jct = np.where(done, finish - submit, np.nan)
    jct = np.where(some[:, None], jct, 0.0)
    makespan = np.where(done, finish, -np.inf).max(axis=-1) - submit[:, 0]
    makespan = np.where(some, makespan, 0.0)
    available = env.capacity[0] * makespan
    used = np.asarray(records.gpu_seconds, np.float64)
    result = {
        "finished": done.sum(axis=-1),
        "avg_jct": masked_mean(finish - submit, done),
        "median_jct": np.nanmedian(jct, axis=-1),
        "min_jct": np.nanmin(jct, axis=-1),
        "max_jct": np.nanmax(jct, axis=-1),
        "avg_wait": masked_mean(start - submit, done),
        "makespan": makespan,
        "utilization": np.divide(used, available, out=np.zeros_like(used), where=available > 0),
        "total_reward": records.total_reward,
        "steps": records.steps,
        "phases": records.phases,
        "missed": records.missed,
        "blocked": records.blocked,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


def remaining(params: Params, episode: int, progress: Any) -> np.ndarray:
    """Iterations that each workload of one episode still has, float64 ``[n]``, of those made."""
    _, iterations = unpack(np.asarray(params.jobs.workload)[episode, :-1])
    return iterations - np.asarray(progress, np.float64)


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
    clock = None if isinstance(env, OptimusIntervals) else time_of
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


KEYS = (
    *("capacity", "I", "pair", "max_decisions", "stop_on_cond2", "stop_on_one", "void_outside"),
    "penalty_once",
)
OPTIONS = {**dict(zip(KEYS, KEYS, strict=True)), "I": "window"}
"""Options of the environment by their name in a case."""
NUMBERS = tuple(name for name in SCALARS if name != "interval")
OPTIMUS_OPTIONS = {"capacity": "capacity", "on_block": "on_block"}
OPTIMUS_NUMBERS = ("interval", "max_time")
UNLIMITED = 2**62  # a case is as long as it is
METRICS = ("finished", "avg_jct", "max_jct", "avg_wait", "makespan", "utilization")
ACTION_METRICS = (*METRICS, "total_reward", "steps", "phases")
OPTIMUS_METRICS = (*METRICS, "min_jct", "median_jct")
WHOLE = ("finished", "steps", "phases")
LISTED_DECISIONS = 12


def read(case: Mapping[str, Any]) -> Episode:
    """A case with a policy, with actions, or with neither.

    The trajectory of actions has every step, with its number under ``step``.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs 'policy' or 'actions', not both")
    table = from_records(list_of(case, "jobs"), schema=CHIC_JOBS)
    length = shared_length(len(table))
    config = case.get("config")
    if "policy" in case or (isinstance(config, Mapping) and "interval" in config):
        if case.get("policy", "optimus") != "optimus":
            raise JaxschedError(f"policy is {case['policy']!r}; accepted: 'optimus'")
        options, numbers = options_of(case, OPTIMUS_OPTIONS, OPTIMUS_NUMBERS)
        intervals = OptimusIntervals(**options, max_instants=UNLIMITED)
        params = intervals.params([table], length=length, **numbers)
        result = partial(_of_optimus, len(table))
        return Episode(intervals, params, optimus(intervals), result, kept=_decision)
    actions = actions_of({"actions": [], **case}, end=None)
    options, numbers = options_of(case, OPTIONS, NUMBERS)
    env = Chic(**options, max_stalls=UNLIMITED)
    params = env.params([table], length=length, **numbers)
    policy, weights = listed_actions([min(max(action, -1), env.void) for action in actions])
    return Episode(
        env,
        params,
        policy,
        partial(_of_actions, params, len(table), actions),
        weights,
        kept=_row,
        most_steps=len(actions),
        past_end=True,
    )


def _row(env: Chic, step: Step, params: Params) -> OrderedDict[str, Array]:
    """A step as the trajectory lists it; fields after ``done`` are those of phases alone."""
    return OrderedDict(
        time=step.before.time,
        mask=step.mask.astype(int),
        obs=step.observation,
        action=step.action,
        terminal=env.terminal(step.before, params),  # whether S' was reached before the action
        reward=step.timestep.reward,
        done=step.timestep.done,
        time_after=step.after.time,
        progress=step.records.progress,  # iterations made by each workload
        phase=step.timestep.metrics.phase,
    )


def _of_actions(
    params: Params, count: int, actions: list[int], trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    def left_of(progress: Any) -> list[int]:
        left: list[int] = remaining(params, 0, progress)[:count].astype(int).tolist()
        return left

    steps = rows_of(trajectory.moments)
    for row, action in zip(steps, actions, strict=True):
        row["action"] = action
        progress = row.pop("progress")
        if row.pop("phase"):
            row["remaining"] = left_of(progress)
        else:
            del row["time_after"]
    times, left = _times(trajectory.records, count), left_of(trajectory.records.progress)
    return {
        "metrics": {name: metrics[name] for name in ACTION_METRICS},
        "jobs": [{**job, "remaining": n} for job, n in zip(times, left, strict=True)],
        "trajectory": steps,
    }


def _decision(env: OptimusIntervals, step: Step, params: Params) -> dict[str, Array]:
    """What Optimus gives each workload at an instant."""
    return {"time": env.time(step.before, params), "units": step.action}


def _of_optimus(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    found = {name: metrics[name] for name in OPTIMUS_METRICS}
    decisions = [
        {
            "time": row["time"],
            "alloc": {str(job): units for job, units in enumerate(row["units"]) if any(units)},
        }
        for row in rows_of(trajectory.moments)[:LISTED_DECISIONS]
    ]
    found["decisions"] = int(trajectory.records.phases)
    return {"metrics": found, "jobs": _times(trajectory.records, count), "decisions": decisions}


def _times(records: Any, count: int) -> list[dict[str, float | None]]:
    """Start and finish of each workload, None before."""
    return [
        {"start": moment(start), "finish": moment(finish)}
        for start, finish in zip(records.start[:count], records.finish[:count], strict=True)
    ]
