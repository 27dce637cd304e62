"""Chic's jobs and named traces: Poisson arrivals of elastic training workloads of three types.

Source: Chic, evaluation; specification, section 11.
"""

import math

import numpy as np

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.elastic.models import CHIC_COEFFICIENTS
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import JobTable, validate
from jaxsched.jobs.draws import generator
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace

RATES_PER_HOUR = (0.9, 1.35, 1.8, 2.25, 2.7)
LEAST_ITERATIONS, MOST_ITERATIONS = 100, 200
BRANCH = 3  # of the seed's tree: draws of other generators are independent of these


def chic_tables(
    seed: int, num_tables: int, *, num_jobs: int = 30, rate_per_hour: float = 1.8
) -> list[JobTable]:
    """Tables of Poisson arrivals, the first at 0, in whole seconds.

    Types are uniform, iterations uniform from 100 to 200. Table ``k`` of a seed is the same however
    many are asked for, and its types and iterations are the same at every rate.

    Args:
      seed: whole number from 0 on.
      num_tables: how many tables.
      num_jobs: workloads in each.
      rate_per_hour: mean arrivals per hour.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_tables=num_tables, num_jobs=num_jobs)
    if not 0 < rate_per_hour < math.inf:
        raise JaxschedError(f"rate_per_hour is {rate_per_hour!r}; accepted: a number above 0")
    return [_table(seed, k, int(num_jobs), float(rate_per_hour)) for k in range(num_tables)]


def _table(seed: int, index: int, num_jobs: int, rate_per_hour: float) -> JobTable:
    draw = generator(seed, BRANCH, index)
    model = draw.integers(0, len(CHIC_COEFFICIENTS), num_jobs)
    iterations = draw.integers(LEAST_ITERATIONS, MOST_ITERATIONS + 1, num_jobs)
    gaps = draw.standard_exponential(num_jobs - 1) * (3600.0 / rate_per_hour)
    times = np.rint(np.concatenate([[0.0], np.cumsum(gaps)]))
    columns = {"submit_time": times, "model": model, "iterations": iterations}
    name = f"chic-{rate_per_hour:g}-{seed}-{index}"
    return validate(JobTable(columns, name, schema=CHIC_JOBS))


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
