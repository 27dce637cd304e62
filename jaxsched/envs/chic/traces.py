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


def _mixed(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Table ``k`` is table ``k`` of one of the rates, which take turns."""
    share = len(RATES_PER_HOUR)
    drawn = [
        chic_tables(seed, num_traces, num_jobs=num_jobs, rate_per_hour=rate)
        for rate in RATES_PER_HOUR
    ]
    return [drawn[index % share][index] for index in range(num_traces)]


MIXED = NamedTrace("chic-mixed", "Chic workload, 0.9 to 2.7 per hour in turn", True, _mixed, 30)
WORKLOAD = Workload(
    jobs=(JobKind(CHIC_JOBS),), traces=(*(_drawn(rate) for rate in RATES_PER_HOUR), MIXED)
)
