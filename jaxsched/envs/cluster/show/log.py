"""The cluster's episodes: records of jobs, metrics over them, schedules (jobs on GPUs).

Axes: ``T`` steps, ``S`` servers, ``M`` GPUs per server.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, gather, job_recorder
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.cluster.environment import ClusterJobs, Params
from jaxsched.jobs import metrics
from jaxsched.jobs.lanes import runs
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.schedule import Fact, Pieces, Schedule, server_bands, usual_lines
from jaxsched.systems.recording import Recording, running_jobs, time_of
from jaxsched.types import NO_JOB, Array, TimeStep

BRIEF_S = 10  # shorter jobs count as this long in the bounded slowdown

OWN_METRICS: Mapping[str, Metric] = {
    "p99_jct": Metric("99 % JCT", "s", "lower", 1, "99th percentile of finish - submit"),
    "p99_wait": Metric("99 % wait", "s", "lower", 1, "99th percentile of start - submit"),
    "bounded_slowdown": Metric(
        "bounded slowdown", "", "lower", 2, f"mean of max(1, JCT / max(d, {BRIEF_S} s))"
    ),
    "preemptions": Metric(
        "suspensions", "", "neither", 1, "suspensions of all jobs, and runs that failures cut"
    ),
}


@cache
def recorder(env: ClusterJobs) -> Recorder:
    """The standard record of jobs and rewards; the same object for equal environments."""

    def init(params: Params) -> dict[str, Array]:
        empty = job_recorder(env).init(params)
        return {name: values for name, values in empty.items() if name != "steps"}

    return gather(init, _events)


def _events(records: Any, timestep: TimeStep) -> JobEvents:
    del records
    step: JobEvents = timestep.metrics
    return step._replace(amounts={"total_reward": timestep.reward})


def summarise(
    env: ClusterJobs, params: Params, episodes: np.ndarray, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode, float64 ``[E]``.

    Args:
      env: the environment the records come from.
      params: its parameters.
      episodes: int ``[E]``, indices of the episodes.
      records: those of ``recorder``, leaves ``[E, ...]``.

    Returns:
      By name: the standard ones, ``METRICS`` of rigid jobs and ``OWN_METRICS``, as on the board
      (``jaxsched.trace_replay.records.summary``): utilization is the time that jobs held
      GPUs, restarts included.
    """
    rows = np.asarray(episodes)
    columns = (params.jobs.submit, params.jobs.duration, params.jobs.num_gpus)
    submit, duration, num_gpus = (np.asarray(c)[rows, :-1].astype(np.int64) for c in columns)
    start, finish = (np.asarray(records[name], np.int64) for name in ("start", "finish"))
    begun = start >= 0
    jobs = metrics.JobRecords(begun, submit, start, finish, duration, num_gpus)
    jct, wait = (np.where(begun, moment - submit, np.nan) for moment in (finish, start))
    slowdown = np.maximum(jct / np.maximum(duration, BRIEF_S), 1.0)
    stops = records.get("preemptions", np.zeros(begun.shape, int))
    typed = params.jobs.typed is not None  # then run times depend on where jobs ran
    held = finish - start if typed else duration + stops * int(params.restart_s)
    held = records.get("held", held)  # where failures cut runs
    holding = jobs._replace(start=finish - held)
    own = ("preemptions", "held")
    sums = {name: values for name, values in records.items() if name not in own}
    found = {
        **metrics.of_log(sums),
        **metrics.common(jobs, env.rules.cluster.num_gpus),
        "utilization": metrics.utilization(holding, env.rules.cluster.num_gpus),
        "median_jct": np.nanmedian(jct, axis=-1),
        "max_jct": np.nanmax(jct, axis=-1),
        "p99_jct": np.nanpercentile(jct, 99, axis=-1),
        "p99_wait": np.nanpercentile(wait, 99, axis=-1),
        "bounded_slowdown": np.nanmean(slowdown, axis=-1),
        "preemptions": np.sum(np.where(begun, stops, 0), axis=-1),
    }
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


SIZES = (1, 2, 4, 8)
"""Most GPUs of each kind of job in pictures."""
KINDS = ("1 GPU", "2 GPUs", "3 or 4 GPUs", "5 to 8 GPUs", "more GPUs")


class Moment(NamedTuple):
    """The recorded part of a step: its time, and the jobs on the GPUs after it, ``[S, M]``."""

    time: Array
    job: Array
    free_from: Array


@cache
def recording(env: ClusterJobs) -> Recording:
    """How episodes of ``env`` are recorded."""
    return Recording(env, recorder(env), _schedule, _moment, time_of)


def _moment(env: ClusterJobs, step: Step, params: Params) -> Moment:
    del params
    after, time = step.after, step.before.time
    if env.commits:  # the step's job starts later than its choice
        events = step.timestep.metrics
        time = jnp.where(events.started == NO_JOB, time, events.of_started["start"])
    return Moment(time, after.job.T, after.free_from.T)


def _schedule(
    env: ClusterJobs, params: Params, episode: int, trajectory: Trajectory
) -> Schedule | None:
    """The GPUs of each job; a row for each job where no moments are kept."""
    if trajectory.moments is None:
        return running_jobs(env, params, episode, trajectory)
    jobs, count = params.jobs, int(params.jobs.num_jobs[episode])
    columns = (jobs.num_gpus, jobs.duration, jobs.group)
    gpus, duration, group = (np.asarray(c)[episode, :count].astype(np.int64) for c in columns)
    submit = np.asarray(jobs.submit)[episode, :count].astype(np.float64)
    records = trajectory.records
    start, finish = (np.asarray(records[k], np.float64)[:count] for k in ("start", "finish"))
    slots = env.gpu_slots()
    held = gpus / slots if slots > 1 else gpus
    of_servers = env.rules.cluster.server_gpus
    pieces = Pieces.of(_entries(trajectory.moments, jobs.empty_row, of_servers, slots))
    wait = np.where(start >= 0, start - submit, np.nan)
    facts = [
        Fact("GPUs", held.tolist()),
        Fact("run time", duration.tolist(), "s"),
        Fact("waited for its first start", wait.tolist(), "s"),
        Fact("owner", group.tolist()),
    ]
    if "preemptions" in records:
        facts.append(Fact("suspensions", np.asarray(records["preemptions"])[:count].tolist()))
    total = env.cluster.num_gpus
    return Schedule(
        system=env.name,
        policy="",
        episode="",
        unit="GPU",
        bands=server_bands(env.server_gpus()),
        pieces=pieces,
        submit=submit,
        start=start,
        finish=finish,
        model=np.searchsorted(SIZES, held),
        models=KINDS,
        facts=tuple(facts),
        lines=usual_lines(submit, start, finish, pieces, {"GPUs held": total}),
    )


def _entries(
    moments: Moment, empty_row: int, server_gpus: tuple[int, ...], slots: int
) -> list[tuple[int, float, float, float, float, int]]:
    """Runs of jobs on GPUs (of servers in slots), in the form of ``Pieces.of``; a row is a GPU.

    A run begins at the step in which a GPU's end time changes. It ends at that time or, if
    the job is suspended before, at the step in which the GPU's end time changes again; if a failure
    cuts it, at the earlier end time that the GPU then has.
    """
    time = np.asarray(moments.time, np.int64)
    is_there = np.arange(np.shape(moments.job)[-1]) < np.array(server_gpus)[:, None]
    job, until = (np.asarray(part)[:, is_there] for part in (moments.job, moments.free_from))
    changes = np.diff(until, axis=0, prepend=0) != 0
    runs_of: dict[tuple[int, int, int], list[int]] = {}
    for gpu in np.flatnonzero(changes.any(axis=0)).tolist():
        steps = np.flatnonzero(changes[:, gpu])
        is_cut = np.append(False, np.diff(until[steps, gpu]) < 0)
        is_cut[1:] &= np.diff(job[steps, gpu]) == 0
        ends = np.where(is_cut, until[steps, gpu], time[steps])
        following = [*ends[1:].tolist(), 2**31]
        for step, cut in zip(steps[~is_cut].tolist(), np.array(following)[~is_cut], strict=True):
            begun, end = int(time[step]), min(int(until[step, gpu]), int(cut))
            if job[step, gpu] != empty_row and end > begun:
                runs_of.setdefault((int(job[step, gpu]), begun, end), []).append(gpu)
    return [
        (row, first / slots, rows / slots, begun, end, 0)
        for (row, begun, end), gpus in runs_of.items()
        for first, rows in runs(gpus)
    ]
