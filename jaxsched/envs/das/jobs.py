"""What a job of DAS is, and jobs by name: drawn from two workloads, and shipped.

A job is equal instances that start together (a gang) and run to their end. Tables of rigid jobs
become tables of gangs, and the reverse (source: DAS; specification, section 11).

The paper's workload: sessions of gang jobs of one shape, by day and night, with heavy-tailed run
times (statistics of a public cloud's trace; specification, section 11).

The contended one has something to learn: who submits a job tells how long it takes. Users submit
jobs of groups (recurring jobs, submitted again with the same shape), as on the public cluster of
Weng et al., MLaaS in the Wild, NSDI 2022: there most tasks belong to groups that recur five times
or more, and durations can be predicted from group and user. Arrivals are stationary, at a load that
keeps jobs waiting; shapes, medians, spread and requests are those of the paper's workload but for
jobs of more than 32 GPUs, which on the smallest cluster wait for half of it.
"""

import math

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import NO_SUBMISSION, RIGID_JOBS, Column, Integers, JobTable, Schema, validate
from jaxsched.jobs.draws import generator, pick
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.details import CPUS, INSTANCES, MEMORY
from jaxsched.traces.named import NamedTrace, shipped_tables

MAX_DURATION_S = 2**24 - 1  # in hundredths of a second it fits in int32

GANG_JOBS: Schema = (
    Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission"),
    Column("num_instances", 1, 2**15, "instances", "workers that start together"),
    Column("gpus_per_instance", 1, 2**10, "GPUs", "of each instance"),
    Column("cpus_per_instance", 0, 2**12, "CPUs", "of each instance"),
    Column("mem_per_instance", 0, 2**14, "GB", "memory of each instance"),
    Column("duration", 1, MAX_DURATION_S, "s", "run time at full speed"),
)
"""Jobs of DAS; further systems of gang-scheduled jobs may share it."""

GROUP, USER = "group", "user"
"""Columns that tables may have beside these: whose job it is, and which it repeats."""


def as_rigid(table: JobTable) -> JobTable:
    """Gang jobs by their number of GPUs alone (model 0); other tables as they are."""
    if table.schema != GANG_JOBS:
        return table
    columns = {
        "submit_time": table["submit_time"],
        "num_gpus": table["num_instances"] * table["gpus_per_instance"],
        "duration": table["duration"],
        "model": np.zeros(len(table), np.int64),
    }
    return JobTable(columns, table.name, table.notes, RIGID_JOBS)


MAX_GPUS = 64  # of the smallest cluster: the same table serves all
GPUS_PER_SERVER, CPUS_PER_SERVER, GB_PER_SERVER = 8, 96, 384
CPUS_PER_GPU, GB_PER_GPU = 6, 29
MOST_RUN_S = 3 * 86400


def gang_jobs(table: JobTable) -> JobTable:
    """Gang jobs of a table of rigid ones.

    Instances, CPUs and memory are the trace's where it tells them (``jaxsched.traces.details``):
    an instance's share of the job's GPUs, CPUs and memory, each rounded up. Else even rows become
    instances of one GPU, odd rows instances of up to eight; 6 CPUs and 29 GB for each GPU. Jobs of
    more than 64 GPUs and instances of more than a server are capped, run times cut at three days.
    """
    asked = table["num_gpus"]
    gpus = np.minimum(asked, MAX_GPUS)
    derived = ["CPUs and memory"]
    if INSTANCES in table.columns:
        instances = np.clip(table[INSTANCES], 1, MAX_GPUS)
        each = np.minimum(-(-asked // np.maximum(table[INSTANCES], 1)), GPUS_PER_SERVER)
        instances = np.minimum(instances, MAX_GPUS // each)
    else:
        derived = ["instances, CPUs and memory"]
        odd = np.arange(len(table)) % 2 == 1
        instances = np.where(odd, -(-gpus // GPUS_PER_SERVER), gpus)
        each = np.where(odd, np.minimum(gpus, GPUS_PER_SERVER), 1)
    cpus, memory = CPUS_PER_GPU * each, GB_PER_GPU * each
    if INSTANCES in table.columns and {CPUS, MEMORY} <= set(table.columns):
        derived = []
        cpus = np.minimum(-(-table[CPUS] // np.maximum(table[INSTANCES], 1)), CPUS_PER_SERVER)
        memory = np.minimum(-(-table[MEMORY] // np.maximum(table[INSTANCES], 1)), GB_PER_SERVER)
    columns = {
        "submit_time": table["submit_time"],
        "num_instances": instances,
        "gpus_per_instance": each,
        "cpus_per_instance": cpus,
        "mem_per_instance": memory,
        "duration": np.minimum(table["duration"], MOST_RUN_S),
    }
    capped = int(np.sum(instances * each < asked))
    cut = int(np.sum(table["duration"] > MOST_RUN_S))
    notes = [
        *table.notes,
        *(f"{what} derived from numbers of GPUs" for what in derived),
        *([f"{capped} jobs capped at {MAX_GPUS} GPUs or a server's"] if capped else []),
        *([f"{cut} run times lowered to {MOST_RUN_S} s"] if cut else []),
    ]
    return JobTable(columns, table.name, tuple(notes), GANG_JOBS)


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
CPUS_DRAWN = ((4, 0.15), (6, 0.45), (8, 0.2), (10, 0.1), (12, 0.1))
GB_DRAWN = ((16, 0.2), (29, 0.5), (40, 0.2), (48, 0.1))
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
    return [_gang_table(seed, index, int(num_jobs), float(rate)) for index in range(num_tables)]


def _gang_table(seed: int, index: int, num_jobs: int, rate: float) -> JobTable:
    arrivals, jobs = (generator(seed, BRANCH, index, part) for part in range(2))
    times, session = _sessions_by_day(arrivals, num_jobs)
    shape = pick(jobs.random(int(session.max()) + 1), [weight for _, _, weight in SHAPES])[session]
    instances, gpus = (np.array([row[part] for row in SHAPES])[shape] for part in (0, 1))
    cpus = per_gpu(jobs, CPUS_DRAWN, num_jobs) * gpus
    memory = per_gpu(jobs, GB_DRAWN, num_jobs) * gpus
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


def _sessions_by_day(draw: np.random.Generator, num_jobs: int) -> tuple[Floats, Integers]:
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


CONTENDED_BRANCH = 5  # of the seed's tree
LOAD = 0.9  # GPU time asked for over that of the cluster
MOST_GPUS = 32  # of a job
MEAN_SESSION_GAP_S = 1250.0  # per job of a session, before times are scaled to the load
NUM_USERS = 40
ACTIVITY_POWER = 0.8  # of one over a user's rank: some submit much more than others
NEW_GROUP = 0.5  # probability that a session is of a group that its user has not used before
USER_SIGMA, GROUP_SIGMA, JOB_SIGMA = 0.9, 1.0, 0.5
"""Of the logarithm of the run time: between users, between a user's groups, within a group. Their
squares add up to about the 1.5 squared of the paper's workload."""


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
    return [_contended_table(seed, k, int(num_jobs), load * num_gpus) for k in range(num_tables)]


def _contended_table(seed: int, index: int, num_jobs: int, busy_gpus: float) -> JobTable:
    arrivals, jobs = (generator(seed, CONTENDED_BRANCH, index, part) for part in range(2))
    times, session = _stationary_sessions(arrivals, num_jobs)
    user, group = _submitters(jobs, int(session.max()) + 1)
    num_groups = int(group.max()) + 1
    shapes = [row for row in SHAPES if row[0] * row[1] <= MOST_GPUS]
    shape = pick(jobs.random(num_groups), [weight for _, _, weight in shapes])
    of_user = USER_SIGMA * jobs.standard_normal(NUM_USERS)
    of_group = GROUP_SIGMA * jobs.standard_normal(num_groups)
    of_job = JOB_SIGMA * jobs.standard_normal(num_jobs)
    cpus, memory = (per_gpu(jobs, each, num_groups) for each in (CPUS_DRAWN, GB_DRAWN))

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


def _stationary_sessions(draw: np.random.Generator, num_jobs: int) -> tuple[np.ndarray, Integers]:
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


TRAINING_JOBS, EPISODE_JOBS = 16_000, 1000
CLUSTERS = {"small": 8, "medium": 16, "large": 32}
"""Machines of the paper's clusters."""


def das_stream() -> JobTable:
    """The DAS workload that the project ships, training and test part: 20,000 jobs."""
    return shipped_tables("das_workload.csv.gz", GANG_JOBS)[0]


def _training_stream() -> JobTable:
    return das_stream().take(slice(0, TRAINING_JOBS), name="das-train")


def _train(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    return [_training_stream()]


def _test(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    table = das_stream()
    starts = range(TRAINING_JOBS, len(table), EPISODE_JOBS)
    return [
        table.window(start, EPISODE_JOBS, name=f"das-test[{index}]")
        for index, start in enumerate(starts)
    ]


def _mixed(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Half windows of the training stream, the same ones for any seed, then fresh traces."""
    stream = _training_stream()
    num_windows = num_traces // 2
    last = max(len(stream) - num_jobs, 0)
    starts = [last * k // max(num_windows - 1, 1) for k in range(num_windows)]
    windows = [stream.window(start, num_jobs, name=f"das-train[{start}:]") for start in starts]
    return windows + gang_tables(seed, num_traces - num_windows, num_jobs=num_jobs)


def _drawn(load: str) -> NamedTrace:
    rate = LOADS[load]

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return gang_tables(seed, num_traces, num_jobs=num_jobs, rate=rate)

    return NamedTrace(f"das-{load}", f"DAS workload, arrival rate {rate:g}", True, make)


def _of_cluster(cluster: str) -> NamedTrace:
    num_gpus = GPUS_PER_SERVER * CLUSTERS[cluster]
    suffix = "" if cluster == "small" else f"-{cluster}"

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return contended_tables(seed, num_traces, num_jobs=num_jobs, num_gpus=num_gpus)

    words = f"users and groups tell run times, load {LOAD:g} of {num_gpus} GPUs"
    return NamedTrace(f"das-contended{suffix}", f"DAS shapes, {words}", True, make)


WORKLOAD = Workload(
    jobs=(JobKind(GANG_JOBS, as_rigid),),
    traces=(
        NamedTrace(
            "das-train",
            "DAS workload: the 16,000 training jobs, one stream (shipped)",
            False,
            _train,
        ),
        NamedTrace(
            "das-test",
            "DAS workload: the 4,000 test jobs as four traces of 1000 (shipped)",
            False,
            _test,
        ),
        NamedTrace(
            "das-mixed",
            "DAS workload: half windows of the training stream, half fresh traces of rate 1",
            True,
            _mixed,
        ),
        *(_drawn(load) for load in LOADS),
        *(_of_cluster(cluster) for cluster in CLUSTERS),
    ),
)
