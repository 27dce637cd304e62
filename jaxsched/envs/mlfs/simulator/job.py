"""A job as the table knows it, what a cluster must have room for, and bounds that follow from jobs.

Axes: ``n`` jobs of a table, ``P`` = 16 partitions.
"""

from typing import NamedTuple

import numpy as np

from jaxsched.envs.mlfs import jobs as graph
from jaxsched.envs.mlfs.jobs import MAX_TASKS
from jaxsched.envs.mlfs.simulator.cluster import FULL, Cluster
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.types import Array

LEAST_WAVE, MOST_WAVE = 800, 1200  # pm, of the measured demand


class Job(NamedTuple):
    """What the table knows of jobs, int32 ``[...]``; lists are ``[..., P]``.

    Attributes:
      submit_slot: first slot in which the job can be admitted.
      submit_min: minutes, rounded down.
      deadline_min: minutes, rounded down.
      num_gpus: number of tasks.
      model: id.
      iterations: I_max.
      req_iter: iterations to the accuracy target.
      stop_optimal: iterations to 99 % of the final accuracy, as MLF-C predicts them.
      stop_target: iterations to the accuracy target, likewise.
      gpu_demand: pm of one GPU for each task.
      cpus: of each task.
      mem: GB of each task.
      worker_mb: MB between two tasks in an iteration.
      server_mb: MB between a root or sink and the parameter server in an iteration.
      urgency: 1..10.
      curve_a: 1000 a of the accuracy curve.
      option: of MLF-C.
      allow: of MLF-C.
      partitions: P of the job.
      width: w, partitions of a layer.
      critical: cp, mmin.
      total_work: of all tasks, mmin.
      work: mmin of a task of each partition.
      size: pm of the model's parameters.
      tail: mmin, of the layers below the partition's.
    """

    submit_slot: Array
    submit_min: Array
    deadline_min: Array
    num_gpus: Array
    model: Array
    iterations: Array
    req_iter: Array
    stop_optimal: Array
    stop_target: Array
    gpu_demand: Array
    cpus: Array
    mem: Array
    worker_mb: Array
    server_mb: Array
    urgency: Array
    curve_a: Array
    option: Array
    allow: Array
    partitions: Array
    width: Array
    critical: Array
    total_work: Array
    work: Array
    size: Array
    tail: Array


def check_fit(table: JobTable, jobs: Job, cluster: Cluster) -> None:
    """Every task fits an idle server at its largest demand.

    Raises:
      JaxschedError: one does not.
    """
    limit = cluster.overload
    needs = {
        "gpu_demand": (jobs.gpu_demand, MOST_WAVE * jobs.gpu_demand // FULL, "pm of a GPU"),
        "cpus": (jobs.cpus, MOST_WAVE * jobs.cpus // cluster.cpus, f"of {cluster.cpus} CPUs"),
        "mem": (jobs.mem, FULL * jobs.mem // cluster.mem, f"of {cluster.mem} GB"),
    }
    for name, (amount, share, unit) in needs.items():
        bad = np.flatnonzero((share > limit) | ((name == "gpu_demand") & (amount <= 0)))
        if bad.size:
            raise JaxschedError(
                f"table '{table.name}', job {bad[0]}: {name} is {amount[bad[0]]} ({unit}); "
                f"accepted: above 0, and never more than {limit} pm of an idle server"
                if name == "gpu_demand"
                else f"table '{table.name}', job {bad[0]}: {name} is {amount[bad[0]]} {unit}; "
                f"accepted: never more than {limit} pm of an idle server"
            )


def check_volumes(table: JobTable, jobs: Job, slot_offers: int) -> None:
    """What a task sends in thousandths, and what a slot sends, fit in int32 (section 2).

    Raises:
      JaxschedError: it does not.
    """
    sent = graph.MAX_WIDTH * jobs.worker_mb + 2 * jobs.server_mb
    limits = {
        "1000 x MB sent for a task": FULL * sent,
        f"MB sent by {slot_offers} tasks in a slot": slot_offers * sent,
    }
    for name, value in limits.items():
        bad = np.flatnonzero(value >= graph.INT32_LIMIT // 2)
        if bad.size:
            raise JaxschedError(
                f"table '{table.name}', job {bad[0]}: {name} is {value[bad[0]]}; accepted: below "
                "2**30"
            )


def traffic(jobs: Job) -> float:
    """B_max: what all iterations of all jobs would send if nothing were local, MB."""
    layers = jobs.partitions // jobs.width
    replicas = jobs.num_gpus // jobs.partitions
    inner = (layers - 1) * jobs.width * jobs.width * jobs.worker_mb
    ends = 2 * jobs.width * jobs.server_mb
    return float(max(1, int(np.sum(jobs.iterations * replicas * (inner + ends)))))


def most_running(jobs: Job, cluster: Cluster) -> int:
    """Tasks that fit the cluster at once, however small those of the table are."""
    total = 0
    gpu, cpus, mem = (int(column.min()) for column in (jobs.gpu_demand, jobs.cpus, jobs.mem))
    measured = gpu * LEAST_WAVE // FULL
    for gpus in cluster.gpus:
        most = MAX_TASKS * len(jobs.mem)
        if measured:
            each = max(cluster.overload // measured, FULL // gpu)
            most = min(most, gpus * each)
        if cpus:
            fit = (cluster.cpus * (cluster.overload + 1) - 1) // (cpus * LEAST_WAVE)
            most = min(most, max(fit, cluster.cpus // cpus))
        if mem:
            fit = (cluster.mem * (cluster.overload + 1) - 1) // FULL
            most = min(most, max(fit, cluster.mem) // mem)
        total += most
    return total
