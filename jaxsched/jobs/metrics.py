"""Every metric, defined once, over per-job records (host side, float64).

Axes: ``...`` episodes, ``n`` jobs. A job counts once it has been started.
"""

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


METRICS = {
    "avg_effectiveness": Metric("effectiveness", "", "higher", 4, "mean of d / JCT"),
    "avg_jct": Metric("JCT", "s", "lower", 1, "mean of finish - submit"),
    "makespan": Metric("makespan", "s", "lower", 1, "last finish"),
    "avg_wait": Metric("wait", "s", "lower", 1, "mean of start - submit"),
    "avg_run": Metric("run", "s", "lower", 1, "mean of finish - start"),
    "avg_slowdown": Metric("slowdown", "", "lower", 2, "mean of JCT / d"),
    "utilization": Metric("utilization", "", "neither", 4, "sum of g * run / (GPUs * makespan)"),
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
    "finished": Metric("finished", "jobs", "higher", 0, "number of jobs started and finished"),
    "avg_jct_slots": Metric("JCT", "slots", "lower", 3, "mean of (finish - submit) / slot"),
    "min_jct": Metric("shortest JCT", "s", "lower", 1, "least of finish - submit"),
    "median_jct": Metric("median JCT", "s", "lower", 1, "median of finish - submit"),
    "max_jct": Metric("longest JCT", "s", "lower", 1, "largest of finish - submit"),
    "cpu_utilization": Metric("CPU utilization", "", "neither", 4, "mean share of cores allocated"),
    "total_reward": Metric("total reward", "", "neither", 2, "sum of the rewards of an episode"),
    "decisions": Metric("decisions", "", "neither", 0, "inferences, or instants of decision"),
    "slots": Metric("slots", "", "neither", 0, "slots in which jobs were in the cluster"),
    "steps": Metric("steps", "", "neither", 0, "inferences"),
    "avg_jct_min": Metric("JCT", "min", "lower", 1, "mean of (finish - submit) / 60"),
    "avg_fee": Metric("fee", "$", "lower", 3, "mean of price * g * run / 3600"),
    "avg_inflation": Metric("inflation", "", "lower", 3, "mean of run / d"),
    "return": Metric("return", "", "higher", 2, "sum of the rewards of an episode"),
    "phases": Metric("phases", "", "neither", 0, "training phases"),
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
    """Mean execution effectiveness: ideal run time over JCT (SCHED2, section 6)."""
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
