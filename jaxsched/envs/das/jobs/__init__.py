"""What a job of DAS is: equal instances that start together (a gang) and run to their end.

Tables of rigid jobs become tables of gangs, and the reverse (source: DAS; specification, section
11).
"""

import numpy as np

from jaxsched.jobs import NO_SUBMISSION, RIGID_JOBS, Column, JobTable, Schema
from jaxsched.traces.details import CPUS, INSTANCES, MEMORY

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
