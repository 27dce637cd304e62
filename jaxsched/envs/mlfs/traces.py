"""MLFS' jobs and named traces."""

from jaxsched.envs.mlfs.jobs import TASK_JOBS, as_rigid, busy_gpu_seconds
from jaxsched.envs.mlfs.workload import REAL_JOBS, SMALL_JOBS, SPAN_S, task_table, task_tables
from jaxsched.jobs import JobTable
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace

LARGE_JOBS = 20_000
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
        _drawn("large-x1", 2474, LARGE_JOBS, LARGE_SPAN_S),
    ),
)
