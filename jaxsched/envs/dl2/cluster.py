"""The cluster of DL2: which tasks fit, and where they go (core, section 7).

Axes: ``S`` servers, ``M`` job types, ``R`` resources. All integer and exact.
"""

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import PS_NEEDS, WORKER_NEEDS
from jaxsched.elastic.resources import (
    NO_SERVER,
    Integers,
    Layout,
    integer_weights,
    layout,
)
from jaxsched.elastic.speed import Comm
from jaxsched.errors import JaxschedError
from jaxsched.types import Array

WORKER, PS, BUNDLE = 0, 1, 2
KINDS = 3


class Cluster(NamedTuple):
    """Identical servers and what each job type asks of them (static).

    Attributes:
      num_servers: S.
      layout: packing of a server's resources.
      needs_ps: jobs need parameter servers, unlike with all-reduce.
      totals: resources of the cluster ``(R,)``.
      share_weights: ``(R,)``, a share of a resource is the amount times this, over ``U``.
      share_unit: ``U``, shares are integers in units of ``1 / U``.
      placement: int32 ``[M, 4]``, packed need of a worker and what it adds to its server's
        ``order``, then the same of a PS.
      worker_needs: int32 ``[Q]``, the different packed needs of workers.
      ps_needs: int32 ``[P]``, those of PS.
      worker_bits: int32 ``[Q]``, bits of ``feasible`` that stand for workers of this need.
      ps_bits: int32 ``[P]``.
      bundle_bits: int32 ``[Q, P]``.
      worker_shares: int32 ``[M, R]``, share of each resource that a worker takes.
      ps_shares: int32 ``[M, R]``.
    """

    num_servers: int
    layout: Layout
    needs_ps: bool
    totals: tuple[int, ...]
    share_weights: tuple[int, ...]
    share_unit: int
    placement: Integers
    worker_needs: Integers
    ps_needs: Integers
    worker_bits: Integers
    ps_bits: Integers
    bundle_bits: Integers
    worker_shares: Integers
    ps_shares: Integers

    @property
    def max_tasks(self) -> int:
        """No more tasks than this fit, whichever they are."""
        needs = np.concatenate([WORKER_NEEDS, PS_NEEDS]) if self.needs_ps else WORKER_NEEDS
        smallest = needs.min(axis=0)
        capacity = self.layout.capacity
        most = [c // s for c, s in zip(capacity, smallest.tolist(), strict=True) if s]
        return self.num_servers * min(most)


@cache
def cluster_of(num_servers: int, capacity: tuple[int, int, int], comm: Comm) -> Cluster:
    """The cluster of ``num_servers`` servers of this capacity.

    Raises:
      JaxschedError: the capacity is unusable, or loads or shares do not fit in int32.
    """
    packing = layout(capacity)
    load_unit, load_weights = integer_weights(capacity)
    if 3 * load_unit * num_servers >= NO_SERVER:
        raise JaxschedError(
            f"dl2: {num_servers} servers of {capacity} have loads up to {3 * load_unit}; accepted: "
            f"servers times load below {NO_SERVER}"
        )
    totals = tuple(num_servers * c for c in capacity)
    share_unit, share_weights = integer_weights(totals)
    workers, servers = packing.pack(WORKER_NEEDS), packing.pack(PS_NEEDS)
    worker_needs, worker_kind = np.unique(workers, return_inverse=True)
    ps_needs, ps_kind = np.unique(servers, return_inverse=True)
    worker_bits, ps_bits = np.zeros_like(worker_needs), np.zeros_like(ps_needs)
    bundle_bits = np.zeros((len(worker_needs), len(ps_needs)), np.int32)
    for model, (row, column) in enumerate(zip(worker_kind, ps_kind, strict=True)):
        worker_bits[row] |= 1 << KINDS * model + WORKER
        ps_bits[column] |= 1 << KINDS * model + PS
        bundle_bits[row, column] |= 1 << KINDS * model + BUNDLE
    loads = [num_servers * (needs @ load_weights) for needs in (WORKER_NEEDS, PS_NEEDS)]
    return Cluster(
        num_servers=num_servers,
        layout=packing,
        needs_ps=comm == "ps",
        totals=totals,
        share_weights=tuple(share_weights.tolist()),
        share_unit=share_unit,
        placement=np.stack([workers, loads[0], servers, loads[1]], axis=-1),
        worker_needs=worker_needs,
        ps_needs=ps_needs,
        worker_bits=worker_bits,
        ps_bits=ps_bits,
        bundle_bits=bundle_bits,
        worker_shares=WORKER_NEEDS * share_weights,
        ps_shares=PS_NEEDS * share_weights,
    )


class Servers(NamedTuple):
    """What is left on the servers; ``P`` different needs of parameter servers.

    Attributes:
      free: int32 ``[S]``, packed free resources, all guard bits set.
      order: int32 ``[S]``, ``load * S + server``: tasks go where this is least.
      hosts: int32 ``[P]``, on how many servers a PS of this need fits.
    """

    free: Array
    order: Array
    hosts: Array


def empty_servers(cluster: Cluster) -> Servers:
    """Nothing runs anywhere."""
    num = cluster.num_servers
    room = cluster.layout.full | cluster.layout.guards
    fits = ((room - cluster.ps_needs) & cluster.layout.guards) == cluster.layout.guards
    return Servers(
        free=jnp.full((num,), room, jnp.int32),
        order=jnp.arange(num, dtype=jnp.int32),
        hosts=jnp.asarray(np.where(fits, num, 0), jnp.int32),
    )


def _fits(cluster: Cluster, free: Array, need: Array | Integers) -> Array:
    guards = cluster.layout.guards
    return ((free - need) & guards) == guards


def _best(cluster: Cluster, free: Array, order: Array, need: Array | Integers) -> Array:
    """``order`` of the server that a task goes to, or ``NO_SERVER``."""
    return jnp.min(jnp.where(_fits(cluster, free, need), order, NO_SERVER), axis=-1)


def place_tasks(
    cluster: Cluster, servers: Servers, model: Array, kind: Array, wanted: Array
) -> tuple[Servers, Array, Array]:
    """Place a worker, a PS or a bundle: the worker, then the PS on the state after it.

    Each goes to the least loaded server that can host it, ties to the lower index.

    Args:
      cluster: the cluster.
      servers: what is left.
      model: int32 scalar, the job's type.
      kind: int32 scalar, ``WORKER``, ``PS`` or ``BUNDLE``.
      wanted: bool scalar; false places nothing.

    Returns:
      What is left then (all of it if not everything fits), where the tasks went (int32 ``[2]``,
      worker and PS, ``S`` for none), and whether they were placed.
    """
    num, free, order = cluster.num_servers, servers.free, servers.order
    index = jnp.arange(num, dtype=jnp.int32)
    needs = jnp.asarray(cluster.placement).at[model].get(mode="clip")
    worker_need, worker_load, ps_need, ps_load = (needs[i] for i in range(4))
    worker, server = wanted & (kind != PS), wanted & (kind != WORKER)

    key = _best(cluster, free, order, worker_need)
    first = jnp.where(worker & (key != NO_SERVER), key % num, num)
    here = index == first
    free_then = free - jnp.where(here, worker_need, 0)
    key = _best(cluster, free_then, order + jnp.where(here, worker_load, 0), ps_need)
    second = jnp.where(server & (key != NO_SERVER), key % num, num)
    placed = wanted & ((first < num) | ~worker) & ((second < num) | ~server)
    first, second = jnp.where(placed, first, num), jnp.where(placed, second, num)

    here, there = index == first, index == second
    hosts = servers.hosts
    at_first = free[jnp.minimum(first, num - 1)]
    at_second = free[jnp.minimum(second, num - 1)]
    at_second -= jnp.where(first == second, worker_need, 0)
    for at, where, need in ((at_first, first, worker_need), (at_second, second, ps_need)):
        lost = _fits(cluster, at, cluster.ps_needs) & ~_fits(cluster, at - need, cluster.ps_needs)
        hosts = hosts - (lost & (where < num)).astype(jnp.int32)
    after = Servers(
        free=free - jnp.where(here, worker_need, 0) - jnp.where(there, ps_need, 0),
        order=order + jnp.where(here, worker_load, 0) + jnp.where(there, ps_load, 0),
        hosts=hosts,
    )
    return after, jnp.stack([first, second]), placed


def feasible(cluster: Cluster, servers: Servers, *, bundles: bool) -> Array:
    """Which tasks of which job types fit, as one word: bit ``3 * model + kind``; int32 scalar.

    A bundle fits if its worker does and its PS then fits on another server, or still on the
    worker's.

    Args:
      cluster: the cluster.
      servers: what is left.
      bundles: whether bundles may be placed at all.
    """
    needs = cluster.worker_needs
    keys = _best(cluster, servers.free, servers.order, needs[:, None])  # [worker needs]
    able = keys != NO_SERVER
    word = jnp.sum(jnp.where(able, cluster.worker_bits, 0), dtype=jnp.int32)
    if cluster.needs_ps:
        word |= jnp.sum(jnp.where(servers.hosts > 0, cluster.ps_bits, 0), dtype=jnp.int32)
        if bundles:
            there = servers.free[jnp.where(able, keys % cluster.num_servers, 0)][:, None]
            lost = _fits(cluster, there, cluster.ps_needs)
            lost &= ~_fits(cluster, there - needs[:, None], cluster.ps_needs)
            fits = able[:, None] & (servers.hosts > lost)  # [worker needs, PS needs]
            word |= jnp.sum(jnp.where(fits, cluster.bundle_bits, 0), dtype=jnp.int32)
    return word


def feasible_when_empty(cluster: Cluster, *, bundles: bool) -> int:
    """``feasible`` of the empty cluster, on the host."""
    room, word = np.array(cluster.layout.capacity), 0
    for model, (worker, ps) in enumerate(zip(WORKER_NEEDS, PS_NEEDS, strict=True)):
        hosts_worker, hosts_ps = bool(np.all(worker <= room)), bool(np.all(ps <= room))
        together = cluster.num_servers > 1 or bool(np.all(worker + ps <= room))
        kinds = hosts_worker << WORKER
        if cluster.needs_ps:
            kinds |= hosts_ps << PS
            if bundles:
                kinds |= (hosts_worker and hosts_ps and together) << BUNDLE
        word |= kinds << (KINDS * model)
    return word
