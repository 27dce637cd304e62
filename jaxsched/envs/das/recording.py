"""DAS's episodes as recorded schedules: gangs on machines, and how contention slows them."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jaxsched.core.trajectory import Trajectory
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.observation import MACHINE_NAMES
from jaxsched.envs.das.records import recorder
from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.simulator.tables import (
    CPUS,
    DURATION,
    GPUS,
    INSTANCES,
    LEAST_MACHINES,
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


class Gangs(NamedTuple):
    """Where jobs ran, ``[J]`` each; ``counts`` ``[J, M]`` are instances on each machine."""

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
    start, finish = (
        np.asarray(x, np.float64)[:count]
        for x in (trajectory.records.start, trajectory.records.finish)
    )
    gangs = Gangs(start, finish, np.asarray(trajectory.records.machines, np.int64)[:count])
    submit = (table[:, SUBMIT] - int(np.asarray(params.first)[episode])).astype(np.float64)
    spans = contention(env.cluster, table, gangs)
    pieces = Pieces.of(_entries(env, table, gangs, spans))
    total = env.num_servers * env.gpus_per_server
    ran = gangs.finish >= 0
    run = np.where(ran, gangs.finish - gangs.start, np.nan)
    fee = float(params.price) * table[:, NUM_GPUS] * run / 3600.0
    return Schedule(
        system="das",
        policy="",
        episode="",
        unit="GPU",
        bands=tuple(Band(f"machine {m}", env.gpus_per_server) for m in range(env.num_servers)),
        pieces=pieces,
        submit=submit,
        start=gangs.start,
        finish=gangs.finish,
        model=np.minimum(table[:, INSTANCES], 4) - 1,
        models=("1 instance", "2 instances", "3 instances", "4 or more instances"),
        level_title="contention",
        levels=SLOWED,
        facts=(
            Fact("instances", table[:, INSTANCES].tolist()),
            Fact("GPUs of an instance", table[:, GPUS].tolist()),
            Fact("run time at full speed", table[:, DURATION].tolist(), "s"),
            Fact("machines", (gangs.counts > 0).sum(axis=1).tolist()),
            Fact("slowed down", (run / np.maximum(table[:, DURATION], 1)).tolist(), "times"),
            Fact("fee", fee.tolist(), "$"),
        ),
        lines=(
            *usual_lines(submit, gangs.start, gangs.finish, pieces, {"GPUs held": total}),
            *_contention_lines(spans, table),
        ),
    )


class Span(NamedTuple):
    """A time during which a job's contention (percent) stayed the same."""

    job: int
    start: float
    end: float
    percent: float


def contention(cluster: Cluster, table: np.ndarray, gangs: Gangs) -> list[Span]:
    """How much each job was slowed down while it ran (specification, section 3.2).

    Args:
      cluster: machines and contention model.
      table: int64 ``[J, 8]``, rows of ``Params``.
      gangs: who ran where and when; jobs that did not finish are taken to run to the last event.
    """
    ran = np.flatnonzero(gangs.start >= 0)
    last = max(gangs.start.max(initial=0), gangs.finish.max(initial=0))
    finish = np.where(gangs.finish >= 0, gangs.finish, last)
    used = np.zeros((2, cluster.num_servers), np.int64)  # CPUs, GPUs that use the network
    several = (gangs.counts > 0).sum(axis=1)
    network = np.where(several > 1, table[:, GPUS], 0)
    extra = np.minimum(several - table[:, LEAST_MACHINES], cluster.spread_cap)
    base = 100 + cluster.spread_pct * extra
    takes = np.stack([table[:, CPUS, None] * gangs.counts, network[:, None] * gangs.counts], 1)
    events = sorted({float(t) for t in (*gangs.start[ran], *finish[ran])})
    begins = {time: ran[gangs.start[ran] == time] for time in set(gangs.start[ran].tolist())}
    ends = {time: ran[finish[ran] == time] for time in set(finish[ran].tolist())}
    running: list[int] = []
    since: dict[int, tuple[float, float]] = {}
    spans: list[Span] = []
    for time in events:
        for job in ends.get(time, np.zeros(0, int)).tolist():
            if job in since:
                running.remove(job)
                begun, percent = since.pop(job)
                spans.append(Span(job, begun, time, percent))
                used -= takes[job]
        for job in begins.get(time, np.zeros(0, int)).tolist():
            running.append(job)
            used += takes[job]
        if not running:
            continue
        jobs = np.array(running)
        others = used[None] - takes[jobs]
        loss = np.floor((cluster.cpu_pct * others[:, 0] + 0.5) / cluster.cpus)
        loss += np.where(network[jobs] > 0, 1, 0)[:, None] * cluster.net_pct * others[:, 1]
        worst = np.max(np.where(gangs.counts[jobs] > 0, loss, 0.0), axis=1) + base[jobs]
        for job, percent in zip(running, worst.tolist(), strict=True):
            if job in since and since[job][1] != percent:
                begun, before = since[job]
                spans.append(Span(job, begun, time, before))
            if job not in since or since[job][1] != percent:
                since[job] = (time, percent)
    return spans


def _entries(env: DAS, table: np.ndarray, gangs: Gangs, spans: list[Span]) -> list[Any]:
    """Pieces of the jobs: rows of each machine, one after the other in time as contention goes."""
    lanes = [Lanes(m * env.gpus_per_server, env.gpus_per_server) for m in range(env.num_servers)]
    last = max((span.end for span in spans), default=0.0)
    held: dict[int, list[tuple[int, int]]] = {}
    for job in np.argsort(gangs.start, kind="stable").tolist():
        if gangs.start[job] < 0:
            continue
        end = gangs.finish[job] if gangs.finish[job] >= 0 else last
        for machine in np.flatnonzero(gangs.counts[job]).tolist():
            gpus = int(gangs.counts[job, machine] * table[job, GPUS])
            rows = lanes[machine].take(gpus, gangs.start[job], end)
            held.setdefault(job, []).extend(rows)
    return [
        (span.job, row, rows, span.start, span.end, int(np.searchsorted(LEVELS, span.percent)))
        for span in spans
        for row, rows in held.get(span.job, [])
    ]


def _contention_lines(spans: list[Span], table: np.ndarray) -> tuple[Line, ...]:
    """Mean slow-down of the GPUs that run, and of the job that has it worst; percent."""
    if not spans:
        return ()
    changes = [(s.end, -1.0, s.job, s.percent) for s in spans]
    changes += [(s.start, 1.0, s.job, s.percent) for s in spans]
    times, mean, worst = [], [], []
    gpus, weighted, present = 0.0, 0.0, dict[int, float]()
    for time, sign, job, percent in sorted(changes):
        size = float(table[job, NUM_GPUS])
        gpus, weighted = gpus + sign * size, weighted + sign * size * (percent - 100.0)
        if sign > 0:
            present[job] = percent
        else:
            present.pop(job, None)
        times.append(time)
        mean.append(weighted / gpus if gpus > 0 else 0.0)
        worst.append(max(present.values(), default=100.0) - 100.0)
    chart = "contention"
    return (
        Line("worst job", chart, *steps(times, worst), unit="% slower"),
        Line("mean over GPUs", chart, *steps(times, mean), unit="% slower"),
    )
