"""MLFS' jobs: graphs of tasks, drawn at random or made of rigid jobs; traces by name.

A job is data-parallel replicas of a model whose partitions form layers. A job of ``g`` GPUs has
``g = D * P`` tasks, one for each of ``P`` partitions in each of ``D`` replicas; task ``d * P + p``
is partition ``p`` of replica ``d``. Partition ``p`` is in layer ``p // w``, and every part of a
layer feeds every part of the next. The workload has bursts of jobs by day and night, with deadlines
and heavy-tailed run times. Rigid jobs, as traces with only a number of GPUs have them, become jobs
of tasks.

Axes: ``n`` jobs, ``L`` numbers of the longest list. Source: MLFS (CoNEXT '20); specification,
sections 2 and 11.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import (
    NO_SUBMISSION,
    RIGID_JOBS,
    Column,
    Integers,
    JobTable,
    Problem,
    Schema,
    validate,
)
from jaxsched.jobs.columns import list_lengths, to_length
from jaxsched.jobs.draws import generator
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace

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


Floats = npt.NDArray[np.float64]

SPAN_S = 36 * 3600
SMALL_JOBS, REAL_JOBS = 155, 620
"""Jobs of load 1 on 20 GPUs and on 80, in ``SPAN_S``."""
DAY_S = 86400.0
MEAN_RATE, SWING, PHASE = 0.65, 0.35, -1.0
"""Bursts come at the rate MEAN_RATE + SWING sin(2 pi s / DAY_S + PHASE), times a constant."""
BURST_STOP = 0.6  # chance that a job is the last of its burst
BURST_GAP_S = 20
MEDIAN_MIN, SIGMA = 35.0, 1.2  # run time on an idle cluster; SIGMA of its logarithm
LEAST_MIN, MOST_MIN = 5.0, 1440.0
LEAST_ITERATIONS, MOST_ITERATIONS = 3, 200
WEIGHT = (0.5, 1.5)  # of a partition
BASE_MIN = (1.0, 5.0)  # work of a partition of weight 1
DEEP = 4  # layers; the work of deeper models is halved
LEAST_WORK = 300  # 1/1000 min
CURVE = (8.0, 60.0)  # curve_a x iterations / 1000
OPTIMAL_PERCENT = 99  # of the last accuracy
REQUIRED = (0.7, 1.0)  # share of the iterations
GPU_DEMAND = (200, 250, 300, 350, 400, 450)
CPUS, MEM_GB, VOLUME_MB, URGENCY = (1, 3), (2, 16), (50, 100), (1, 10)
DEADLINE_FACTOR = 1.1  # of the shortest run time
SLACK_H = (0.5, 24.0)
ACC_MAX, ACC_DIGITS = (0.7, 0.99), 4
OPTION, ALLOW = 1, 2
BRANCH = 5  # of the seed's tree: draws of other generators are independent of these


def task_tables(
    seed: int,
    num_tables: int,
    *,
    num_jobs: int,
    span_s: float = SPAN_S,
    models: Sequence[int] | None = None,
    sizes: Sequence[int] | None = None,
) -> list[JobTable]:
    """Tables of task-graph jobs, sorted by submission, the first of them not at 0.

    Table ``k`` of a seed is the same however many are asked for. More jobs in the same span are a
    higher load: 155 jobs in 36 h are load 1 of 20 GPUs, 620 that of 80.

    Args:
      seed: whole number from 0 on.
      num_tables: how many tables.
      num_jobs: jobs in each.
      span_s: bursts begin between 0 and this (s).
      models: rows of ``MODELS`` to draw from, all alike; all of them by default.
      sizes: numbers of GPUs to draw from, all alike; all of ``SIZES`` by default.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_tables=num_tables)
    return [
        task_table(seed, index, num_jobs=num_jobs, span_s=span_s, models=models, sizes=sizes)
        for index in range(num_tables)
    ]


def task_table(
    seed: int,
    index: int,
    *,
    num_jobs: int,
    span_s: float = SPAN_S,
    models: Sequence[int] | None = None,
    sizes: Sequence[int] | None = None,
) -> JobTable:
    """Table ``index`` of a seed; see ``task_tables``.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_jobs=num_jobs)
    if not 0 < span_s <= 2**29:
        raise JaxschedError(f"span_s is {span_s!r}; accepted: seconds above 0, at most 2**29")
    models = _subset("models", models, range(len(MODELS)))
    sizes = _subset("sizes", sizes, SIZES)
    arrivals, shapes, jobs = (generator(seed, BRANCH, index, part) for part in range(3))
    model = shapes.choice(models, num_jobs)
    num_gpus = shapes.choice(sizes, num_jobs)
    minutes = MEDIAN_MIN * np.exp(SIGMA * shapes.standard_normal(num_jobs))
    columns = draw_jobs(
        jobs,
        submit_s=submissions(arrivals, num_jobs, float(span_s)),
        model=model,
        num_gpus=num_gpus,
        minutes=np.clip(minutes, LEAST_MIN, MOST_MIN),
    )
    return validate(
        JobTable(columns, f"mlfs-{num_jobs}-{seed}-{index}", schema=TASK_JOBS), from_zero=False
    )


def submissions(draw: np.random.Generator, num_jobs: int, span_s: float) -> Integers:
    """Submission times (s, int64 ``[n]``, sorted) of bursts whose rate follows the day.

    Bursts have a geometric number of jobs, 20 s apart; the last one drawn is cut to the number of
    jobs, and jobs beyond the span are submitted at its end.
    """
    sizes = draw.geometric(BURST_STOP, num_jobs)  # a burst has at least one job
    num_bursts = int(np.searchsorted(np.cumsum(sizes), num_jobs)) + 1
    sizes = sizes[:num_bursts]
    sizes[-1] -= int(sizes.sum()) - num_jobs
    starts = np.empty(0)
    while len(starts) < num_bursts:
        at = span_s * draw.random(num_bursts)
        rate = MEAN_RATE + SWING * np.sin(2 * math.pi * at / DAY_S + PHASE)
        kept = draw.random(num_bursts) * (MEAN_RATE + SWING) < rate
        starts = np.concatenate([starts, at[kept]])
    position = np.arange(num_jobs) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    times = np.repeat(starts[:num_bursts], sizes) + BURST_GAP_S * position
    return np.sort(np.minimum(np.floor(times), math.floor(span_s)).astype(np.int64))


def draw_jobs(
    draw: np.random.Generator,
    *,
    submit_s: Integers,
    model: Integers,
    num_gpus: Integers,
    minutes: Floats,
) -> dict[str, Integers | Floats]:
    """The columns of ``TASK_JOBS``, with what no trace tells drawn.

    Args:
      draw: where the random numbers come from.
      submit_s: submission times (s), ``[n]``.
      model: rows of ``MODELS``, ``[n]``.
      num_gpus: values of ``SIZES``, ``[n]``.
      minutes: run times on an idle cluster to aim at with whole iterations (min), ``[n]``.
    """
    num_jobs = len(submit_s)
    _, partitions, width = graph_shape(model, num_gpus)
    work, size = _partitions(draw, partitions, width)
    path = critical_path(work, partitions, width)
    iterations = np.rint(minutes * 1000 / path)
    iterations = np.clip(iterations, LEAST_ITERATIONS, MOST_ITERATIONS).astype(np.int64)
    curve_a = np.rint(1000 * draw.uniform(*CURVE, num_jobs) / iterations).astype(np.int64)
    required = np.ceil(iterations * draw.uniform(*REQUIRED, num_jobs))
    shortest_s = iterations * path * 60 / 1000
    allowed_s = np.maximum(DEADLINE_FACTOR * shortest_s, 3600 * draw.uniform(*SLACK_H, num_jobs))
    return {
        "submit_time": submit_s,
        "num_gpus": num_gpus,
        "model": model,
        "iterations": iterations,
        "opt_iter": optimal_iteration(iterations, curve_a),
        "req_iter": required.astype(np.int64),
        "work": work,
        "size": size,
        "gpu_demand": draw.choice(GPU_DEMAND, num_jobs),
        "cpus": _whole(draw, CPUS, num_jobs),
        "mem": _whole(draw, MEM_GB, num_jobs),
        "vol_worker": _whole(draw, VOLUME_MB, num_jobs),
        "vol_ps": _whole(draw, VOLUME_MB, num_jobs),
        "deadline": submit_s + np.ceil(allowed_s).astype(np.int64),
        "urgency": _whole(draw, URGENCY, num_jobs),
        "curve_a": curve_a,
        "acc_max": np.round(draw.uniform(*ACC_MAX, num_jobs), ACC_DIGITS),
        "option": np.full(num_jobs, OPTION),
        "allow": np.full(num_jobs, ALLOW),
    }


def optimal_iteration(iterations: Integers, curve_a: Integers) -> Integers:
    """The first iteration ``n`` with ``A(n) >= 0.99 A(iterations)``, ``[n]``, exactly.

    With ``A(n)`` proportional to ``a n / (1000 + a n)`` and ``I`` iterations this is
    ``n (100000 + a I) >= 99000 I``.
    """
    slope = (100 - OPTIMAL_PERCENT) * curve_a * iterations + 100_000
    first: Integers = -(-1000 * OPTIMAL_PERCENT * iterations // slope)
    return first


def _partitions(
    draw: np.random.Generator, partitions: Integers, width: Integers
) -> tuple[Integers, Integers]:
    """Work (1/1000 min) and size (1/1000) of each partition, ``[n, L]``, 0 beyond the last."""
    here = np.arange(int(partitions.max())) < partitions[:, None]
    weight = np.where(here, draw.uniform(*WEIGHT, here.shape), 0.0)
    base = draw.uniform(*BASE_MIN, len(partitions))
    base = np.where(partitions // width > DEEP, base / 2, base)[:, None]
    work = np.maximum(LEAST_WORK, np.floor(1000 * base * (0.5 + 0.5 * weight)))
    size = np.maximum(1, np.floor(1000 * (weight / weight.sum(axis=1, keepdims=True))))
    return np.where(here, work, 0).astype(np.int64), np.where(here, size, 0).astype(np.int64)


def _whole(draw: np.random.Generator, bounds: tuple[int, int], size: int) -> Integers:
    """Whole numbers between two bounds, both included."""
    low, high = bounds
    return draw.integers(low, high, size, endpoint=True)


def _subset(name: str, chosen: Sequence[int] | None, accepted: Sequence[int]) -> list[int]:
    chosen = accepted if chosen is None else chosen
    if not len(chosen) or any(value not in accepted for value in chosen):
        among = ", ".join(map(str, accepted))
        raise JaxschedError(f"{name} is {list(chosen)}; accepted: one or more of {among}")
    return [int(value) for value in chosen]


_MAPPING = 2**31  # the place of these draws in the generator's tree, beyond that of any table


def task_jobs(table: JobTable, *, seed: int = 0, uniform_gpus: bool = True) -> JobTable:
    """Jobs of tasks of a table of rigid ones.

    Submission times stay; iterations are chosen so that a job on an idle cluster runs as long as
    in the trace, as far as 3 to 200 of them reach. Models and all else are drawn as in the
    generator.

    Args:
      table: ``submit_time``, ``duration`` and ``num_gpus``; its models are not used.
      seed: of the draws, a whole number from 0 on.
      uniform_gpus: draw the numbers of GPUs, all sizes alike, as the paper does for 80 GPUs; else
        round the trace's up to the next size, at most 32.

    Raises:
      JaxschedError: the seed is not a whole number from 0 on.
    """
    shapes, jobs = (generator(seed, BRANCH, _MAPPING, part) for part in range(2))
    num_jobs, asked = len(table), table["num_gpus"]
    model = shapes.integers(len(MODELS), size=num_jobs)
    if uniform_gpus:
        num_gpus = shapes.choice(SIZES, num_jobs)
        changes = {"numbers of GPUs drawn at random": True}
    else:
        size = np.minimum(np.searchsorted(SIZES, asked), len(SIZES) - 1)
        num_gpus = np.array(SIZES)[size]
        raised, capped = int(np.sum(num_gpus > asked)), int(np.sum(asked > SIZES[-1]))
        changes = {
            f"{raised} numbers of GPUs rounded up": raised > 0,
            f"{capped} jobs capped at {SIZES[-1]} GPUs": capped > 0,
        }
    columns = draw_jobs(
        jobs,
        submit_s=table["submit_time"],
        model=model,
        num_gpus=num_gpus,
        minutes=table["duration"] / 60,
    )
    mapped = JobTable(columns, table.name, schema=TASK_JOBS)
    planned, iterations = as_rigid(mapped)["duration"], mapped["iterations"]
    longer = int(np.sum((iterations == LEAST_ITERATIONS) & (planned > table["duration"])))
    shorter = int(np.sum((iterations == MOST_ITERATIONS) & (planned < table["duration"])))
    changes[f"{longer} run times raised to those of {LEAST_ITERATIONS} iterations"] = longer > 0
    changes[f"{shorter} run times lowered to those of {MOST_ITERATIONS} iterations"] = shorter > 0
    notes = [*table.notes, "tasks, models, accuracy and deadlines drawn at random"]
    notes += [note for note, happened in changes.items() if happened]
    return JobTable(mapped.columns, mapped.name, tuple(notes), TASK_JOBS)


LARGE_JOBS = 20_000
LARGE_LOADS = (0.5, 1.0, 2.0, 3.0, 4.0)
LARGE_SPAN_S = SPAN_S * (LARGE_JOBS / 2474) / (REAL_JOBS / 80)
"""Span (s, 37.6 h) that gives each of 2474 GPUs the load that 620 jobs in 36 h give each of 80."""


def _drawn(name: str, num_gpus: int, usual: int, span_s: float = SPAN_S) -> NamedTrace:
    """Other numbers of jobs come in as much shorter or longer a span, at the same load."""

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        span = span_s * (num_jobs / usual)
        return task_tables(seed, num_traces, num_jobs=num_jobs, span_s=span)

    words = f"MLFS workload, {usual} jobs in {span_s / 3600:.4g} h, for {num_gpus} GPUs"
    return NamedTrace(f"mlfs-{name}", words, True, make, usual)


CALIBRATED = 2.5
"""Span over the usual one with which the shares of jobs under 100 minutes at load 3 are nearest to
the paper's (Fig. 4a; ``benchmarks.mlfs_readings --span``)."""


def _calibrated(name: str, num_gpus: int, usual: int) -> NamedTrace:
    """As many jobs in a longer span."""
    return _drawn(name, num_gpus, usual, SPAN_S * CALIBRATED)


def _mixed(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Loads 1, 2 and 3 by turns: 155, 310, 465 jobs in 36 h, or the number asked for in less."""
    tables = []
    for index in range(num_traces):
        usual = SMALL_JOBS * (1 + index % 3)
        jobs = num_jobs or usual
        tables.append(task_table(seed, index, num_jobs=jobs, span_s=SPAN_S * (jobs / usual)))
    return tables


WORKLOAD = Workload(
    jobs=(JobKind(TASK_JOBS, as_rigid, busy_gpu_seconds),),
    traces=(
        *(_drawn(f"small-x{load}", 20, SMALL_JOBS * load) for load in (1, 2, 3)),
        NamedTrace(
            "mlfs-small-mixed",
            "MLFS workload, 155, 310 and 465 jobs in 36 h by turns, for 20 GPUs",
            True,
            _mixed,
            0,
        ),
        *(_drawn(f"real-x{load:g}", 80, int(REAL_JOBS * load)) for load in (0.25, 0.5, 1, 2, 3)),
        *(_calibrated(f"small-calibrated-x{load}", 20, SMALL_JOBS * load) for load in (1, 2, 3)),
        *(_calibrated(f"real-calibrated-x{load}", 80, REAL_JOBS * load) for load in (1, 2, 3)),
        *(
            _drawn(f"large-x{load:g}", 2474, int(LARGE_JOBS * load), LARGE_SPAN_S)
            for load in LARGE_LOADS
        ),
    ),
)
