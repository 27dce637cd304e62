"""From rigid jobs, with what a trace tells of their instances, to gang jobs.

Source: DAS; specification, section 11 ("real traces").
"""

import numpy as np

from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.jobs import JobTable
from jaxsched.traces.details import CPUS, INSTANCES, MEMORY

MAX_GPUS = 64  # of the smallest cluster: the same table serves all
GPUS_PER_SERVER, CPUS_PER_SERVER, GB_PER_SERVER = 8, 96, 384
CPUS_PER_GPU, GB_PER_GPU = 6, 29
MAX_DURATION_S = 3 * 86400


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
        "duration": np.minimum(table["duration"], MAX_DURATION_S),
    }
    capped = int(np.sum(instances * each < asked))
    cut = int(np.sum(table["duration"] > MAX_DURATION_S))
    notes = [
        *table.notes,
        *(f"{what} derived from numbers of GPUs" for what in derived),
        *([f"{capped} jobs capped at {MAX_GPUS} GPUs or a server's"] if capped else []),
        *([f"{cut} run times lowered to {MAX_DURATION_S} s"] if cut else []),
    ]
    return JobTable(columns, table.name, tuple(notes), GANG_JOBS)
