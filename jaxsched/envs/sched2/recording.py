"""SCHED2's episodes as recorded schedules: gangs on GPUs by locality, queue, fragmentation."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.trail import Step, Trail
from jaxsched.envs.sched2.cases import read_case
from jaxsched.envs.sched2.dynamics import Start
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.heuristics import any_baseline, numbered
from jaxsched.envs.sched2.slowdown import MODELS, NUM_LEVELS, SENSITIVE
from jaxsched.jobs.lanes import runs
from jaxsched.jobs.schedule import NEVER, Band, Fact, Line, Pieces, Schedule, steps, usual_lines
from jaxsched.systems.cases import actions_of, shared_length
from jaxsched.systems.recording import Recording, Staged, listed_actions
from jaxsched.types import Array


class Moment(NamedTuple):
    """What is kept of a step."""

    start: Start
    time: Array
    fragmentation: Array
    queue_gpus: Array


class Starts(NamedTuple):
    """The starts of an episode in their order, ``[n]``; times in seconds."""

    job: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    level: np.ndarray
    gpus: np.ndarray  # uint32 [n, S], bit sets
    reused: np.ndarray
    fragmentation: np.ndarray
    queue_gpus: np.ndarray


@cache
def recording(env: Sched2) -> Recording:
    """How episodes of ``env`` are recorded."""
    return Recording(env, _moment, _schedule, _clock)


def _moment(env: Sched2, step: Step, params: Params) -> Moment:
    del env, params
    told = step.timestep.metrics
    return Moment(told.start, told.time, told.fragmentation, told.queue_gpus)


def _clock(env: Sched2, state: Any) -> Array:
    del env
    seconds: Array = state.time
    return seconds


def _schedule(env: Sched2, params: Params, episode: int, trail: Trail) -> Schedule:
    moments: Any = trail.moments
    there = np.flatnonzero(moments.start.started)
    start: Any = jax.tree.map(lambda leaf: np.asarray(leaf)[there], moments.start)
    return schedule_of(
        env,
        params,
        episode,
        Starts(
            job=np.asarray(start.job),
            start=np.asarray(moments.time)[there],
            finish=np.asarray(moments.time)[there] + np.asarray(start.run),
            level=np.asarray(start.level),
            gpus=np.asarray(start.gpus),
            reused=np.asarray(start.reused),
            fragmentation=np.asarray(moments.fragmentation)[there],
            queue_gpus=np.asarray(moments.queue_gpus)[there],
        ),
    )


def drawn(env: Sched2, params: Params, episode: int, records: Any) -> Schedule:
    """The schedule that the records of an episode tell."""
    job = records.order[: int(records.num_started)]
    columns = (records.start, records.finish, records.level, records.gpus, records.reused)
    curves = (records.fragmentation_curve, records.queue_gpus_curve)
    of_jobs, of_starts = [c[job] for c in columns], [c[: len(job)] for c in curves]
    return schedule_of(env, params, episode, Starts(job, *of_jobs, *of_starts))


def schedule_of(env: Sched2, params: Params, episode: int, starts: Starts) -> Schedule:
    """The schedule of an episode of which all starts are known."""
    count = int(params.jobs.num_jobs[episode])
    columns = (params.jobs.submit_time, params.jobs.num_gpus, params.jobs.model)
    submit, num_gpus, model = (np.asarray(c)[episode, :count].astype(np.int64) for c in columns)
    ideal = np.asarray(params.jobs.run_time)[episode, :count, 0].astype(np.float64)
    start, finish = np.full(count, NEVER), np.full(count, NEVER)
    start[starts.job], finish[starts.job] = starts.start, starts.finish
    reused = np.zeros(count, bool)
    reused[starts.job] = starts.reused
    entries = [
        (job, first, rows, start[job], finish[job], level)
        for job, level, words in zip(starts.job.tolist(), starts.level, starts.gpus, strict=True)
        for first, rows in _gpus(words, env.gpus_per_server)
    ]
    pieces, total = Pieces.of(entries), env.num_servers * env.gpus_per_server
    lines = (
        *usual_lines(submit.astype(np.float64), start, finish, pieces, {"GPUs held": total}),
        Line("fragmentation", "fragmentation", *steps(starts.start, starts.fragmentation)),
        Line("demand of the queue", "demand of the queue",
             *steps(starts.start, starts.queue_gpus), unit="GPUs"),
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
            Fact("takes over a well-placed gang's GPUs", _words(reused)),
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


def staged(case: Mapping[str, Any]) -> Staged:
    """A golden case, ready to be played.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    config, table = read_case(case)
    static = dict(config.static)
    if "policy" in case:
        static["window"] = config.baseline_window or max(len(table), 1)
    env = Sched2(**static)
    params = env.params([table], **config.scalars, length=shared_length(len(table)))
    if "policy" in case:
        name = str(case["policy"])
        number = jnp.int32(numbered(name, config.mode))  # type: ignore[arg-type]
        return Staged(env, params, any_baseline()._replace(name=name), number)
    actions = actions_of(case)
    policy, weights = listed_actions(jnp.asarray(actions or [env.window], jnp.int32))
    return Staged(env, params, policy, weights, len(actions))
