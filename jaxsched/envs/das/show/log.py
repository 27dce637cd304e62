"""What is kept of DAS' episodes: records, the metrics over them (section 8), pictures.

Pictures show gangs on machines, and how contention slows them.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Policy
from jaxsched.core.recorder import JobEvents, gather
from jaxsched.core.trajectory import Trajectory
from jaxsched.envs.das.environment import DAS, StepMetrics
from jaxsched.envs.das.rules import DURATION, GPUS, INSTANCES, NUM_GPUS, SUBMIT, Params, machines
from jaxsched.envs.das.rules.machines import Cluster, Running
from jaxsched.jobs import metrics
from jaxsched.jobs.lanes import Lanes
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.schedule import Fact, Line, Pieces, Schedule, server_bands, steps, usual_lines
from jaxsched.systems.recording import Recording, time_of
from jaxsched.types import NO_JOB, Array, TimeStep

NEVER = -1

OWN_METRICS = {
    "avg_jct_min": Metric("JCT", "min", "lower", 1, "mean of (finish - submit) / 60"),
    "avg_fee": Metric("fee", "$", "lower", 3, "mean of price * g * run / 3600"),
    "avg_inflation": Metric("inflation", "", "lower", 3, "mean of run / d"),
}
"""Metrics that only this system has."""
MEASURED = (
    *("finished", "avg_jct", "avg_jct_min", "avg_wait", "avg_run", "avg_slowdown"),
    *("avg_inflation", "avg_fee", "makespan", "utilization", "steps", "return"),
)


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
        started=jnp.where(step.placed, step.window, NO_JOB),
        finished=jnp.where(step.finish >= 0, step.running, NO_JOB),
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
    own = {
        "avg_jct_min": common["avg_jct"] / 60.0,
        "avg_inflation": metrics.masked_mean((jobs.finish - jobs.start) / jobs.duration, done),
        "avg_fee": metrics.masked_mean(jobs.fee, done),
        "steps": records.decisions,
        "return": records.total_reward,
    }
    result = {name: (common | own)[name] for name in MEASURED}
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


LEVELS = (104, 112, 125, 150)
"""Contention (percent) up to which a job counts as free of it, slightly, clearly, badly slowed."""
SLOWED = ("full speed", "up to 12 % slower", "up to 25 % slower", "up to 50 % slower", "worse")


LEAST_CHANGES = 64
"""Starts and finishes are filled up to a power of two from here on: episodes share programs."""


class Gangs(NamedTuple):
    """Where jobs ran, ``[J]`` each (s); ``counts`` ``[J, M]`` are instances on each machine."""

    start: np.ndarray
    finish: np.ndarray
    counts: np.ndarray


@cache
def recording(env: DAS) -> Recording:
    """How episodes of ``env`` are recorded."""
    return Recording(env, recorder(env, machines=True), _schedule, clock=time_of)


def _schedule(env: DAS, params: Params, episode: int, trajectory: Trajectory) -> Schedule:
    """The machines of each job and how it was slowed down, which the records tell."""
    offset, count = (int(np.asarray(x)[episode]) for x in (params.offset, params.num_jobs))
    table = np.asarray(params.rows, np.int64)[offset : offset + count]
    records = jax.tree.map(lambda x: np.asarray(x)[None], trajectory.records)
    jobs = jax.tree.map(lambda x: x[0, :count], per_job(env, params, [episode], records))
    start, finish = (np.asarray(x, np.float64)[0, :count] for x in (records.start, records.finish))
    last = max(start.max(initial=0), finish.max(initial=0))
    until = np.where(
        (start >= 0) & (finish < 0), last, finish
    )  # of the cut ones, to the last event
    gangs = Gangs(start, until, np.asarray(records.machines, np.int64)[0, :count])
    found = contention(env, table, gangs)
    submit = (table[:, SUBMIT] - int(np.asarray(params.first)[episode])).astype(np.float64)
    pieces = Pieces.of(_entries(env, table, gangs, spans_of(found, gangs)))
    total = env.num_servers * env.gpus_per_server
    return Schedule(
        system="das",
        policy="",
        episode="",
        unit="GPU",
        bands=server_bands([env.gpus_per_server] * env.num_servers, "machine"),
        pieces=pieces,
        submit=submit,
        start=start,
        finish=finish,
        model=np.minimum(table[:, INSTANCES], 4) - 1,
        models=("1 instance", "2 instances", "3 instances", "4 or more instances"),
        level_title="contention",
        levels=SLOWED,
        facts=(
            Fact("instances", table[:, INSTANCES].tolist()),
            Fact("GPUs of an instance", table[:, GPUS].tolist()),
            Fact("run time at full speed", table[:, DURATION].tolist(), "s"),
            Fact("machines", (gangs.counts > 0).sum(axis=1).tolist()),
            Fact("slowed down", ((jobs.finish - jobs.start) / jobs.duration).tolist(), "times"),
            Fact("fee", jobs.fee.tolist(), "$"),
        ),
        lines=(
            *usual_lines(submit, start, finish, pieces, {"GPUs held": total}),
            *_contention_lines(found, table),
        ),
    )


class Contention(NamedTuple):
    """Contention of the jobs that run, from each instant on at which a job starts or finishes.

    Attributes:
      time: ``[K]`` s, ascending.
      job: int ``[K, R]``, who runs, by row of the running table; -1 in empty rows.
      percent: ``[K, R]``.
    """

    time: np.ndarray
    job: np.ndarray
    percent: np.ndarray


class Spans(NamedTuple):
    """Times during which a job's contention (percent) stayed the same, ``[n]`` each."""

    job: np.ndarray
    start: np.ndarray
    end: np.ndarray
    percent: np.ndarray


def contention(cluster: Cluster, table: np.ndarray, gangs: Gangs) -> Contention:
    """How much the running jobs slowed each other down (specification, section 3.2).

    Args:
      cluster: machines and contention model.
      table: int64 ``[J, 8]``, rows of ``Params``.
      gangs: who ran where and when; finishes of all that started.
    """
    ran = np.flatnonzero((gangs.start >= 0) & (gangs.finish > gangs.start))
    time = np.concatenate([gangs.finish[ran], gangs.start[ran]])
    begins = np.repeat([False, True], len(ran))
    order = np.lexsort((np.tile(ran, 2), begins, time))
    time, begins, job = time[order], begins[order], np.tile(ran, 2)[order]
    behind = max(LEAST_CHANGES, 1 << max(len(job) - 1, 0).bit_length()) - len(job)
    counts = np.where(begins[:, None], gangs.counts[job], 0)
    running, percent = _played(
        cluster,
        np.pad(job, (0, behind), constant_values=NO_JOB - 1).astype(np.int32),
        np.pad(begins, (0, behind)),
        np.pad(table[job], ((0, behind), (0, 0))).astype(np.int32),
        np.pad(counts, ((0, behind), (0, 0))).astype(np.int8),
    )
    last = np.flatnonzero(np.append(time[1:] != time[:-1], True)[: len(time)])
    return Contention(time[last], np.asarray(running)[last], np.asarray(percent, np.float64)[last])


@partial(jax.jit, static_argnames="cluster")
def _played(
    cluster: Cluster, job: Array, begins: Array, rows: Array, counts: Array
) -> tuple[Array, Array]:
    """Who runs and how slowly after each change, by the simulator; ``[K, R]`` each.

    Args:
      cluster: machines and contention model.
      job: int32 ``[K]``, who starts or finishes.
      begins: bool ``[K]``, it starts.
      rows: int32 ``[K, 8]``, its row of ``Params``.
      counts: int8 ``[K, M]``, its instances on each machine if it starts, else 0.
    """

    def change(running: Running, given: tuple[Array, ...]) -> tuple[Running, tuple[Array, Array]]:
        job, begins, row, count = given
        running = machines.release(running, (running.job == job) & ~begins)
        new = job[None], row[:, None], count[None], jnp.int32(0)
        running = machines.admit(cluster, running, *new)
        used = machines.used_resources(running)
        return running, (running.job, machines.contention(cluster, running, used))

    return jax.lax.scan(change, machines.nobody_runs(cluster), (job, begins, rows, counts))[1]


def spans_of(found: Contention, gangs: Gangs) -> Spans:
    """Until when each contention lasted, by the end, and then by the start of the job."""
    at, row = np.nonzero(found.job >= 0)
    job, start, percent = found.job[at, row], found.time[at], found.percent[at, row]
    order = np.lexsort((start, job))
    job, start, percent = job[order], start[order], percent[order]
    changes = np.append(True, (job[1:] != job[:-1]) | (percent[1:] != percent[:-1]))[: len(job)]
    job, start, percent = job[changes], start[changes], percent[changes]
    ends = np.append(job[1:] != job[:-1], True)[: len(job)]  # the job's last
    end = np.where(ends, gangs.finish[job], np.append(start[1:], 0.0)[: len(job)])
    order = np.lexsort((job, np.where(ends, 0.0, gangs.start[job]), ~ends, end))
    return Spans(job[order], start[order], end[order], percent[order])


def _entries(env: DAS, table: np.ndarray, gangs: Gangs, spans: Spans) -> list[Any]:
    """Pieces of the jobs: rows of each machine, one after the other in time as contention goes."""
    lanes = [Lanes(m * env.gpus_per_server, env.gpus_per_server) for m in range(env.num_servers)]
    held: dict[int, list[tuple[int, int]]] = {}
    for job in np.argsort(gangs.start, kind="stable").tolist():
        if gangs.start[job] < 0:
            continue
        for machine in np.flatnonzero(gangs.counts[job]).tolist():
            gpus = int(gangs.counts[job, machine] * table[job, GPUS])
            rows = lanes[machine].take(gpus, gangs.start[job], gangs.finish[job])
            held.setdefault(job, []).extend(rows)
    level = np.searchsorted(LEVELS, spans.percent)
    return [
        (job, row, rows, start, end, level)
        for job, start, end, level in zip(spans.job, spans.start, spans.end, level, strict=True)
        for row, rows in held[job]
    ]


def _contention_lines(found: Contention, table: np.ndarray) -> tuple[Line, ...]:
    """Mean slow-down of the GPUs that run, and of the job that has it worst; percent."""
    if not len(found.time):
        return ()
    runs = found.job >= 0
    gpus = np.where(runs, table[found.job, NUM_GPUS], 0)
    slower = np.where(runs, found.percent - 100.0, 0.0)
    mean = np.sum(gpus * slower, axis=-1) / np.maximum(np.sum(gpus, axis=-1), 1)
    chart = "contention"
    return (
        Line("worst job", chart, *steps(found.time, slower.max(axis=-1)), unit="% slower"),
        Line("mean over GPUs", chart, *steps(found.time, mean), unit="% slower"),
    )
