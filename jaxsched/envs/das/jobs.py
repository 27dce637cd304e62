"""Jobs of equal instances that start together (a gang) and run to their end."""

import numpy as np

from jaxsched.jobs import NO_SUBMISSION, RIGID_JOBS, Column, JobTable, Schema

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
