"""What is kept of SCHED2's episodes: records, the metrics over them (section 8), pictures, cases.

Pictures show gangs on GPUs by locality, the queue and the fragmentation. A golden case is a job
table with a list of actions or a baseline (section 14).
"""

from collections import OrderedDict
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, gather
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.sched2.environment import Params, Sched2, StepMetrics
from jaxsched.envs.sched2.heuristics import MODES, any_baseline, numbered
from jaxsched.envs.sched2.rules import MODELS, NEVER, NUM_LEVELS, SENSITIVE
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records, metrics
from jaxsched.jobs.lanes import runs
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.schedule import Fact, Line, Pieces, Schedule, server_bands, steps, usual_lines
from jaxsched.systems.cases import (
    Episode,
    actions_of,
    list_of,
    listed_actions,
    options_of,
    rows_of,
    shared_length,
    whole_moment,
)
from jaxsched.systems.figures import Curve, Figures, MetricGroup
from jaxsched.systems.recording import Recording, time_of
from jaxsched.types import NO_JOB, Array, TimeStep

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
    row = jnp.where(start.started, start.job, NO_JOB)
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


FIGURES = Figures(
    curves={
        "fragmentation": Curve(
            "Fragmentation",
            "Mean server fragmentation, sampled at each start: 0 when the running jobs of every "
            "server end together, towards 1 when they end far apart.",
        ),
        "queue_gpus": Curve(
            "GPUs demanded by the queue",
            "Sum of the GPUs that all waiting jobs ask for, sampled at each start.",
        ),
    },
    groups=(
        MetricGroup(
            "Locality",
            "Relaxed: share of the multi-GPU jobs of a class that run without the best locality. "
            "Reuse: share of the multi-GPU jobs that take over GPUs last held by well-placed "
            "multi-GPU jobs.",
            ("relaxed_sensitive", "relaxed_insensitive", "reuse_fraction"),
        ),
    ),
)


@cache
def recording(env: Sched2) -> Recording:
    """How episodes of ``env`` are recorded."""
    return Recording(env, recorder(env), _schedule, clock=time_of)


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
        bands=server_bands([env.gpus_per_server] * env.num_servers),
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


STATIC = ("num_servers", "gpus_per_server", "window", "profile", "auto_advance", "reward", "extras")
OPTIONS = {name: name for name in STATIC}
NUMBERS = {"time_scale": 3600.0, "invalid_penalty": 0.0}
BASELINE = {"baseline_mode": "skip", "baseline_window": 10}
WHOLE = ("finished", "makespan")


def read_case(case: Mapping[str, Any]) -> Episode:
    """A case that has either a policy or actions.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    options, others = options_of(case, OPTIONS, (*NUMBERS, *BASELINE, "k"))
    others = {**NUMBERS, **BASELINE, **others}
    _check(others)
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs either 'policy' or 'actions'")
    table = from_records(list_of(case, "jobs"), name="jobs")
    numbers = {name: others[name] for name in NUMBERS}
    length = shared_length(len(table))
    if "policy" in case:
        name, window = str(case["policy"]), others["baseline_window"] or max(len(table), 1)
        number = numbered(name, others["baseline_mode"])
        env = Sched2(**{**options, "window": window})
        params = env.params([table], **numbers, length=length)
        result = partial(_of_baseline, len(table))
        return Episode(env, params, any_baseline(), result, jnp.int32(number), name)
    actions = actions_of(case)
    env = Sched2(**options)
    policy, weights = listed_actions(actions)
    return Episode(
        env,
        env.params([table], **numbers, length=length),
        policy,
        partial(_of_actions, len(table)),
        weights,
        kept=_row,
        most_steps=len(actions),
        past_end=True,
    )


def _check(others: Mapping[str, Any]) -> None:
    """The types of what no environment checks."""
    if others.get("k", NUM_LEVELS) != NUM_LEVELS:
        raise JaxschedError(f"config: k must be {NUM_LEVELS}, not {others['k']!r}")
    for name in NUMBERS:
        value = others[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JaxschedError(f"config: {name} must be a number, not {value!r}")
    mode, window = others["baseline_mode"], others["baseline_window"]
    if mode not in MODES:
        raise JaxschedError(
            f"config: baseline_mode must be one of {', '.join(MODES)}, not {mode!r}"
        )
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise JaxschedError(
            f"config: baseline_window must be a whole number from 0 (whole queue), not {window!r}"
        )


def _row(env: Sched2, step: Step, params: Params) -> OrderedDict[str, Array]:
    """A step as the trajectory lists it."""
    del env, params
    told = step.timestep
    return OrderedDict(
        time=step.before.time,
        mask=step.mask.astype(jnp.int32),
        action=step.action,
        obs=step.observation,
        reward=told.reward,
        done=told.terminated,
        invalid=told.metrics.invalid,
        elapsed=told.elapsed.astype(jnp.int32),
    )


def _of_baseline(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    order = trajectory.records.order[: trajectory.records.num_started].tolist()
    return {"order": order, **_summary(count, trajectory.records, metrics)}


def _of_actions(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    steps = rows_of(trajectory.moments)
    return {
        "trajectory": steps,
        "return": sum(row["reward"] for row in steps),
        "invalid_actions": int(trajectory.records.invalid_actions),
        **_summary(count, trajectory.records, metrics),
    }


def _summary(count: int, records: Any, metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics, jobs and curves."""
    started = int(records.num_started)
    return {
        "metrics": metrics,
        "jobs": [_job(records, job) for job in range(count)],
        "fragmentation_curve": records.fragmentation_curve[:started].tolist(),
        "queue_gpus_curve": records.queue_gpus_curve[:started].tolist(),
    }


def _job(records: Any, job: int) -> dict[str, Any]:
    """What became of a job; one that never starts has no times, no locality and no GPUs."""
    started = bool(records.start[job] >= 0)
    counts = [int(bits).bit_count() for bits in records.gpus[job]]
    servers = [server for server, count in enumerate(counts) if count]
    return {
        "start": whole_moment(records.start[job]),
        "finish": whole_moment(records.finish[job]),
        "level": int(records.level[job]) if started else None,
        "servers": servers,
        "counts": [counts[server] for server in servers],
        "reused": bool(records.reused[job]),
    }
