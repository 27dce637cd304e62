"""DAS' jobs and named traces: shipped, generated, and both by halves."""

from jaxsched.envs.das.contended import LOAD, contended_tables
from jaxsched.envs.das.jobs import GANG_JOBS, as_rigid
from jaxsched.envs.das.workload import LOADS, gang_tables
from jaxsched.jobs import JobTable
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace, shipped_tables

TRAINING_JOBS, EPISODE_JOBS = 16_000, 1000
CLUSTERS = {"small": 8, "medium": 16, "large": 32}
"""Machines of the paper's clusters."""
GPUS_PER_SERVER = 8


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


def _contended(cluster: str) -> NamedTrace:
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
        *(_contended(cluster) for cluster in CLUSTERS),
    ),
)
