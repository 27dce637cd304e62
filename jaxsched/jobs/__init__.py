"""Job tables: the host-side columns that every system shares, and metrics over job records."""

from jaxsched.jobs.stacking import StackedJobs, stack_tables
from jaxsched.jobs.table import (
    MAX_DURATION_S,
    NO_SUBMISSION,
    RIGID_JOBS,
    Column,
    Integers,
    JobTable,
    Problem,
    Schema,
    digest_tables,
    find_problem,
    first_of,
    from_records,
    rescale_arrivals,
    validate,
)

__all__ = [
    "MAX_DURATION_S",
    "NO_SUBMISSION",
    "RIGID_JOBS",
    "Column",
    "Integers",
    "JobTable",
    "Problem",
    "Schema",
    "StackedJobs",
    "digest_tables",
    "find_problem",
    "first_of",
    "from_records",
    "rescale_arrivals",
    "stack_tables",
    "validate",
]
