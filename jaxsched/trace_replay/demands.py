"""What jobs need beside GPUs: CPUs and memory of the servers that they run on.

Job tables have columns ``cpus`` and ``memory_gb`` of the whole job. A job needs the same for every
one of its GPUs: its total over its GPUs, rounded up. A server's free GPUs count for a job as far as
its CPUs and memory go with them.

Axes: ``n`` jobs, ``D`` demands (``Cluster.demands``).
"""

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Column, Integers, JobTable
from jaxsched.trace_replay.cluster import UNLIMITED, Cluster
from jaxsched.trace_replay.policies import Locality

MOST = 2**24
DEMANDS = {
    column.name: column
    for column in (
        Column("cpus", 0, MOST, "CPUs", "CPUs of the whole job"),
        Column("memory_gb", 0, MOST, "GB", "main memory of the whole job"),
    )
}


def per_gpu(table: JobTable, cluster: Cluster) -> Integers:
    """What each job needs for a GPU, int64 ``[n, D]``."""
    totals = np.stack([table[name] for name in cluster.demands], axis=1)
    return -(-totals // table["num_gpus"][:, None])


def check_demands(table: JobTable, cluster: Cluster, locality: Locality) -> None:
    """Refuse jobs that no servers of one kind could ever hold.

    Raises:
      JaxschedError: GPUs of a job may be anywhere, a column is missing, or one line with the job
        and its needs.
    """
    if not cluster.demands:
        return
    if locality == "any":
        raise JaxschedError("rigid: limits of CPUs and memory with locality any; accepted: strict")
    _check_columns(table, cluster)
    stuck = np.flatnonzero(~np.any(_can_hold(table, cluster), axis=1))
    if stuck.size:
        job = int(stuck[0])
        needs = ", ".join(f"{int(table[name][job])} {name}" for name in cluster.demands)
        raise JaxschedError(
            f"table '{table.name}', job {job}: {int(table['num_gpus'][job])} GPUs with {needs} fit "
            f"on no servers of {cluster.servers}; accepted: jobs whose CPUs and memory go with "
            "their GPUs"
        )


def capped(table: JobTable, cluster: Cluster) -> tuple[JobTable, int]:
    """A table whose jobs fit, and how many asked for more than the last kind that holds them has.

    Raises:
      JaxschedError: a column is missing.
    """
    if not cluster.demands:
        return table, 0
    _check_columns(table, cluster)
    stuck = ~np.any(_can_hold(table, cluster), axis=1)
    if not stuck.any():
        return table, 0
    gpus, columns = table["num_gpus"], {}
    holds = [(gpus <= kind.largest_job) & (gpus <= kind.num_gpus) for kind in cluster.kinds]
    last = len(holds) - 1 - np.argmax(np.stack(holds[::-1]), axis=0)
    for name in cluster.demands:
        each = np.array([getattr(kind, name) or UNLIMITED for kind in cluster.kinds])[last]
        size = np.array([kind.gpus_per_server for kind in cluster.kinds])[last]
        most = each // np.minimum(gpus, size) * gpus
        columns[name] = np.where(stuck, np.minimum(table[name], most), table[name])
    return table.with_columns(**columns), int(stuck.sum())


def _check_columns(table: JobTable, cluster: Cluster) -> None:
    missing = [name for name in cluster.demands if name not in table.columns]
    if missing:
        raise JaxschedError(
            f"table '{table.name}' has no column '{missing[0]}', of which servers have a limit; "
            f"accepted: a table with {', '.join(cluster.demands)}, or servers without"
        )


def _can_hold(table: JobTable, cluster: Cluster) -> np.ndarray:
    """Whether the servers of each kind could hold a job alone, bool ``[n, kinds]``."""
    gpus, need = table["num_gpus"], per_gpu(table, cluster)
    found = []
    for kind in cluster.kinds:
        widest = np.minimum(gpus, kind.gpus_per_server)
        able = (gpus <= kind.largest_job) & (gpus <= kind.num_gpus)
        for place, name in enumerate(cluster.demands):
            able &= need[:, place] * widest <= (getattr(kind, name) or UNLIMITED)
        found.append(able)
    return np.stack(found, axis=1)
