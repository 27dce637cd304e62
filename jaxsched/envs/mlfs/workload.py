"""MLFS' workload: bursts of jobs by day and night, with deadlines and heavy-tailed run times.

Source: MLFS (CoNEXT '20), evaluation; specification, section 11.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxsched.envs.mlfs.jobs import MODELS, SIZES, TASK_JOBS, critical_path, graph_shape
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import Integers, JobTable, validate
from jaxsched.jobs.draws import generator

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
