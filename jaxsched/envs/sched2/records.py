"""Per-job records of a SCHED2 episode and the metrics over them (section 8)."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import NOBODY, JobEvents, gather
from jaxsched.envs.sched2.environment import Params, Sched2, StepMetrics
from jaxsched.envs.sched2.slowdown import SENSITIVE
from jaxsched.envs.sched2.tables import NEVER
from jaxsched.errors import JaxschedError
from jaxsched.jobs import metrics
from jaxsched.jobs.metrics import Metric
from jaxsched.types import Array, TimeStep

OWN_METRICS = {
    "fragmentation": Metric("fragmentation", "", "lower", 4, "mean server fragmentation at starts"),
    "relaxed_sensitive": Metric(
        "relaxed sensitive", "", "lower", 3, "share of sensitive multi-GPU jobs not at level 0"
    ),
    "relaxed_insensitive": Metric(
        "relaxed insensitive", "", "lower", 3, "share of insensitive multi-GPU jobs not at level 0"
    ),
    "wait_sensitive": Metric("wait sensitive", "s", "lower", 1, "mean wait, sensitive multi-GPU"),
    "wait_insensitive": Metric(
        "wait insensitive", "s", "lower", 1, "mean wait, insensitive multi-GPU"
    ),
    "reuse_fraction": Metric(
        "reuse", "", "higher", 3, "share of multi-GPU jobs on GPUs last used by level-0 gangs"
    ),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """What happened to each job, ``[n]`` in table order, and two curves in start order."""

    start: Array  # int32, -1 where the job was never started
    finish: Array  # int32, -1 likewise
    level: Array  # int32
    gpus: Array  # uint32 [n, S], GPUs of each server as bit sets
    reused: Array  # bool
    order: Array  # int32, job index of the i-th start, -1 beyond the last
    fragmentation_curve: Array  # float32
    queue_gpus_curve: Array  # int32
    num_started: Array  # int32 scalar
    invalid_actions: Array  # int32 scalar


@cache
def recorder(env: Sched2) -> Recorder:
    """Gathers ``Records`` from the steps of one episode."""

    def init(params: Params) -> Records:
        n = env.max_jobs(params)
        none = jnp.full((n,), -1, jnp.int32)
        return Records(
            start=none,
            finish=none,
            level=jnp.zeros((n,), jnp.int32),
            gpus=jnp.zeros((n, env.num_servers), jnp.uint32),
            reused=jnp.zeros((n,), bool),
            order=none,
            fragmentation_curve=jnp.zeros((n,), jnp.float32),
            queue_gpus_curve=jnp.zeros((n,), jnp.int32),
            num_started=jnp.int32(0),
            invalid_actions=jnp.int32(0),
        )

    of_jobs = gather(init, _events)

    def update(records: Records, timestep: TimeStep, playing: Array) -> Records:
        step: StepMetrics = timestep.metrics
        started = step.start.started & playing
        nth = jnp.where(started, records.num_started, records.order.shape[0])  # or dropped

        def at(array: Array, value: Array) -> Array:
            return array.at[nth].set(value, mode="drop")

        following: Records = of_jobs.update(records, timestep, playing)
        return following._replace(
            order=at(records.order, step.start.job),
            fragmentation_curve=at(records.fragmentation_curve, step.fragmentation),
            queue_gpus_curve=at(records.queue_gpus_curve, step.queue_gpus),
        )

    return Recorder(init, update)


def _events(records: Records, timestep: TimeStep) -> JobEvents:
    """A job that starts: when it finishes is known then."""
    del records
    step: StepMetrics = timestep.metrics
    start = step.start
    row = jnp.where(start.started, start.job, NOBODY)
    return JobEvents(
        started=row,
        finished=row,
        of_started={
            "start": step.time,
            "level": start.level,
            "gpus": start.gpus,
            "reused": start.reused,
        },
        of_finished={"finish": step.time + start.run},
        amounts={"num_started": start.started, "invalid_actions": step.invalid},
    )


def summarise(
    env: Sched2, params: Params, episodes: np.ndarray, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode.

    Args:
      env: the environment the records come from.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.

    Returns:
      name -> float64 ``[E]``, as ``metrics.METRICS`` and ``OWN_METRICS`` describe them.
    """
    records = jax.tree.map(np.asarray, records)
    if np.any(records.finish >= NEVER):
        raise JaxschedError(f"an episode runs past the end of the clock, {NEVER} s; shorten it")
    jobs_of = params.jobs.submit_time, params.jobs.run_time[..., 0], params.jobs.num_gpus
    rows = np.asarray(episodes)
    submit, duration, num_gpus = (np.asarray(c)[rows, :-1].astype(np.int64) for c in jobs_of)
    model = np.asarray(params.jobs.model)[rows, :-1]
    started = records.start >= 0
    jobs = metrics.JobRecords(
        started=started,
        submit=submit,
        start=records.start.astype(np.int64),
        finish=records.finish.astype(np.int64),
        duration=duration,
        num_gpus=num_gpus,
    )
    result = metrics.common(jobs, env.num_servers * env.gpus_per_server)
    nth = np.arange(started.shape[-1]) < records.num_started[..., None]
    result["fragmentation"] = metrics.masked_mean(records.fragmentation_curve, nth)

    multi = started & (jobs.num_gpus > 1)
    sensitive = SENSITIVE[model]
    for name, group in {"sensitive": multi & sensitive, "insensitive": multi & ~sensitive}.items():
        result[f"relaxed_{name}"] = metrics.masked_mean(records.level > 0, group)
        result[f"wait_{name}"] = metrics.masked_mean(jobs.start - jobs.submit, group)
    result["reuse_fraction"] = metrics.masked_mean(records.reused, multi)
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


def mean_curves(records: Any) -> dict[str, np.ndarray]:
    """Fragmentation and GPUs queued at the i-th start, means over the episodes that got there."""
    nth = np.arange(records.order.shape[-1]) < records.num_started[..., None]
    most = int(records.num_started.max(initial=0))
    curves = {"fragmentation": records.fragmentation_curve, "queue_gpus": records.queue_gpus_curve}
    return {
        name: metrics.masked_mean(np.moveaxis(curve, 0, -1), np.moveaxis(nth, 0, -1))[:most]
        for name, curve in curves.items()
    }
