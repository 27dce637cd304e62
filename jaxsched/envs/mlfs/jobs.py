"""Jobs as graphs of tasks: data-parallel replicas of a model whose partitions form layers.

A job of ``g`` GPUs has ``g = D * P`` tasks, one for each of ``P`` partitions in each of ``D``
replicas; task ``d * P + p`` is partition ``p`` of replica ``d``. Partition ``p`` is in layer
``p // w``, and every part of a layer feeds every part of the next. Axes: ``n`` jobs, ``L`` numbers
of the longest list. Source: MLFS (CoNEXT '20); specification, section 2.
"""

import numpy as np
import numpy.typing as npt

from jaxsched.jobs import NO_SUBMISSION, RIGID_JOBS, Column, Integers, JobTable, Problem, Schema
from jaxsched.jobs.columns import list_lengths, to_length

MODELS = ("AlexNet", "ResNet", "MLP", "LSTM", "SVM")
SIZES = (1, 2, 4, 8, 16, 32)
"""GPUs, and so tasks, that a job may have."""
MAX_TASKS = 32
MAX_PARTITIONS = 16
MAX_WIDTH = 4
RESNET, LSTM, SVM = MODELS.index("ResNet"), MODELS.index("LSTM"), MODELS.index("SVM")
INT32_LIMIT = 2**31

_VOLUME = (0, 2**10, "MB")

TASK_JOBS: Schema = (
    Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission"),
    Column("num_gpus", 1, MAX_TASKS, "GPUs", "tasks of the job"),
    Column("model", 0, len(MODELS) - 1, "id", "row of MODELS"),
    Column("iterations", 1, 2**15, "iterations", "passes over the data"),
    Column("opt_iter", 1, 2**15, "iterations", "the first that reaches 99 % of the last accuracy"),
    Column("req_iter", 1, 2**15, "iterations", "the first that reaches the accuracy asked for"),
    Column("work", 1, 2**20, "min/1000", "of one instance of each partition", "wholes"),
    Column("size", 1, 1000, "1/1000", "share of the parameters, by partition", "wholes"),
    Column("gpu_demand", 1, 1000, "1/1000 GPU", "that a task keeps busy"),
    Column("cpus", 0, 2**12, "vCPU", "of each task"),
    Column("mem", 0, 2**14, "GB", "memory of each task"),
    Column("vol_worker", *_VOLUME, "sent from a task to a child, each round"),
    Column("vol_ps", *_VOLUME, "exchanged with the parameter server, each round"),
    Column("deadline", 0, NO_SUBMISSION - 1, "s", "on the clock of submit_time"),
    Column("urgency", 1, 10, "level", "10 is most urgent"),
    Column("curve_a", 1, 2**20, "1/1000", "slope of the accuracy's curve at its start"),
    Column("acc_max", 0, 1, "", "accuracy that the curve tends to", "real"),
    Column("option", 0, 2, "id", "how the job ends: all iterations, opt_iter, req_iter"),
    Column("allow", 0, 2, "id", "the furthest option under load"),
)
"""Jobs of MLFS; the first submission need not be at 0."""


def graph_shape(model: Integers, num_gpus: Integers) -> tuple[Integers, Integers, Integers]:
    """Replicas ``D``, partitions ``P`` and parts of a layer ``w`` of each job.

    SVM is data-parallel only. The other models have one replica up to 2 GPUs and two beyond;
    AlexNet and MLP are chains, ResNet and LSTM have layers of up to 4 parts.

    Args:
      model: ids, rows of ``MODELS``, int ``[n]``.
      num_gpus: values of ``SIZES``, int ``[n]``.

    Returns:
      int64 ``[n]`` each.
    """
    model, num_gpus = np.asarray(model, np.int64), np.asarray(num_gpus, np.int64)
    replicas = np.where(model == SVM, num_gpus, np.where(num_gpus <= 2, 1, 2))
    partitions = num_gpus // replicas
    layered = ((model == RESNET) | (model == LSTM)) & (partitions >= 2)
    width = np.where(layered, np.minimum(MAX_WIDTH, partitions // 2), 1)
    return replicas, partitions, width


def critical_path(work: Integers, partitions: Integers, width: Integers) -> Integers:
    """Shortest time of an iteration at full speed: the layers' largest work, summed.

    Args:
      work: of each partition (1/1000 min), ``[n, L]``.
      partitions: ``P``, ``[n]``.
      width: ``w``, ``[n]``.

    Returns:
      int64 ``[n]`` (1/1000 min).
    """
    total: Integers = _layer_peaks(work, partitions, width).sum(axis=1)
    return total


def tails(work: Integers, partitions: Integers, width: Integers) -> Integers:
    """What remains of the critical path below each partition's layer.

    Args:
      work: of each partition (1/1000 min), ``[n, L]``.
      partitions: ``P``, ``[n]``.
      width: ``w``, ``[n]``.

    Returns:
      int64 ``[n, 16]`` (1/1000 min), 0 in the last layer and beyond ``P``.
    """
    peaks = _layer_peaks(work, partitions, width)
    below = peaks.sum(axis=1, keepdims=True) - np.cumsum(peaks, axis=1)
    tail: Integers = np.take_along_axis(below, _layers(width), axis=1)
    return tail


def total_work(work: Integers, replicas: Integers) -> Integers:
    """Work of all tasks of one iteration, all replicas together.

    Args:
      work: of each partition (1/1000 min), ``[n, L]``, 0 beyond ``P``.
      replicas: ``D``, ``[n]``.

    Returns:
      int64 ``[n]`` (1/1000 min).
    """
    return np.asarray(replicas, np.int64) * np.asarray(work, np.int64).sum(axis=1)


def busy_gpu_seconds(table: JobTable) -> npt.NDArray[np.float64]:
    """GPU time that each job's tasks keep busy if every iteration runs at full speed (s, ``[n]``).

    A task of demand 400/1000 that works for 100 s counts 40 s.
    """
    replicas, _, _ = graph_shape(table["model"], table["num_gpus"])
    minutes = table["iterations"] * total_work(table["work"], replicas) / 1000
    busy: npt.NDArray[np.float64] = minutes * 60 * table["gpu_demand"] / 1000
    return busy


def as_rigid(table: JobTable) -> JobTable:
    """Jobs of tasks by their number of GPUs alone (model 0); other tables as they are.

    The run time is that of all iterations along the critical path at full speed, rounded up to
    seconds.
    """
    if table.schema != TASK_JOBS:
        return table
    _, partitions, width = graph_shape(table["model"], table["num_gpus"])
    path = critical_path(table["work"], partitions, width)
    columns = {
        "submit_time": table["submit_time"],
        "num_gpus": table["num_gpus"],
        "duration": np.maximum(1, -(-table["iterations"] * path * 60 // 1000)),
        "model": np.zeros(len(table), np.int64),
    }
    return JobTable(columns, table.name, table.notes, RIGID_JOBS)


def problem_with(table: JobTable) -> Problem | None:
    """The first reason why a table within the bounds of ``TASK_JOBS`` is no set of task graphs.

    Numbers of GPUs must be in ``SIZES``, lists as long as the model has partitions, ``opt_iter``
    and ``req_iter`` within the iterations, and the work and the accuracy's curve of all iterations
    small enough for 32-bit arithmetic.
    """
    gpus, iterations = table["num_gpus"], table["iterations"]
    bad = np.flatnonzero(~np.isin(gpus, SIZES))
    if bad.size:
        sizes = ", ".join(map(str, SIZES))
        return Problem(int(bad[0]), f"num_gpus is {gpus[bad[0]]}; accepted: {sizes}")
    replicas, partitions, _ = graph_shape(table["model"], gpus)
    for name in ("work", "size"):
        lengths = list_lengths(table[name])
        wrong = (lengths != partitions) | (np.count_nonzero(table[name], axis=1) != partitions)
        bad = np.flatnonzero(wrong)
        if bad.size:
            job = int(bad[0])
            numbers = table[name][job, : lengths[job]].tolist()
            of = f"{MODELS[int(table['model'][job])]} on {gpus[job]} GPUs"
            accepted = f"{partitions[job]} numbers above 0 ({of})"
            return Problem(job, f"{name} is {numbers}; accepted: {accepted}")
    for name in ("opt_iter", "req_iter"):
        bad = np.flatnonzero((table[name] < 1) | (table[name] > iterations))
        if bad.size:
            job = int(bad[0])
            found = f"{name} is {table[name][job]}"
            return Problem(job, f"{found}; accepted: from 1 to its iterations, {iterations[job]}")
    largest = {
        "iterations x work of all tasks": (iterations + 1) * total_work(table["work"], replicas),
        "iterations x (1000 + curve_a x iterations)": iterations
        * (1000 + table["curve_a"] * iterations),
    }
    for name, values in largest.items():
        bad = np.flatnonzero(values >= INT32_LIMIT)
        if bad.size:
            return Problem(int(bad[0]), f"{name} is {values[bad[0]]}; accepted: below 2**31")
    return None


def _layers(width: Integers) -> Integers:
    """Layer of each partition, ``[n, 16]``."""
    layers: Integers = np.arange(MAX_PARTITIONS) // np.asarray(width, np.int64)[:, None]
    return layers


def _layer_peaks(work: Integers, partitions: Integers, width: Integers) -> Integers:
    """Largest work of each layer, ``[n, 16]``; 0 for layers that a job has not."""
    padded = to_length(np.asarray(work, np.int64), MAX_PARTITIONS)
    padded[np.arange(MAX_PARTITIONS) >= np.asarray(partitions)[:, None]] = 0
    peaks = np.zeros_like(padded)
    np.maximum.at(peaks, (np.arange(len(padded))[:, None], _layers(width)), padded)
    return peaks
