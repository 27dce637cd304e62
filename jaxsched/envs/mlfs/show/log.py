"""What is kept of MLFS' episodes: records, the metrics over them (section 8), pictures.

Pictures show tasks that share GPUs, their states and migrations.
"""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, note_events
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.mlfs.environment import MLFS, StepMetrics
from jaxsched.envs.mlfs.jobs import MAX_TASKS, MODELS
from jaxsched.envs.mlfs.rules import reward
from jaxsched.envs.mlfs.rules.offers import answer
from jaxsched.envs.mlfs.rules.state import NONE, State
from jaxsched.envs.mlfs.rules.tables import SLOT_S, Params, unpack
from jaxsched.jobs.lanes import shared_rows
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.schedule import (
    NEVER,
    Fact,
    Line,
    Marks,
    Pieces,
    Schedule,
    by_job,
    counted,
    server_bands,
    steps,
)
from jaxsched.systems.recording import Recording
from jaxsched.types import Array, TimeStep

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
    """Events of jobs come once, when they finish or the episode is truncated."""
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
    in_time, reached = reward.met(jobs, records.finish, records.by_deadline)
    urgent = done & (jobs.urgency > URGENT)
    acc_max = np.asarray(params.acc_max, np.float64)[index]
    accuracy = reward.accuracy(jobs, acc_max, records.by_deadline.astype(np.float64))
    finished = done.sum(axis=-1)

    def mean(values: np.ndarray, among: np.ndarray = done) -> np.ndarray:
        count = np.maximum(among.sum(axis=-1), 1)
        return np.where(among, values, 0.0).sum(axis=-1) / count

    sent = records.sent[:, 0].astype(np.float64) * WORD_MB + records.sent[:, 1]
    weights = reward.RewardWeights(*np.asarray(params.reward_weights, np.float64))
    minutes = (records.finish - jobs.submit_min).astype(np.float64)
    worth = weights.worth(minutes, in_time, reached, accuracy)
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


PLAY_PACE = 16
"""``slot_every`` of evaluations: many episodes go two to five times as fast as from offer to offer,
a single one about as fast."""


MAX_ITERATIONS = 2**16


class Moment(NamedTuple):
    """What is kept of a step: the slot that it ended, if it did; ``[R]`` of rows, ``[A]`` of jobs.

    Attributes:
      slot: int32, before the step.
      ended: bool.
      job: int32 ``[R]``, place in the episode of the job of each running task, -1 in free rows.
      task: int16 ``[R]``, place of the task in its job.
      iteration: int32 ``[R]``, iterations that the job has completed: each has tasks of its own.
      server: int16 ``[R]``.
      gpu: int16 ``[R]``, of the server.
      waiting: int32, tasks that wait.
      moved: int32, tasks that were moved to another server.
      overloads: int32, servers that were overloaded in the slot.
    """

    slot: Array
    ended: Array
    job: Array
    task: Array
    iteration: Array
    server: Array
    gpu: Array
    waiting: Array
    moved: Array
    overloads: Array


@cache
def recording(env: MLFS) -> Recording:
    """How episodes of ``env`` are recorded: as evaluated, a step ending one slot at the most."""
    kept = env.by_slot or env.slot_every == 1
    paced = env if kept else replace(env, slot_every=PLAY_PACE)
    return Recording(paced, recorder(paced), _schedule, _moment, _clock)


def _moment(env: MLFS, step: Step, params: Params) -> Moment:
    before: State = step.before
    if env.by_slot:
        state = env.placed(before, step.action, params)
    else:
        action = jnp.asarray(step.action, jnp.int32)
        state = answer(env.rules_of(params), params, before, action)
    running, there = state.running, state.running.task != NONE
    place = jnp.where(there, running.task // MAX_TASKS, 0)
    told: StepMetrics = step.timestep.metrics
    return Moment(
        slot=before.slot,
        ended=told.after != before.slot,
        job=jnp.where(there, state.active.job[place], NONE),
        task=(running.task % MAX_TASKS).astype(jnp.int16),
        iteration=state.active.iterations[place],
        server=running.server.astype(jnp.int16),
        gpu=running.gpu.astype(jnp.int16),
        waiting=state.waiting,
        moved=state.migrations,
        overloads=told.overloads,
    )


def _clock(env: MLFS, state: Any) -> Array:
    del env
    seconds: Array = state.slot * SLOT_S
    return seconds


def _schedule(env: MLFS, params: Params, episode: int, trajectory: Trajectory) -> Schedule:
    """When each job ran, with its tasks where the moments are kept."""
    offset, count = (int(np.asarray(x)[episode]) for x in (params.offset, params.num_jobs))
    jobs: Any = unpack(np.asarray(params.rows, np.int64)[offset : offset + count])
    submit = np.asarray(params.submit_s, np.float64)[offset : offset + count]
    records = {
        name: column[:count] for name, column in trajectory.records._asdict().items() if column.ndim
    }
    start, finish = (
        np.where(records[name] >= 0, records[name] * float(SLOT_S), NEVER)
        for name in ("start", "finish")
    )
    deadline = jobs.deadline_min.astype(np.float64) * SLOT_S
    if trajectory.moments is None:
        return _of_deadlines(jobs.model, submit, start, finish, deadline)
    moments: Any = trajectory.moments
    ended = np.flatnonzero(np.asarray(moments.ended) & (np.asarray(moments.slot) >= 0))
    kept = jax.tree.map(lambda leaf: np.asarray(leaf)[ended], moments)
    gpus = np.asarray(env.rules_of(params).cluster.num_gpus)
    first = np.concatenate([[0], np.cumsum(gpus)])
    runs, moves = _runs(kept, first)
    demand = jobs.gpu_demand[runs["job"]] / 1000.0
    row = shared_rows(runs["row"], demand, runs["start"], runs["end"])
    entries = np.stack([runs["job"], row, np.minimum(demand, 1.0), runs["start"], runs["end"],
                        runs["moved"]], axis=-1)  # fmt: skip
    return Schedule(
        system="mlfs",
        policy="",
        episode="",
        unit="GPU",
        bands=server_bands(gpus.tolist()),
        pieces=Pieces.of(entries),
        submit=submit,
        start=start,
        finish=finish,
        model=jobs.model,
        models=MODELS,
        level_title="migration",
        levels=("placed from the queue", "moved here while running"),
        facts=_facts(jobs, records, finish),
        deadline=deadline,
        lines=_lines(int(gpus.sum()), kept, moments, runs, submit, start, finish, demand),
        marks=(moves,) if len(moves.times) else (),
    )


def _of_deadlines(
    model: np.ndarray,
    submit: np.ndarray,
    start: np.ndarray,
    finish: np.ndarray,
    deadline: np.ndarray,
) -> Schedule:
    """A row for each job; late ones stand out."""
    late = finish > deadline
    until = np.maximum(np.where(finish >= 0, finish, np.inf), deadline)
    past = Line("past their deadline", "late jobs", *counted(deadline[late], until[late]))
    return by_job(
        "mlfs",
        submit,
        start,
        finish,
        level=late.astype(np.int64),
        level_title="deadline",
        levels=("deadline met", "deadline missed"),
        deadline=deadline,
        model=model.astype(np.int64),
        models=MODELS,
        lines=(past,) if late.any() else (),
    )


def _runs(kept: Any, first: np.ndarray) -> tuple[dict[str, np.ndarray], Marks]:
    """Times during which a task stayed on a GPU, and where it was moved while it ran."""
    at, place = np.nonzero(kept.job >= 0)
    job = kept.job[at, place].astype(np.int64)
    iteration = kept.iteration[at, place].astype(np.int64)
    task = (job * MAX_ITERATIONS + iteration) * MAX_TASKS + kept.task[at, place]
    row = first[kept.server[at, place]] + kept.gpu[at, place]
    slot = kept.slot[at].astype(np.int64)
    order = np.lexsort((slot, task))
    job, task, row, slot = (column[order] for column in (job, task, row, slot))
    follows = np.append(False, (task[1:] == task[:-1]) & (slot[1:] == slot[:-1] + 1))[: len(task)]
    stays = follows & np.append(False, row[1:] == row[:-1])[: len(task)]
    begins = np.flatnonzero(~stays)
    ends = np.append(begins[1:], len(task)) - 1
    server = np.searchsorted(first, row, side="right") - 1
    moved = follows & np.append(False, server[1:] != server[:-1])[: len(task)]
    runs = {
        "job": job[begins],
        "row": row[begins],
        "start": slot[begins] * float(SLOT_S),
        "end": (slot[ends[: len(begins)]] + 1) * float(SLOT_S),
        "moved": moved[begins].astype(np.int64),
    }
    there = np.flatnonzero(moved)
    marks = Marks("migration", slot[there] * float(SLOT_S), job[there], row[there] + 0.5)
    return runs, marks


def _facts(jobs: Any, records: dict[str, np.ndarray], finish: np.ndarray) -> tuple[Fact, ...]:
    in_time, reached = reward.met(jobs, records["finish"], records["by_deadline"])
    done = finish >= 0
    deadline = np.where(done, np.where(in_time, "met", "missed"), "not finished")
    return (
        Fact("tasks", jobs.num_gpus.tolist()),
        Fact("GPU demand of a task", (jobs.gpu_demand / 1000.0).tolist(), "GPU"),
        Fact("urgency", jobs.urgency.tolist()),
        Fact("deadline", deadline.tolist()),
        Fact("accuracy target by the deadline", np.where(reached, "reached", "missed").tolist()),
        Fact("iterations", np.where(done, records["iterations"], np.nan).tolist()),
        Fact("iterations asked for", jobs.iterations.tolist()),
        Fact("time with a running task", (np.maximum(records["run_slots"], 0) * SLOT_S).tolist(),
             "s"),
    )  # fmt: skip


def _lines(
    num_gpus: int,
    kept: Any,
    moments: Any,
    runs: dict[str, np.ndarray],
    submit: np.ndarray,
    start: np.ndarray,
    finish: np.ndarray,
    demand: np.ndarray,
) -> tuple[Line, ...]:
    begins = kept.slot * float(SLOT_S)
    until = begins + SLOT_S
    total = max(num_gpus, 1)
    there = np.asarray(kept.job) >= 0
    states = {
        "running": there.sum(axis=1) - kept.moved,
        "moved in this minute": kept.moved,
        "waiting": kept.waiting,
    }
    overloads = np.asarray(moments.overloads)
    at = np.flatnonzero(overloads)
    return (
        Line("waiting", "jobs", *counted(submit, start)),
        Line("running", "jobs", *counted(start[start >= 0], finish[start >= 0])),
        Line("GPU demand", "utilisation",
             *_over(runs["start"], runs["end"], np.minimum(demand, 1.0) / total)),
        *(Line(name, "tasks", *counted(begins, until, values), stacked=True)
          for name, values in states.items()),
        Line("overloaded servers", "overload",
             *counted(moments.slot[at] * float(SLOT_S), (moments.slot[at] + 1) * float(SLOT_S),
                      overloads[at])),
    )  # fmt: skip


def _over(starts: np.ndarray, ends: np.ndarray, weights: np.ndarray) -> tuple[Any, Any]:
    times, values = counted(starts, ends, weights)
    return steps(times, np.round(values, 6))
