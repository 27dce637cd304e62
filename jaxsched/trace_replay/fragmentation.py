"""FGD: jobs go where the fragmentation of the cluster grows least.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC'23, sections 3 and 4. A task of the typical workload makes fragments of a
server's free GPUs: of all, where the server as it is could not host the task (too few GPUs with
enough free of them, or too few CPUs or too little memory); else of those GPUs that have less free
than the task needs on each. ``F_n(M)``, the fragmentation of server ``n``, is the expectation of
that over the tasks ``m`` of the workload ``M``. A job goes to the server, and a share to the GPU on
it, on which it raises ``F_n(M)`` least; of equal ones to the first.

The typical workload are all jobs of the table, each class as often as it occurs. The paper's
simulator (github.com/hkust-adsl/kubernetes-scheduler-simulator, ``frag.go`` and ``fgd_score.go``)
takes the most frequent ones, 95 % of all or more, and compares the growth squeezed to whole numbers
from 0 to 100; here it is compared as it is, a whole number of slots times jobs.

Axes: ``K`` classes of jobs, ``S`` servers, ``M`` GPUs per server, ``k`` slots per GPU, ``D``
demands.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.packing import Packing
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.demands import Free, limits_of
from jaxsched.trace_replay.shares import is_first_least, offered
from jaxsched.types import Array

NEVER = 2**31 - 1
MOST_WEIGHT = 2**30
"""Of jobs of a table times slots of a server."""


class Tasks(NamedTuple):
    """The typical workload, int32.

    Attributes:
      slots: ``[K]``, slots that each class's jobs need.
      demand: ``[K, D + 1]``, of ``Jobs.demand``: what they need for a slot, and their share.
      amount: ``[K]``, how many there are.
    """

    slots: Array
    demand: Array
    amount: Array


def check_weights(table: JobTable, cluster: Cluster) -> None:
    """Refuse tables whose sums exceed int32.

    Raises:
      JaxschedError: one line with the numbers.
    """
    slots = cluster.gpus_per_server * cluster.slots
    if len(table) * slots > MOST_WEIGHT:
        raise JaxschedError(
            f"rigid: placement fgd with {len(table)} jobs and {slots} slots of a server; accepted: "
            f"at most {MOST_WEIGHT} of one times the other"
        )


def growth(cluster: Cluster, free: Free, tasks: Tasks, slots: Array, demand: Array) -> Array:
    """How much a job would raise the fragmentation of each server, int32 ``[M, S]``.

    Of whole GPUs the first that is wholly free stands for all that the job takes.

    Args:
      cluster: the servers in slots.
      free: what is free of them.
      tasks: the typical workload.
      slots: int32 scalar, slots of the job, which one server holds.
      demand: int32 ``[D + 1]``, what it needs for a slot, and its share.

    Returns:
      In slots times jobs of the workload; ``NEVER`` for GPUs that have less free than it needs.
    """
    assert free.slots is not None
    size, share = cluster.gpus_per_server // free.slots.shape[0], demand[-1]
    each = jnp.where(share > 0, share, size)
    gpus = slots // each  # that it takes
    before, after = free.slots, free.slots - each
    need = jnp.where(tasks.demand[:, -1] > 0, tasks.demand[:, -1], size)[:, None, None]
    wanted = tasks.slots[:, None] // need[:, 0]
    suits, still = before[None] >= need, after[None] >= need
    able = jnp.sum(suits, axis=1, dtype=jnp.int32)
    scraps = jnp.sum(jnp.where(suits, 0, before[None]), axis=1, dtype=jnp.int32)
    total = jnp.sum(before, axis=0)

    hosts = tasks.slots[:, None] <= jnp.array(most_of_servers(cluster), jnp.int32)
    hosts_then = hosts
    if free.spare is not None:
        limit = jnp.array(limits_of(cluster) > 0)
        needs = tasks.demand[:, :-1, None] * tasks.slots[:, None, None]
        left = free.spare - demand[:-1, None] * slots
        hosts &= jnp.all(~limit | (needs <= free.spare), axis=1)
        hosts_then &= jnp.all(~limit | (needs <= left), axis=1)
    now = jnp.where(hosts & (able >= wanted), scraps, total)
    able_then = able[:, None] + gpus * (still.astype(jnp.int32) - suits.astype(jnp.int32))
    moved = jnp.where(still, 0, after[None]) - jnp.where(suits, 0, before[None])
    then = jnp.where(
        hosts_then[:, None] & (able_then >= wanted[:, None]),
        scraps[:, None] + gpus * moved,
        total - slots,
    )
    found = jnp.sum(tasks.amount[:, None, None] * (then - now[:, None]), axis=0, dtype=jnp.int32)
    return jnp.where(before >= each, found, NEVER)


def most_of_servers(cluster: Cluster) -> list[int]:
    """Slots of the largest job that each server may hold alone, ``[S]``."""
    if not cluster.kinds:
        return list(cluster.server_gpus)
    most = [min(kind.gpus_per_server, kind.largest_job) for kind in cluster.kinds]
    return [most[kind] for kind in cluster.server_kinds]


def place_by_growth(
    cluster: Cluster, free: Free, tasks: Tasks, own: Array, slots: Array, demand: Array
) -> tuple[Packing, Array, Array]:
    """Where a job goes that one server holds, of any kind.

    Args:
      cluster: the servers in slots.
      free: what is free of them.
      tasks: the typical workload.
      own: int32 ``[S]``, free slots that it could use of each.
      slots: int32 scalar, slots of the job.
      demand: int32 ``[D + 1]``, what it needs for a slot, and its share.

    Returns:
      The placement, whether one server holds the job, and the free slots of the GPUs that it may
      use (``shares.offered``), int32 ``[M, S]``.
    """
    assert free.slots is not None
    rise = growth(cluster, free, tasks, slots, demand)
    size, share = cluster.gpus_per_server // free.slots.shape[0], demand[-1]
    mine = jnp.where(
        share > 0,
        jnp.where(is_first_least(rise) & (rise < NEVER), free.slots, 0),
        offered(free.slots, size, share),
    )
    suits = (own >= slots) & (slots <= jnp.array(most_of_servers(cluster), jnp.int32))
    best = jnp.argmin(jnp.where(suits, jnp.min(rise, axis=0), NEVER))
    server = jnp.arange(own.shape[0]) == best
    placing = Packing(jnp.zeros_like(server), server & jnp.any(suits), slots)
    return placing, jnp.any(suits), mine
