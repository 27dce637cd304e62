"""What happened to each job of an episode, and the metrics over it (section 8)."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, note_events
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.reward import HOUR_MIN, RewardWeights
from jaxsched.envs.mlfs.simulator.tables import SLOT_S, Params, unpack
from jaxsched.envs.mlfs.step_metrics import StepMetrics
from jaxsched.jobs.metrics import Metric
from jaxsched.types import Array, TimeStep

NEVER = -1
WORD_MB = 2**20  # of the lower word of the traffic
URGENT = 8
SHORT_S = 6000

OWN_METRICS = {
    "jct_under_100min": Metric(
        "under 100 min", "", "higher", 3, "share of finished jobs with a JCT below 6000 s"
    ),
    "deadline_ratio": Metric(
        "deadline ratio", "", "higher", 4, "share of finished jobs that met their deadline"
    ),
    "urgent_deadline_ratio": Metric(
        "urgent deadline ratio", "", "higher", 4, "the same of jobs of an urgency above 8"
    ),
    "avg_accuracy": Metric("accuracy", "", "higher", 4, "mean accuracy at the deadline"),
    "accuracy_ratio": Metric(
        "accuracy ratio", "", "higher", 4, "share of jobs at their target by the deadline"
    ),
    "bandwidth_mb": Metric("bandwidth", "MB", "lower", 0, "sent between servers"),
    "overloads": Metric("overloads", "", "lower", 0, "overloaded servers summed over slots"),
    "migrations": Metric("migrations", "", "neither", 0, "running tasks moved between servers"),
    "evictions": Metric("evictions", "", "neither", 0, "running tasks put back into the queue"),
    "iterations": Metric("iterations", "", "neither", 0, "completed by finished jobs"),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """One episode; int32 ``[J]`` in table order, int32 scalars.

    Slots are numbers of minutes. ``sent`` has two words: multiples of 2**20 MB, and the rest.
    """

    start: Array  # slot, -1 before
    finish: Array  # slot, -1 before
    home: Array  # server, -1 before
    iterations: Array
    by_deadline: Array
    run_slots: Array
    sent: Array  # [2]
    overloads: Array
    evictions: Array
    migrations: Array
    completed: Array
    decisions: Array
    slots: Array


@cache
def recorder(env: MLFS) -> Recorder:
    """Gathers ``Records`` from the steps of one episode."""

    def init(params: Params) -> Records:
        zero = jnp.int32(0)
        jobs = jnp.zeros(env.max_jobs(params), jnp.int32)
        never, sent = jobs - 1, jnp.zeros(2, jnp.int32)
        counters = {name: zero for name in Records._fields[7:]}
        return Records(never, never, never, jobs, jobs, jobs, sent, **counters)

    return Recorder(init, after_step)


def after_step(records: Records, timestep: TimeStep, playing: Array) -> Records:
    """Records with a step more, where the episode was being played."""
    step: StepMetrics = timestep.metrics
    low = records.sent[1] + jnp.where(playing, step.sent_mb, 0)
    following: Records = note_events(_events, records, timestep, playing)
    return following._replace(
        sent=jnp.stack([records.sent[0] + low // WORD_MB, low % WORD_MB]),
        slots=jnp.where(playing, step.after, records.slots),
    )


def _events(records: Records, timestep: TimeStep) -> JobEvents:
    """Jobs are told of once, when they finish or the episode is cut."""
    del records
    step: StepMetrics = timestep.metrics
    names = ("start", "finish", "home", "iterations", "by_deadline", "run_slots")
    counted = ("overloads", "evictions", "migrations", "completed")
    return JobEvents(
        started=step.job,
        finished=step.job,
        of_started={},
        of_finished={name: getattr(step, name) for name in names},
        amounts={name: getattr(step, name) for name in counted} | {"decisions": step.decides},
    )


def completion_s(params: Params, episodes: Any, records: Any) -> np.ndarray:
    """Completion time of each job, s; float64 ``[E, J]``, NaN of unfinished ones."""
    table, there = _rows(params, episodes)
    finish = np.asarray(records.finish, np.float64) * SLOT_S
    submit = _submit_s(params, table)
    return np.where(there & (finish >= 0), finish - submit, np.nan)


def summarise(env: MLFS, params: Params, episodes: Any, records: Any) -> dict[str, np.ndarray]:
    """Metrics of each episode, float64 ``[E]``; averages are over finished jobs.

    Args:
      env: the environment the records come from.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.
    """
    del env
    records = jax.tree.map(np.asarray, records)
    episodes = np.asarray(episodes)
    index, there = _rows(params, episodes)
    jobs = unpack(np.asarray(params.rows)[index])
    submit = _submit_s(params, index)
    done = there & (records.finish >= 0)
    finish = records.finish.astype(np.float64) * SLOT_S
    jct = finish - submit
    run = records.run_slots.astype(np.float64) * SLOT_S
    in_time = records.finish <= jobs.deadline_min
    urgent = done & (jobs.urgency > URGENT)
    x = jobs.curve_a * records.by_deadline / 1000.0
    accuracy = np.asarray(params.acc_max, np.float64)[index] * x / (1.0 + x)
    reached = records.by_deadline >= jobs.req_iter
    finished = done.sum(axis=-1)

    def mean(values: np.ndarray, among: np.ndarray = done) -> np.ndarray:
        count = np.maximum(among.sum(axis=-1), 1)
        return np.where(among, values, 0.0).sum(axis=-1) / count

    sent = records.sent[:, 0].astype(np.float64) * WORD_MB + records.sent[:, 1]
    weights = RewardWeights(*np.asarray(params.reward_weights, np.float64))
    minutes = np.maximum(records.finish - jobs.submit_min, 1)
    worth = weights.worth(np.minimum(1.0, HOUR_MIN / minutes), in_time, reached, accuracy)
    total = np.where(done, worth, 0.0).sum(axis=-1) / np.asarray(params.num_jobs)[episodes]
    last = np.where(done, finish, 0.0).max(axis=-1)
    first = submit[:, 0]
    result = {
        "finished": finished,
        "avg_jct": mean(jct),
        "median_jct": _median(np.where(done, jct, np.nan)),
        "jct_under_100min": mean(jct < SHORT_S),
        "makespan": np.where(finished > 0, last - first, 0.0),
        "avg_wait": mean(jct - run),
        "avg_run": mean(run),
        "deadline_ratio": mean(in_time),
        "urgent_deadline_ratio": mean(in_time, urgent),
        "avg_accuracy": mean(accuracy),
        "accuracy_ratio": mean(reached),
        "bandwidth_mb": sent,
        "overloads": records.overloads,
        "migrations": records.migrations,
        "evictions": records.evictions,
        "iterations": np.where(done, records.iterations, 0).sum(axis=-1),
        "return": total
        - weights.traffic * sent / np.asarray(params.traffic_mb, np.float64)[episodes],
        "steps": records.decisions,
        "slots": records.slots,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


def _rows(params: Params, episodes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row of each job and which exist, ``[E, J]``."""
    episodes = np.asarray(episodes)
    place = np.arange(params.max_jobs)
    offset, count = (np.asarray(x)[episodes, None] for x in (params.offset, params.num_jobs))
    return np.minimum(offset + place, len(params.rows) - 1), place < count


def _submit_s(params: Params, index: np.ndarray) -> np.ndarray:
    return np.asarray(params.submit_s, np.float64)[index]


def _median(values: np.ndarray) -> np.ndarray:
    """Medians of rows, 0 of rows that are all NaN."""
    empty = np.isnan(values).all(axis=-1)
    return np.where(empty, 0.0, np.nanmedian(np.where(empty[:, None], 0.0, values), axis=-1))
