"""What jobs need beside GPUs: CPUs and memory of the servers that they run on.

Job tables have columns ``cpus`` and ``memory_gb`` of the whole job. A job needs the same for each
of its GPUs (slots, where these have some): its total over them, in thousandths, rounded down: what
fits exactly does fit, and jobs of one server that do not fit are off by less than a CPU together.
The free GPUs of a server count for a job as far as its CPUs and memory go with them.

Axes: ``n`` jobs, ``D`` demands (``Cluster.demands``), ``S`` servers.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Column, Integers, JobTable
from jaxsched.jobs.servers import MOST_OF_A_SERVER
from jaxsched.jobs.shares import GPU_MILLI
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.policies import Locality
from jaxsched.trace_replay.shares import offered
from jaxsched.types import Array

UNIT = 1000
MOST = 2**24
DEMANDS = {
    column.name: column
    for column in (
        Column("cpus", 0, MOST, "CPUs", "CPUs of the whole job"),
        Column("memory_gb", 0, MOST, "GB", "main memory of the whole job"),
    )
}


class Free(NamedTuple):
    """What is free of servers at some time, int32.

    Attributes:
      gpus: ``[S]``.
      spare: ``[D, S]``, thousandths of the demands; junk where a server has no limit. None where
        no server has.
      slots: ``[M, S]``, free slots of each GPU, which ``gpus`` then counts, too; None where GPUs
        are whole and alike.
    """

    gpus: Array
    spare: Array | None = None
    slots: Array | None = None

    def without(self, taken: Array, demand: Array | None) -> "Free":
        """Less so many GPUs of each server (``[S]``) and what they need each (``[D]``).

        Where GPUs have slots, these of each GPU (``[M, S]``), and ``demand`` has the share besides.
        """
        slots = None if self.slots is None else self.slots - taken
        taken = taken if slots is None else jnp.sum(taken, axis=0)
        gpus = self.gpus - taken
        if self.spare is None or demand is None:
            return Free(gpus, None, slots)
        return Free(gpus, self.spare - demand[: len(self.spare), None] * taken, slots)

    def on(self, servers: Array | None) -> "Free":
        """On these servers alone, bool ``[S]``; None: on all."""
        if servers is None:
            return self
        slots = None if self.slots is None else self.slots * servers
        return self._replace(gpus=self.gpus * servers, slots=slots)


def usable(cluster: Cluster, free: Free, demand: Array | None) -> Array:
    """Free GPUs (slots, where they have some) of each server that a job could use, int32 ``[S]``.

    Args:
      cluster: the servers.
      free: what is free of them.
      demand: int32 ``[D]``, what the job needs for a GPU; with slots ``[D + 1]``, the share behind.
    """
    gpus, step = free.gpus, None
    if free.slots is not None and demand is not None:
        size = cluster.gpus_per_server // len(free.slots)
        gpus = jnp.sum(offered(free.slots, size, demand[-1]), axis=0)
        step = jnp.where(demand[-1] > 0, 1, size)
    if free.spare is None or demand is None:
        return gpus
    each = demand[: len(free.spare), None]
    counts = (limits_of(cluster) > 0) & (each > 0)
    most = jnp.where(counts, free.spare // jnp.maximum(each, 1), gpus)
    found = jnp.minimum(gpus, jnp.min(most, axis=0))
    return found if step is None else found - found % step


def limits_of(cluster: Cluster) -> Integers:
    """What each server has, thousandths, int64 ``[D, S]``; 0: no limit."""
    return _of_kinds(cluster)[:, list(cluster.server_kinds)]


def _of_kinds(cluster: Cluster) -> Integers:
    """``limits_of`` the servers of each kind, int64 ``[D, kinds]``."""
    rows = [[getattr(kind, name) for kind in cluster.kinds] for name in cluster.demands]
    return UNIT * np.array(rows, np.int64).reshape(len(rows), len(cluster.kinds))


def per_gpu(table: JobTable, cluster: Cluster) -> Integers:
    """What each job needs for a GPU, thousandths, int64 ``[n, D]``; cut above what servers have."""
    found = np.zeros((len(table), len(cluster.demands)), np.int64)
    for place, name in enumerate(cluster.demands):
        found[:, place] = UNIT * table[name] // table["num_gpus"]
    return np.minimum(found, UNIT * MOST_OF_A_SERVER + 1)


def holds(table: JobTable, cluster: Cluster) -> npt.NDArray[np.bool_]:
    """Whether the servers of each kind could hold a job if nobody else ran, ``[n, kinds]``."""
    gpus, need = table["num_gpus"][:, None], per_gpu(table, cluster)
    found = gpus <= np.array([kind.most_for_a_job for kind in cluster.kinds])
    for each, limit in zip(need.T, _of_kinds(cluster), strict=True):
        found &= (limit == 0) | (each[:, None] * _widest(table, cluster) <= limit)
    return found


def check_demands(table: JobTable, cluster: Cluster, locality: Locality) -> None:
    """Refuse jobs that no servers of one kind could ever hold.

    Raises:
      JaxschedError: GPUs of a job may be anywhere, a column is missing, or one line with the job
        and its needs.
    """
    if not cluster.demands:
        return
    places = cluster.gpus_per_server * cluster.slots
    if places >= UNIT:  # what is rounded off would come to a whole CPU
        raise JaxschedError(
            f"rigid: limits of CPUs and memory on servers of {places} GPUs or slots; accepted: at "
            f"most {UNIT - 1}"
        )
    if locality == "any":
        raise JaxschedError("rigid: limits of CPUs and memory with locality any; accepted: strict")
    _check_columns(table, cluster)
    stuck = np.flatnonzero(~holds(table, cluster).any(axis=1))
    if stuck.size:
        job = int(stuck[0])
        needs = ", ".join(f"{int(table[name][job])} {name}" for name in cluster.demands)
        raise JaxschedError(
            f"table '{table.name}', job {job}: {int(table['num_gpus'][job])} GPUs with {needs} fit "
            f"on no servers of {cluster.servers}; accepted: jobs whose CPUs and memory go with "
            "their GPUs"
        )


def capped(table: JobTable, cluster: Cluster) -> tuple[JobTable, int]:
    """A table that the cluster holds, without columns of no use; how many jobs were cut.

    Jobs that no servers hold ask for as much as they can have of the kind that has most.

    Raises:
      JaxschedError: a column is missing.
    """
    unlimited = DEMANDS.keys() - cluster.demands
    if cluster.slots == 1:
        unlimited |= {GPU_MILLI.name}
    columns = {name: each for name, each in table.columns.items() if name not in unlimited}
    table = replace(table, columns=columns)
    if not cluster.demands:
        return table, 0
    _check_columns(table, cluster)
    stuck, gpus = ~holds(table, cluster).any(axis=1), table["num_gpus"][:, None]
    able = gpus <= np.array([kind.most_for_a_job for kind in cluster.kinds])
    limits = _of_kinds(cluster)[:, None] // UNIT
    most = np.where(limits > 0, limits * gpus // _widest(table, cluster), MOST)
    kind = np.argmax(np.where(able, most[0] * (MOST + 1) + most[-1], -1), axis=1)
    cut = {
        name: np.where(
            stuck, np.minimum(table[name], own[np.arange(len(table)), kind]), table[name]
        )
        for name, own in zip(cluster.demands, most, strict=True)
    }
    return table.with_columns(**cut), int(stuck.sum())


def _widest(table: JobTable, cluster: Cluster) -> Integers:
    """The most GPUs that a job has on one server of each kind, int64 ``[n, kinds]``."""
    sizes = np.array([kind.gpus_per_server for kind in cluster.kinds])
    return np.minimum(table["num_gpus"][:, None], sizes)


def _check_columns(table: JobTable, cluster: Cluster) -> None:
    missing = [name for name in cluster.demands if name not in table.columns]
    if missing:
        raise JaxschedError(
            f"table '{table.name}' has no column '{missing[0]}', of which servers have a limit; "
            f"accepted: a table with {', '.join(cluster.demands)}, or servers without"
        )
