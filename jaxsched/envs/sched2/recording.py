"""SCHED2's episodes as recorded schedules: gangs on GPUs by locality, queue, fragmentation."""

from functools import cache
from typing import Any

import numpy as np

from jaxsched.core.trajectory import Trajectory
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.records import recorder
from jaxsched.envs.sched2.slowdown import MODELS, NUM_LEVELS, SENSITIVE
from jaxsched.jobs.lanes import runs
from jaxsched.jobs.schedule import Band, Fact, Line, Pieces, Schedule, steps, usual_lines
from jaxsched.systems.recording import Recording
from jaxsched.types import Array


@cache
def recording(env: Sched2) -> Recording:
    """How episodes of ``env`` are recorded."""
    return Recording(env, recorder(env), _schedule, clock=_clock)


def _clock(env: Sched2, state: Any) -> Array:
    del env
    seconds: Array = state.time
    return seconds


def _schedule(env: Sched2, params: Params, episode: int, trajectory: Trajectory) -> Schedule:
    """The GPUs of each job, which the records tell."""
    records, count = trajectory.records, int(params.jobs.num_jobs[episode])
    columns = (params.jobs.submit_time, params.jobs.num_gpus, params.jobs.model)
    submit, num_gpus, model = (np.asarray(c)[episode, :count].astype(np.int64) for c in columns)
    ideal = np.asarray(params.jobs.run_time)[episode, :count, 0].astype(np.float64)
    start, finish = (np.asarray(x, np.float64)[:count] for x in (records.start, records.finish))
    order = records.order[: int(records.num_started)]
    fragmentation, queue_gpus = (
        curve[: len(order)] for curve in (records.fragmentation_curve, records.queue_gpus_curve)
    )
    entries = [
        (job, first, rows, start[job], finish[job], level)
        for job, level in zip(order.tolist(), records.level[order], strict=True)
        for first, rows in _gpus(records.gpus[job], env.gpus_per_server)
    ]
    pieces, total = Pieces.of(entries), env.num_servers * env.gpus_per_server
    lines = (
        *usual_lines(submit.astype(np.float64), start, finish, pieces, {"GPUs held": total}),
        Line("fragmentation", "fragmentation", *steps(start[order], fragmentation)),
        Line("demand of the queue", "demand of the queue",
             *steps(start[order], queue_gpus), unit="GPUs"),
    )  # fmt: skip
    return Schedule(
        system=env.name,
        policy="",
        episode="",
        unit="GPU",
        bands=tuple(Band(f"server {s}", env.gpus_per_server) for s in range(env.num_servers)),
        pieces=pieces,
        submit=submit.astype(np.float64),
        start=start,
        finish=finish,
        model=model,
        models=tuple(entry.name for entry in MODELS),
        level_title="locality",
        levels=("best locality", *(f"level {i}" for i in range(1, NUM_LEVELS))),
        facts=(
            Fact("GPUs", num_gpus.tolist()),
            Fact("run time at best locality", ideal.tolist(), "s"),
            Fact("slowed down", _ratio(finish - start, ideal, start >= 0), "times"),
            Fact("sensitive to locality", _words(SENSITIVE[model])),
            Fact("takes over a well-placed gang's GPUs", _words(records.reused[:count])),
        ),
        lines=lines,
    )


def _gpus(words: np.ndarray, per_server: int) -> list[tuple[int, int]]:
    """Runs of GPUs of each server's bit set, numbered through the cluster."""
    found = []
    for server in np.flatnonzero(words).tolist():
        bits = int(words[server])
        inside = [gpu for gpu in range(per_server) if bits >> gpu & 1]
        found += [(server * per_server + first, count) for first, count in runs(inside)]
    return found


def _ratio(run: np.ndarray, ideal: np.ndarray, there: np.ndarray) -> list[float]:
    return np.where(there, run / np.maximum(ideal, 1), np.nan).tolist()


def _words(flags: np.ndarray) -> list[str]:
    return np.where(flags, "yes", "no").tolist()
