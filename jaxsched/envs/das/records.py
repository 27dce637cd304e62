"""What happened to each job of an episode, and the metrics over it (section 8)."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Policy
from jaxsched.core.recorder import NOBODY, JobEvents, gather
from jaxsched.envs.das.environment import DAS, StepMetrics
from jaxsched.envs.das.simulator.tables import DURATION, NUM_GPUS, SUBMIT, Params
from jaxsched.jobs import metrics
from jaxsched.jobs.metrics import Metric
from jaxsched.types import Array, TimeStep

NEVER = -1

OWN_METRICS = {
    "avg_jct_min": Metric("JCT", "min", "lower", 1, "mean of (finish - submit) / 60"),
    "avg_fee": Metric("fee", "$", "lower", 3, "mean of price * g * run / 3600"),
    "avg_inflation": Metric("inflation", "", "lower", 3, "mean of run / d"),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """One episode; arrays ``[J]`` in table order, scalars.

    ``machines`` is None unless allocations are recorded.
    """

    start: Array  # int32, s; -1 before
    finish: Array  # int32, s; -1 before
    total_reward: Array  # float32
    decisions: Array  # int32
    machines: Array | None  # int8 [J, M], instances on each machine


class PerJob(NamedTuple):
    """Every job of some episodes; float64 ``[E, J]``, NaN where there is no finished job.

    Attributes:
      submit: s.
      start: s.
      finish: s.
      duration: s, run time at full speed.
      num_gpus: GPUs held.
      fee: dollars.
    """

    submit: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    duration: np.ndarray
    num_gpus: np.ndarray
    fee: np.ndarray


@cache
def recorder(env: DAS, *, machines: bool = False) -> Recorder:
    """Gathers ``Records`` from the steps of one episode.

    Args:
      env: the environment.
      machines: record the allocations as well, for pictures and golden cases.
    """

    def init(params: Params) -> Records:
        jobs = env.max_jobs(params)
        never = jnp.full(jobs, NEVER, jnp.int32)
        counts = jnp.zeros((jobs, env.num_servers), jnp.int8) if machines else None
        return Records(never, never, jnp.float32(0), jnp.int32(0), counts)

    return gather(init, _events)


def _events(records: Records, timestep: TimeStep) -> JobEvents:
    step: StepMetrics = timestep.metrics
    machines = {} if records.machines is None else {"machines": step.counts}
    return JobEvents(
        started=jnp.where(step.placed, step.window, NOBODY),
        finished=jnp.where(step.finish >= 0, step.running, NOBODY),
        of_started={"start": step.time, **machines},
        of_finished={"finish": step.finish},
        amounts={"total_reward": timestep.reward, "decisions": step.decides},
    )


def per_job(env: DAS, params: Params, episodes: Any, records: Any) -> PerJob:
    """Start, finish and fee of each job.

    Args:
      env: the environment.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.
    """
    del env
    episodes = np.asarray(episodes)
    table, offset = np.asarray(params.rows), np.asarray(params.offset)[episodes]
    place = np.arange(params.max_jobs)
    count = np.asarray(params.num_jobs)[episodes]
    index = np.minimum(offset[:, None] + place, len(table) - 1)
    finish = np.asarray(records.finish, np.float64)
    done = (place < count[:, None]) & (finish >= 0)

    def kept(values: Any) -> np.ndarray:
        return np.where(done, np.asarray(values, np.float64), np.nan)

    first = np.asarray(params.first, np.int64)[episodes]
    start = kept(records.start)
    num_gpus = kept(table[index, NUM_GPUS])
    return PerJob(
        submit=kept(table[index, SUBMIT] - first[:, None]),
        start=start,
        finish=kept(finish),
        duration=kept(table[index, DURATION]),
        num_gpus=num_gpus,
        fee=float(params.price) * num_gpus * (finish - start) / 3600.0,
    )


def play(env: DAS, policy: Policy, params: Params) -> dict[str, np.ndarray]:
    """Metrics of a policy without weights on every episode of ``params``, float64 ``[E]``."""
    episodes = jnp.arange(env.num_episodes(params))
    outcome = run_episodes(env, policy, recorder(env), params, episodes, jax.random.key(0))
    return summarise(env, params, np.asarray(episodes), outcome.records)


def summarise(env: DAS, params: Params, episodes: Any, records: Any) -> dict[str, np.ndarray]:
    """Metrics of each episode, float64 ``[E]``; averages are over finished jobs.

    Args:
      env: the environment the records come from.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.
    """
    records = jax.tree.map(np.asarray, records)
    jobs = per_job(env, params, episodes, records)
    done = np.isfinite(jobs.finish)
    common = metrics.common(
        metrics.JobRecords(
            done, jobs.submit, jobs.start, jobs.finish, jobs.duration, jobs.num_gpus
        ),
        env.num_servers * env.gpus_per_server,
    )
    del common["avg_effectiveness"]
    result = common | {
        "avg_jct_min": common["avg_jct"] / 60.0,
        "avg_inflation": metrics.masked_mean((jobs.finish - jobs.start) / jobs.duration, done),
        "avg_fee": metrics.masked_mean(jobs.fee, done),
        "steps": records.decisions,
        "return": records.total_reward,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}
