"""What happened to each workload of an episode, and the metrics over it (section 8)."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import NOBODY, JobEvents, gather
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import OptimusIntervals
from jaxsched.envs.chic.tables import Params, unpack
from jaxsched.jobs.metrics import Metric, masked_mean
from jaxsched.types import Array, TimeStep

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
        started=jnp.where(first, step.job, NOBODY),
        finished=jnp.where(step.finishes, step.job, NOBODY),
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
