"""Records of the cluster's episodes, and metrics over them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import JobEvents, gather, job_recorder
from jaxsched.envs.cluster.environment import ClusterJobs, Params
from jaxsched.jobs import metrics
from jaxsched.jobs.metrics import Metric
from jaxsched.types import Array, TimeStep

BRIEF_S = 10  # shorter jobs count as so long in the bounded slowdown

OWN_METRICS: Mapping[str, Metric] = {
    "p99_jct": Metric("99 % JCT", "s", "lower", 1, "99th percentile of finish - submit"),
    "p99_wait": Metric("99 % wait", "s", "lower", 1, "99th percentile of start - submit"),
    "bounded_slowdown": Metric(
        "bounded slowdown", "", "lower", 2, f"mean of max(1, JCT / max(d, {BRIEF_S} s))"
    ),
    "preemptions": Metric("suspensions", "", "neither", 1, "suspensions of all jobs"),
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
      episodes: int ``[E]``, the episodes played.
      records: those of ``recorder``, leaves ``[E, ...]``.

    Returns:
      By name: the standard ones, ``METRICS`` of rigid jobs and ``OWN_METRICS``, as on the board
      (``jaxsched.trace_replay.records.summary``): use of the cluster is the time that jobs held
      GPUs, with what suspensions added.
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
    held = duration + stops * int(params.restart_s)
    holding = jobs._replace(start=finish - held)
    sums = {name: values for name, values in records.items() if name != "preemptions"}
    found = {
        **metrics.of_log(sums),
        **metrics.common(jobs, env.cluster.num_gpus),
        "utilization": metrics.utilization(holding, env.cluster.num_gpus),
        "median_jct": np.nanmedian(jct, axis=-1),
        "max_jct": np.nanmax(jct, axis=-1),
        "p99_jct": np.nanpercentile(jct, 99, axis=-1),
        "p99_wait": np.nanpercentile(wait, 99, axis=-1),
        "bounded_slowdown": np.nanmean(slowdown, axis=-1),
        "preemptions": np.sum(np.where(begun, stops, 0), axis=-1),
    }
    return {name: np.asarray(values, np.float64) for name, values in found.items()}
