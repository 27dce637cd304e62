"""DAS's episodes as recorded schedules: gangs on machines, and how contention slows them."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.trajectory import Trajectory
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.observation import MACHINE_NAMES
from jaxsched.envs.das.records import per_job, recorder
from jaxsched.envs.das.simulator import execution
from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.simulator.execution import NOBODY, Running
from jaxsched.envs.das.simulator.tables import (
    DURATION,
    GPUS,
    INSTANCES,
    NUM_GPUS,
    SUBMIT,
    Params,
)
from jaxsched.jobs.lanes import Lanes
from jaxsched.jobs.schedule import Band, Fact, Line, Pieces, Schedule, steps, usual_lines
from jaxsched.systems.recording import Recording
from jaxsched.types import Array

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
    positions, machines = range(env.window), range(env.num_servers)
    inputs = [f"position{q}.{name}" for q in positions for name in env.job_names]
    inputs += [f"machine{m}.{name}" for m in machines for name in MACHINE_NAMES]
    inputs += [f"position{q}.real" for q in positions]
    if env.numbers:
        inputs += [f"position{q}.number" for q in positions]
    answers = [f"position{q}.machine{m}" for q in positions for m in machines]
    answers += [f"position{q}.priority" for q in positions]  # leaves in the order of their names
    return Recording(
        env,
        recorder(env, machines=True),
        _schedule,
        clock=_clock,
        inputs=tuple(inputs),
        answers=tuple(answers),
    )


def _clock(env: DAS, state: Any) -> Array:
    del env
    seconds: Array = state.time
    return seconds


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
    found = contention(env.cluster, table, gangs)
    submit = (table[:, SUBMIT] - int(np.asarray(params.first)[episode])).astype(np.float64)
    pieces = Pieces.of(_entries(env, table, gangs, spans_of(found, gangs)))
    total = env.num_servers * env.gpus_per_server
    return Schedule(
        system="das",
        policy="",
        episode="",
        unit="GPU",
        bands=tuple(Band(f"machine {m}", env.gpus_per_server) for m in range(env.num_servers)),
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
        np.pad(job, (0, behind), constant_values=NOBODY - 1).astype(np.int32),
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
        running = execution.release(running, (running.job == job) & ~begins)
        new = job[None], row[:, None], count[None], jnp.int32(0)
        running = execution.admit(cluster, running, *new)
        used = execution.used_resources(running)
        return running, (running.job, execution.contention(cluster, running, used))

    return jax.lax.scan(change, execution.nobody_runs(cluster), (job, begins, rows, counts))[1]


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
