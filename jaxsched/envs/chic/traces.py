"""Chic's jobs and named traces."""

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.envs.chic.workload import RATES_PER_HOUR, chic_tables
from jaxsched.jobs import JobTable
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace


def _drawn(rate: float) -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return chic_tables(seed, num_traces, num_jobs=num_jobs, rate_per_hour=rate)

    return NamedTrace(f"chic-{rate:.2f}", f"Chic workload, {rate:g} per hour", True, make, 30)


WORKLOAD = Workload(
    jobs=(JobKind(CHIC_JOBS),), traces=tuple(_drawn(rate) for rate in RATES_PER_HOUR)
)
