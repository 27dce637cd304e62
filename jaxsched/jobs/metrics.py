"""Metrics that any system may have, defined once, over per-job records (host side, float64).

Systems add their own beside their records (``Metrics.own``).

Axes: ``...`` episodes, ``n`` jobs. A job counts once it has been started.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

Values = np.ndarray


class JobRecords(NamedTuple):
    """What happened to each job of rigid systems; times in whole seconds."""

    started: Values  # bool [..., n]
    submit: Values  # int [..., n]
    start: Values  # int [..., n]
    finish: Values  # int [..., n]
    duration: Values  # int [..., n], ideal run time
    num_gpus: Values  # int [..., n]


class Metric(NamedTuple):
    """How to show a metric."""

    label: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    digits: int
    definition: str


METRICS: Mapping[str, Metric] = {
    "avg_effectiveness": Metric("effectiveness", "", "higher", 4, "mean of d / JCT"),
    "avg_jct": Metric("JCT", "s", "lower", 1, "mean of finish - submit"),
    "makespan": Metric("makespan", "s", "lower", 1, "last finish"),
    "avg_wait": Metric("wait", "s", "lower", 1, "mean of start - submit"),
    "avg_run": Metric("run", "s", "lower", 1, "mean of finish - start"),
    "avg_slowdown": Metric("slowdown", "", "lower", 2, "mean of JCT / d"),
    "utilization": Metric("utilization", "", "neither", 4, "sum of g * run / (GPUs * makespan)"),
    "finished": Metric("finished", "jobs", "higher", 0, "number of jobs started and finished"),
    "min_jct": Metric("shortest JCT", "s", "lower", 1, "least of finish - submit"),
    "median_jct": Metric("median JCT", "s", "lower", 1, "median of finish - submit"),
    "max_jct": Metric("longest JCT", "s", "lower", 1, "largest of finish - submit"),
    "total_reward": Metric("total reward", "", "neither", 2, "sum of the rewards of an episode"),
    "decisions": Metric("decisions", "", "neither", 0, "inferences, or instants of decision"),
    "slots": Metric("slots", "", "neither", 0, "slots in which jobs were in the cluster"),
    "steps": Metric("steps", "", "neither", 0, "inferences"),
    "return": Metric("return", "", "higher", 2, "sum of the rewards of an episode"),
}

STANDARD = ("avg_jct", "makespan", "avg_wait", "avg_run", "return", "steps", "finished")
"""Metrics that ``of_log`` finds in any standard record, in the order of tables."""


def masked_mean(values: Values, mask: Values) -> Values:
    """Mean of ``values`` where ``mask``, over the last axis; 0 where the mask is empty."""
    count = np.sum(mask, axis=-1)
    total = np.sum(np.where(mask, values, 0), axis=-1, dtype=np.float64)
    return total / np.maximum(count, 1)


def finished(records: JobRecords) -> Values:
    """Number of jobs that were started (and so have a finish)."""
    return np.sum(records.started, axis=-1)


def avg_jct(records: JobRecords) -> Values:
    """Mean job completion time in seconds: finish - submit."""
    return masked_mean(records.finish - records.submit, records.started)


def avg_wait(records: JobRecords) -> Values:
    """Mean waiting time in seconds: start - submit."""
    return masked_mean(records.start - records.submit, records.started)


def avg_run(records: JobRecords) -> Values:
    """Mean actual run time in seconds: finish - start."""
    return masked_mean(records.finish - records.start, records.started)


def makespan(records: JobRecords) -> Values:
    """Last finish in seconds since time 0; 0 where nothing was started."""
    return np.max(np.where(records.started, records.finish, 0), axis=-1, initial=0)


def avg_slowdown(records: JobRecords) -> Values:
    """Mean of JCT over ideal run time."""
    jct = (records.finish - records.submit).astype(np.float64)
    return masked_mean(jct / np.maximum(records.duration, 1), records.started)


def avg_effectiveness(records: JobRecords) -> Values:
    """Mean execution effectiveness: ideal run time over JCT."""
    jct = (records.finish - records.submit).astype(np.float64)
    return masked_mean(records.duration / np.maximum(jct, 1), records.started)


def utilization(records: JobRecords, total_gpus: int) -> Values:
    """GPU time used over GPU time available until the makespan."""
    used = np.where(records.started, records.num_gpus * (records.finish - records.start), 0)
    available = total_gpus * makespan(records).astype(np.float64)
    return np.sum(used, axis=-1, dtype=np.float64) / np.maximum(available, 1)


def common(records: JobRecords, total_gpus: int) -> dict[str, Values]:
    """The metrics that every rigid system shares, each ``[...]``."""
    return {
        "finished": finished(records),
        "avg_jct": avg_jct(records),
        "makespan": makespan(records),
        "avg_wait": avg_wait(records),
        "avg_run": avg_run(records),
        "avg_slowdown": avg_slowdown(records),
        "avg_effectiveness": avg_effectiveness(records),
        "utilization": utilization(records, total_gpus),
    }


def of_log(log: Mapping[str, Values]) -> dict[str, Values]:
    """The metrics of standard records (``jaxsched.core.recorder.job_recorder``), float64 ``[E]``.

    ``STANDARD``, and what was summed over the episode under its own name. Jobs that did not finish
    do not count.

    Args:
      log: ``start``, ``finish`` and ``submit`` (s) ``[E, n]``; ``total_reward``, ``steps`` and
        further sums ``[E]``.
    """
    start, finish, submit = (np.asarray(log[k], np.float64) for k in ("start", "finish", "submit"))
    done = (start >= 0) & (finish >= 0)
    sums = {name: value for name, value in log.items() if np.ndim(value) == 1}
    result = {
        "avg_jct": masked_mean(finish - submit, done),
        "makespan": np.max(np.where(done, finish, 0.0), axis=-1),
        "avg_wait": masked_mean(start - submit, done),
        "avg_run": masked_mean(finish - start, done),
        "return": sums.pop("total_reward"),
        "finished": np.sum(done, axis=-1),
        **sums,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}
