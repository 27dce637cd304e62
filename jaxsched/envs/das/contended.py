"""A workload in which there is something to learn: who submits a job tells how long it takes.

Users submit jobs of groups (recurring jobs, submitted again with the same shape), as on the public
cluster of Weng et al., MLaaS in the Wild, NSDI 2022: there most tasks belong to groups that recur
five times or more, and durations can be predicted from group and user. Arrivals are stationary, at
a load that keeps jobs waiting; shapes, medians, spread and requests are those of ``workload.py``
but for jobs of more than 32 GPUs, which on the smallest cluster wait for half of it.
"""

import math

import numpy as np

from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.workload import (
    CPUS_PER_GPU,
    GB_PER_GPU,
    LEAST_DURATION_S,
    MEAN_GAP_S,
    MEAN_SESSION,
    MEDIAN_DURATION_S,
    MOST_DURATION_S,
    SHAPES,
    SIZE_POWER,
    per_gpu,
)
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import Integers, JobTable, validate
from jaxsched.jobs.draws import generator, pick

BRANCH = 5  # of the seed's tree
LOAD = 0.9  # GPU time asked for over that of the cluster
MOST_GPUS = 32  # of a job
MEAN_SESSION_GAP_S = 1250.0  # per job of a session, before times are scaled to the load
NUM_USERS = 40
ACTIVITY_POWER = 0.8  # of one over a user's rank: some submit much more than others
NEW_GROUP = 0.5  # probability that a session is of a group that its user has not used before
USER_SIGMA, GROUP_SIGMA, JOB_SIGMA = 0.9, 1.0, 0.5
"""Of the logarithm of the run time: between users, between a user's groups, within a group. Their
squares add up to about the 1.5 squared of ``workload.py``."""


def contended_tables(
    seed: int, num_tables: int, *, num_jobs: int = 1000, num_gpus: int = 64, load: float = LOAD
) -> list[JobTable]:
    """Tables of gang jobs with the columns ``group`` and ``user``, sorted by submission.

    Table ``k`` of a seed has the same jobs however many are asked for, for every cluster and load:
    these scale the time between them.

    Args:
      seed: whole number from 0 on.
      num_tables: how many tables.
      num_jobs: jobs in each.
      num_gpus: GPUs of the cluster.
      load: GPU time asked for over that of the cluster, from first to last submission.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_tables=num_tables, num_jobs=num_jobs, num_gpus=num_gpus)
    if not 0 < load < math.inf:
        raise JaxschedError(f"load is {load!r}; accepted: a number above 0")
    return [_table(seed, k, int(num_jobs), load * num_gpus) for k in range(num_tables)]


def _table(seed: int, index: int, num_jobs: int, busy_gpus: float) -> JobTable:
    arrivals, jobs = (generator(seed, BRANCH, index, part) for part in range(2))
    times, session = _submissions(arrivals, num_jobs)
    user, group = _submitters(jobs, int(session.max()) + 1)
    num_groups = int(group.max()) + 1
    shapes = [row for row in SHAPES if row[0] * row[1] <= MOST_GPUS]
    shape = pick(jobs.random(num_groups), [weight for _, _, weight in shapes])
    of_user = USER_SIGMA * jobs.standard_normal(NUM_USERS)
    of_group = GROUP_SIGMA * jobs.standard_normal(num_groups)
    of_job = JOB_SIGMA * jobs.standard_normal(num_jobs)
    cpus, memory = (per_gpu(jobs, each, num_groups) for each in (CPUS_PER_GPU, GB_PER_GPU))

    group, user = group[session], user[session]
    instances, gpus = (np.array([row[part] for row in shapes])[shape[group]] for part in (0, 1))
    spread = np.exp(of_user[user] + of_group[group] + of_job)
    duration = MEDIAN_DURATION_S * spread * (instances * gpus) ** SIZE_POWER
    duration = np.clip(np.rint(duration), LEAST_DURATION_S, MOST_DURATION_S)
    if times[-1] > 0:
        times *= float(np.sum(instances * gpus * duration)) / busy_gpus / times[-1]
    columns = {
        "submit_time": np.rint(times).astype(np.int64),
        "num_instances": instances,
        "gpus_per_instance": gpus,
        "cpus_per_instance": cpus[group] * gpus,
        "mem_per_instance": memory[group] * gpus,
        "duration": duration.astype(np.int64),
        "user": user,
        "group": group,
    }
    return validate(JobTable(columns, f"das-contended-{seed}-{index}", schema=GANG_JOBS))


def _submissions(draw: np.random.Generator, num_jobs: int) -> tuple[np.ndarray, Integers]:
    """Submission times (s), sorted, from 0, and the session of each job.

    Sessions are a Poisson process and have geometric numbers of jobs.
    """
    size = draw.geometric(1.0 / MEAN_SESSION, num_jobs)  # more sessions than are needed
    size = size[: int(np.searchsorted(np.cumsum(size), num_jobs)) + 1]
    start = np.cumsum(draw.exponential(MEAN_SESSION * MEAN_SESSION_GAP_S, len(size)))
    session = np.repeat(np.arange(len(size)), size)
    gaps = draw.exponential(MEAN_GAP_S, len(session))
    first = np.concatenate([[True], session[1:] != session[:-1]])
    since = np.cumsum(np.where(first, 0.0, gaps))
    times = start[session] + since - since[first][session]
    order = np.argsort(times, kind="stable")[:num_jobs]
    return times[order] - times[order[0]], session[order]


def _submitters(draw: np.random.Generator, num_sessions: int) -> tuple[Integers, Integers]:
    """User and group of each session; a user's known groups recur by how often they were used."""
    activity = [(1.0 + rank) ** -ACTIVITY_POWER for rank in range(NUM_USERS)]
    user = pick(draw.random(num_sessions), activity)
    fresh, which = draw.random(num_sessions) < NEW_GROUP, draw.random(num_sessions)
    used: list[list[int]] = [[] for _ in range(NUM_USERS)]
    group = np.zeros(num_sessions, np.int64)
    count = 0
    for index, who in enumerate(user):
        earlier = used[who]
        if fresh[index] or not earlier:
            group[index], count = count, count + 1
        else:
            group[index] = earlier[int(which[index] * len(earlier))]
        earlier.append(int(group[index]))
    return user, group
