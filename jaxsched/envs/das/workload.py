"""DAS' workload: sessions of gang jobs of one shape, by day and night, with heavy-tailed run times.

Source: DAS, evaluation (statistics of a public cloud's trace); specification, section 11.
"""

import math

import numpy as np
import numpy.typing as npt

from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import Integers, JobTable, validate
from jaxsched.jobs.draws import generator, pick

Floats = npt.NDArray[np.float64]

LOADS = {"low": 0.5, "normal": 1.0, "high": 2.0}
GPUS_AT_RATE_1 = 45.0  # asked for on average
DAY_S = 86400.0
PEAK_HOUR = 15.0
SESSION_RATE = 1.0 / (1250.0 * 5.0)  # sessions per second
MEAN_SESSION = 5.0  # jobs
MEAN_GAP_S = 20.0  # inside a session
SHAPES = (
    *((1, 1, 0.38), (2, 1, 0.12), (1, 2, 0.05), (4, 1, 0.08), (2, 2, 0.03), (1, 4, 0.03)),
    *((8, 1, 0.055), (4, 2, 0.02), (1, 8, 0.025), (16, 1, 0.055), (4, 4, 0.015), (2, 8, 0.015)),
    *((32, 1, 0.04), (8, 4, 0.02), (4, 8, 0.02), (48, 1, 0.015), (6, 8, 0.01), (8, 7, 0.005)),
    *((64, 1, 0.005), (8, 8, 0.015)),
)
"""Instances, GPUs per instance, weight."""
MEDIAN_DURATION_S = 28.5 * 60
SIGMA = 1.5  # of the logarithm
SIZE_POWER = 0.09
LEAST_DURATION_S, MOST_DURATION_S = 60, 3 * 86400
CPUS_PER_GPU = ((4, 0.15), (6, 0.45), (8, 0.2), (10, 0.1), (12, 0.1))
GB_PER_GPU = ((16, 0.2), (29, 0.5), (40, 0.2), (48, 0.1))
BRANCH = 4  # of the seed's tree: draws of other generators are independent of these


def gang_tables(
    seed: int, num_tables: int, *, num_jobs: int = 1000, rate: float = 1.0
) -> list[JobTable]:
    """Tables of gang jobs, the first submitted at 0, sorted by submission.

    Table ``k`` of a seed has the same jobs however many are asked for and at every rate; the rate
    scales the time between them.

    Args:
      seed: whole number from 0 on.
      num_tables: how many tables.
      num_jobs: jobs in each.
      rate: offered load in units of 45 busy GPUs; the paper's low, normal and high are 0.5, 1, 2.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_tables=num_tables, num_jobs=num_jobs)
    if not 0 < rate < math.inf:
        raise JaxschedError(f"rate is {rate!r}; accepted: a number above 0")
    return [_table(seed, index, int(num_jobs), float(rate)) for index in range(num_tables)]


def _table(seed: int, index: int, num_jobs: int, rate: float) -> JobTable:
    arrivals, jobs = (generator(seed, BRANCH, index, part) for part in range(2))
    times, session = _submissions(arrivals, num_jobs)
    shape = pick(jobs.random(int(session.max()) + 1), [weight for _, _, weight in SHAPES])[session]
    instances, gpus = (np.array([row[part] for row in SHAPES])[shape] for part in (0, 1))
    cpus = per_gpu(jobs, CPUS_PER_GPU, num_jobs) * gpus
    memory = per_gpu(jobs, GB_PER_GPU, num_jobs) * gpus
    noise = np.exp(SIGMA * jobs.standard_normal(num_jobs))
    duration = MEDIAN_DURATION_S * noise * (instances * gpus) ** SIZE_POWER
    duration = np.clip(np.rint(duration), LEAST_DURATION_S, MOST_DURATION_S)
    times -= times[0]
    work = float(np.sum(instances * gpus * duration))
    if times[-1] > 0:
        times *= work / (rate * GPUS_AT_RATE_1) / times[-1]
    columns = {
        "submit_time": np.rint(times).astype(np.int64),
        "num_instances": instances,
        "gpus_per_instance": gpus,
        "cpus_per_instance": cpus,
        "mem_per_instance": memory,
        "duration": duration.astype(np.int64),
    }
    return validate(JobTable(columns, f"das-{rate:g}-{seed}-{index}", schema=GANG_JOBS))


def _submissions(draw: np.random.Generator, num_jobs: int) -> tuple[Floats, Integers]:
    """Submission times (s), sorted, and the session of each of the first ``num_jobs`` jobs."""
    times: list[Floats] = []
    clock, jobs, horizon = 0.0, 0, math.inf
    while clock < horizon:
        clock += draw.exponential(1.0 / (2.0 * SESSION_RATE))
        share = (1.0 + math.cos(2 * math.pi * (clock / DAY_S - PEAK_HOUR / 24.0))) / 2.0
        if draw.random() >= share:
            continue
        size = int(draw.geometric(1.0 / MEAN_SESSION))
        gaps = draw.exponential(MEAN_GAP_S, size)
        times.append(clock + np.cumsum(gaps) - gaps[0])
        jobs += size
        if jobs >= num_jobs and horizon == math.inf:  # later sessions may still overlap the last
            horizon = max(float(part[-1]) for part in times)
    session = np.repeat(np.arange(len(times)), [len(part) for part in times])
    submitted = np.concatenate(times)
    order = np.argsort(submitted, kind="stable")[:num_jobs]
    return submitted[order], session[order]


def per_gpu(
    draw: np.random.Generator, choices: tuple[tuple[int, float], ...], size: int
) -> Integers:
    """Drawn amounts of a resource per GPU."""
    values = np.array([value for value, _ in choices])
    return values[pick(draw.random(size), [share for _, share in choices])]
