"""Per-job records of a DL2 episode and the metrics over them (section 8)."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.envs.dl2.environment import Params, StepMetrics
from jaxsched.jobs import metrics
from jaxsched.jobs.metrics import Metric
from jaxsched.types import Array, TimeStep

OWN_METRICS = {
    "avg_jct_slots": Metric("JCT", "slots", "lower", 3, "mean of (finish - submit) / slot"),
    "avg_jct_coarse": Metric(
        "JCT in whole slots", "slots", "lower", 3, "mean of slots from the first to the last"
    ),
    "makespan_coarse": Metric(
        "makespan in whole slots", "slots", "lower", 1, "slots from the first to the last of all"
    ),
    "mean_slot_reward": Metric(
        "reward of a slot", "", "neither", 3, "shares of epochs trained, sum over slots / slots"
    ),
    "cpu_utilization": Metric("CPU utilization", "", "neither", 4, "mean share of cores allocated"),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """What happened to each job, ``[N]`` in table order (the last is no job), and in all."""

    start_slot: Array  # int32, first slot in which it trained, -1: never
    finish_slot: Array  # int32, slot in which it finished, -1: never
    finish_share: Array  # float, share of that slot after which it finished
    progress: Array  # float, epochs trained
    slots: Array  # int32 scalar, slots with jobs
    gpus: Array  # int32 scalar, GPUs allocated, summed over these slots
    cpus: Array  # int32 scalar, CPU cores likewise
    decisions: Array  # int32 scalar
    invalid_actions: Array  # int32 scalar


@cache
def recorder(env: Environment) -> Recorder:
    """Gathers ``Records`` from the steps of one episode of ``DL2`` or ``DL2Slots``."""
    del env

    def init(params: Params) -> Records:
        size = params.jobs.info.shape[1:]
        none = jnp.full(size, -1, jnp.int32)
        zero, zeros = jnp.int32(0), jnp.zeros(size, params.jobs.epochs.dtype)
        return Records(none, none, zeros, zeros, zero, zero, zero, zero, zero)

    def update(records: Records, timestep: TimeStep, playing: Array) -> Records:
        step: StepMetrics = timestep.metrics
        report = step.report
        starts = (records.start_slot < 0) & playing
        ends = (report.finished >= 0) & playing
        return Records(
            start_slot=jnp.where(starts, report.started, records.start_slot),
            finish_slot=jnp.where(ends, report.finished, records.finish_slot),
            finish_share=jnp.where(ends, report.finish_share, records.finish_share),
            progress=jnp.where(playing, step.progress, records.progress),
            slots=records.slots + jnp.where(playing, report.slots, 0),
            gpus=records.gpus + jnp.where(playing, report.gpus, 0),
            cpus=records.cpus + jnp.where(playing, report.cpus, 0),
            decisions=records.decisions + jnp.where(playing, step.decisions, 0),
            invalid_actions=records.invalid_actions + (step.invalid & playing),
        )

    return Recorder(init, update)


class JobTimes(NamedTuple):
    """Times of each job in seconds, float64 ``[E, n]``; -1 where there is none."""

    submit: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    real: np.ndarray  # bool [E, n], a job of the table


def job_times(env: Any, params: Params, episodes: np.ndarray, records: Any) -> JobTimes:
    """When each job was submitted, started and finished."""
    rows, unit = np.asarray(episodes), float(env.slot_seconds)
    submit = np.asarray(params.jobs.submit_time)[rows, :-1].astype(np.float64)
    real = np.arange(submit.shape[1]) < np.asarray(params.jobs.num_jobs)[rows, None]
    start = np.asarray(records.start_slot)[:, :-1].astype(np.float64)
    finish = np.asarray(records.finish_slot)[:, :-1].astype(np.float64)
    share = np.asarray(records.finish_share)[:, :-1].astype(np.float64)
    return JobTimes(
        submit=submit,
        start=np.where(start >= 0, start * unit, -1.0),
        finish=np.where(finish >= 0, (finish + share) * unit, -1.0),
        real=real,
    )


class SlotsSpent(NamedTuple):
    """Completion times of each job in slots, float64 ``[E, n]``; NaN for jobs that are open."""

    coarse: np.ndarray  # whole slots, as DL2's published simulator counts
    fine: np.ndarray  # from submission to the end in the last slot
    last: np.ndarray  # the slot after the job's last
    first: np.ndarray  # the job's first
    real: np.ndarray  # bool, a job of the table


def slots_spent(env: Any, params: Params, episodes: np.ndarray, records: Any) -> SlotsSpent:
    """How many slots each job took."""
    times = job_times(env, params, episodes, records)
    first = np.ceil(times.submit / env.slot_seconds)
    finish = np.asarray(records.finish_slot)[:, :-1]
    done = times.real & (finish >= 0)
    last = np.where(done, finish + 1.0, np.nan)
    fine = np.where(done, times.finish - times.submit, np.nan) / env.slot_seconds
    return SlotsSpent(last - first, fine, last, first, times.real)


def summarise(
    env: Any, params: Params, episodes: np.ndarray, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode.

    Args:
      env: the environment the records come from, ``DL2`` or ``DL2Slots``.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.

    Returns:
      name -> float64 ``[E]``: the metrics of section 8, times in seconds, and in whole slots.
    """
    records = jax.tree.map(np.asarray, records)
    times = job_times(env, params, episodes, records)
    finished = times.real & (times.finish >= 0)
    jct = metrics.masked_mean(times.finish - times.submit, finished)
    spent = slots_spent(env, params, episodes, records)
    end = np.max(np.where(finished, spent.last, 0.0), axis=-1)
    begin = np.min(np.where(times.real, spent.first, np.inf), axis=-1)
    last = np.max(np.where(finished, times.finish, 0.0), axis=-1)
    first = np.min(np.where(times.real, times.submit, np.inf), axis=-1)
    per_epoch = np.asarray(params.jobs.epochs, np.float64)[np.asarray(episodes)]
    shares = records.progress / np.where(per_epoch > 0, per_epoch, 1.0)
    totals = env.num_servers * env.gpus_per_server, env.num_servers * env.cpus_per_server
    result = {
        "finished": np.sum(finished, axis=-1),
        "avg_jct": jct,
        "avg_jct_slots": jct / env.slot_seconds,
        "avg_jct_coarse": metrics.masked_mean(np.nan_to_num(spent.coarse), finished),
        "makespan_coarse": np.where(finished.any(axis=-1), end - begin, 0.0),
        "mean_slot_reward": np.sum(shares, axis=-1) / np.maximum(records.slots, 1),
        "avg_wait": metrics.masked_mean(times.start - times.submit, finished),
        "makespan": np.where(finished.any(axis=-1), last - first, 0.0),
        "utilization": records.gpus / np.maximum(records.slots * totals[0], 1),
        "cpu_utilization": records.cpus / np.maximum(records.slots * totals[1], 1),
        "total_reward": np.sum(shares, axis=-1),
        "decisions": records.decisions,
        "slots": records.slots,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}
