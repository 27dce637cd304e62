"""Which kinds of jobs there are: rigid ones, and those that are offered."""

from jaxsched import offers
from jaxsched.jobs import JobTable
from jaxsched.jobs.kinds import RIGID, JobKind


def job_kinds() -> tuple[JobKind, ...]:
    """All kinds of jobs, rigid ones first."""
    own = (kind for workload in offers.workloads() for kind in workload.jobs)
    return (RIGID, *own)


def kind_of(table: JobTable) -> JobKind:
    """The kind of a table's jobs; rigid ones if no system has its schema."""
    if table.schema == RIGID.schema:
        return RIGID
    return next((kind for kind in job_kinds() if kind.schema == table.schema), RIGID)
