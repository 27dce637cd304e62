"""From rigid jobs, as traces with only a number of GPUs have them, to gang jobs.

Source: DAS; specification, section 11 ("real traces").
"""

import numpy as np

from jaxsched.gang import GANG_JOBS
from jaxsched.jobs import JobTable

MAX_GPUS = 64  # of the smallest cluster: the same table serves all
GPUS_PER_SERVER = 8
CPUS_PER_GPU, GB_PER_GPU = 6, 29
MAX_DURATION_S = 3 * 86400


def gang_jobs(table: JobTable) -> JobTable:
    """Gang jobs of a table of rigid ones.

    Even rows become instances of one GPU, odd rows instances of up to eight; 6 CPUs and 29 GB for
    each GPU. Jobs of more than 64 GPUs are capped, run times cut at three days.
    """
    gpus = np.minimum(table["num_gpus"], MAX_GPUS)
    odd = np.arange(len(table)) % 2 == 1
    instances = np.where(odd, -(-gpus // GPUS_PER_SERVER), gpus)
    each = np.where(odd, np.minimum(gpus, GPUS_PER_SERVER), 1)
    duration = np.minimum(table["duration"], MAX_DURATION_S)
    columns = {
        "submit_time": table["submit_time"],
        "num_instances": instances,
        "gpus_per_instance": each,
        "cpus_per_instance": CPUS_PER_GPU * each,
        "mem_per_instance": GB_PER_GPU * each,
        "duration": duration,
    }
    notes = [*table.notes, "instances, CPUs and memory derived from numbers of GPUs"]
    capped = int(np.sum(table["num_gpus"] > MAX_GPUS))
    cut = int(np.sum(table["duration"] > MAX_DURATION_S))
    if capped:
        notes.append(f"{capped} jobs capped at {MAX_GPUS} GPUs")
    if cut:
        notes.append(f"{cut} run times lowered to {MAX_DURATION_S} s")
    return JobTable(columns, table.name, tuple(notes), GANG_JOBS)
