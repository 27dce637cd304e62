"""The rules of DL2's cluster: no policy, no learning. Here: which tasks fit, where they go.

Source: core, section 7. All integer and exact.

Axes: ``S`` servers, ``M`` job types, ``R`` resources.
"""

from functools import cache
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import Demands, DemandTable, demands
from jaxsched.elastic.resources import (
    NO_SERVER,
    Integers,
    Layout,
    integer_weights,
    layout,
)
from jaxsched.elastic.speed import Comm
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import materialise
from jaxsched.types import Array

WORKER, PS, BUNDLE = 0, 1, 2
KINDS = 3

TASK_BITS = 8  # of the numbers of workers and of PS of a job
MAX_TASKS = (1 << TASK_BITS) - 1

Placement = Literal["least_loaded", "least_used"]
BundleServers = Literal["any", "one"]
Rows = Literal["batches", "window"]
Misfit = Literal["mask", "end_slot"]


class Cluster(NamedTuple):
    """Identical servers and what each job type asks of them (static).

    Attributes:
      num_servers: S.
      layout: packing of a server's resources.
      needs_ps: jobs need parameter servers, unlike with all-reduce.
      least_used: a task goes to the server of the smallest load, or nowhere; else to that of the
        smallest load among those that can host it.
      together: the tasks of a bundle go to one server.
      alone: bundles go to one server, which holds any one of them and no second.
      demands: what each job type asks for.
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
    least_used: bool
    together: bool
    alone: bool
    demands: Demands
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
        needs = np.concatenate(self.demands) if self.needs_ps else self.demands.worker
        smallest = needs.min(axis=0)
        capacity = self.layout.capacity
        most = [c // s for c, s in zip(capacity, smallest.tolist(), strict=True) if s]
        return self.num_servers * min(most)


class Rules(NamedTuple):
    """The static rules of a cluster.

    Attributes:
      cluster: the servers.
      slot_seconds: length of a slot.
      window: J.
      max_workers: of a job.
      max_ps: of a job.
      max_slots: episodes are cut there.
      bundles: bundles may be placed in one increment.
      rows: the slot's jobs take turns in batches of J, or the first J that can get more are seen.
      misfit: what does not fit cannot be chosen, or ends the slot when it is.
    """

    cluster: Cluster
    slot_seconds: int
    window: int
    max_workers: int
    max_ps: int
    max_slots: int
    bundles: bool
    rows: Rows = "batches"
    misfit: Misfit = "mask"


@cache
def cluster_of(
    num_servers: int,
    capacity: tuple[int, int, int],
    comm: Comm,
    demand_table: DemandTable = "paper",
    placement: Placement = "least_loaded",
    bundle_servers: BundleServers = "any",
) -> Cluster:
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
    needs = demands(demand_table)
    workers, servers = packing.pack(needs.worker), packing.pack(needs.ps)
    worker_needs, worker_kind = np.unique(workers, return_inverse=True)
    ps_needs, ps_kind = np.unique(servers, return_inverse=True)
    worker_bits, ps_bits = np.zeros_like(worker_needs), np.zeros_like(ps_needs)
    bundle_bits = np.zeros((len(worker_needs), len(ps_needs)), np.int32)
    for model, (row, column) in enumerate(zip(worker_kind, ps_kind, strict=True)):
        worker_bits[row] |= 1 << KINDS * model + WORKER
        ps_bits[column] |= 1 << KINDS * model + PS
        bundle_bits[row, column] |= 1 << KINDS * model + BUNDLE
    loads = [num_servers * (need @ load_weights) for need in needs]
    return Cluster(
        num_servers=num_servers,
        layout=packing,
        needs_ps=comm == "ps",
        least_used=placement == "least_used",
        together=bundle_servers == "one",
        alone=bundle_servers == "one" and comm == "ps" and _alone(needs, capacity),
        demands=needs,
        totals=totals,
        share_weights=tuple(share_weights.tolist()),
        share_unit=share_unit,
        placement=np.stack([workers, loads[0], servers, loads[1]], axis=-1),
        worker_needs=worker_needs,
        ps_needs=ps_needs,
        worker_bits=worker_bits,
        ps_bits=ps_bits,
        bundle_bits=bundle_bits,
        worker_shares=needs.worker * share_weights,
        ps_shares=needs.ps * share_weights,
    )


def _alone(needs: Demands, capacity: tuple[int, ...]) -> bool:
    """Whether a server holds a bundle of any type, and never two."""
    bundles = needs.worker + needs.ps
    pairs = bundles[:, None] + bundles
    fits, two_fit = (np.all(tasks <= capacity, axis=-1) for tasks in (bundles, pairs))
    return bool(fits.all() and not two_fit.any())


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


def holds(cluster: Cluster, free: Array, need: Array | Integers) -> Array:
    """Whether packed needs fit into packed free resources with their guard bits set, bool."""
    guards = cluster.layout.guards
    return ((free - need) & guards) == guards


def _best(cluster: Cluster, free: Array, order: Array, need: Array | Integers) -> Array:
    """``order`` of the server that a task goes to, or ``NO_SERVER``; needs are ``[..., 1]``."""
    if cluster.least_used:
        key = jnp.min(order)
        fits = holds(cluster, free[key % cluster.num_servers], need)
        return jnp.where(fits, key, NO_SERVER).reshape(jnp.shape(need)[:-1])
    return jnp.min(jnp.where(holds(cluster, free, need), order, NO_SERVER), axis=-1)


def place_tasks(
    cluster: Cluster, servers: Servers, model: Array, kind: Array, wanted: Array
) -> tuple[Servers, Array, Array]:
    """Place a worker, a PS or a bundle: the worker, then the PS on the state after it.

    Each goes to the least loaded server that can host it, ties to the lower index (the options of
    ``Cluster`` change that).

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
    if cluster.together:
        need = jnp.where(worker, worker_need, 0) + jnp.where(server, ps_need, 0)
        load = jnp.where(worker, worker_load, 0) + jnp.where(server, ps_load, 0)
        key = _best(cluster, free, order, need)
        placed = wanted & (key != NO_SERVER)
        at = jnp.where(placed, key % num, num)
        where = jnp.stack([jnp.where(worker, at, num), jnp.where(server, at, num)])
        return put(servers, at, need, load), where, placed

    key = _best(cluster, free, order, worker_need)
    first = jnp.where(worker & (key != NO_SERVER), key % num, num)
    here = index == first
    free_then = free - jnp.where(here, worker_need, 0)
    key = _best(cluster, free_then, order + jnp.where(here, worker_load, 0), ps_need)
    second = jnp.where(server & (key != NO_SERVER), key % num, num)
    fit = wanted & ((first < num) | ~worker) & ((second < num) | ~server)
    first, second = (
        materialise(jnp.where(fit, first, num)),
        materialise(jnp.where(fit, second, num)),
    )
    placed = (first < num) | (second < num)  # as ``fit``, but from what is computed already

    here, there = index == first, index == second
    hosts = servers.hosts
    after = Servers(
        free=free - jnp.where(here, worker_need, 0) - jnp.where(there, ps_need, 0),
        order=order + jnp.where(here, worker_load, 0) + jnp.where(there, ps_load, 0),
        hosts=hosts,
    )
    if cluster.least_used:
        return after, jnp.stack([first, second]), placed
    at_first = free[jnp.minimum(first, num - 1)]
    at_second = free[jnp.minimum(second, num - 1)]
    at_second -= jnp.where(first == second, worker_need, 0)
    for at, where, need in ((at_first, first, worker_need), (at_second, second, ps_need)):
        lost = holds(cluster, at, cluster.ps_needs) & ~holds(cluster, at - need, cluster.ps_needs)
        hosts = hosts - (lost & (where < num)).astype(jnp.int32)
    return after._replace(hosts=hosts), jnp.stack([first, second]), placed


def put(servers: Servers, at: Array, need: Array, load: Array) -> Servers:
    """Servers with a packed need and its load added on one; nothing changes where there is none.

    ``hosts`` is left alone: it serves clusters whose tasks may go to any server that fits.
    """
    here = jnp.arange(servers.free.shape[-1], dtype=jnp.int32) == at
    free, order = jnp.where(here, need, 0), jnp.where(here, load, 0)
    return servers._replace(free=servers.free - free, order=servers.order + order)


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
    if cluster.least_used or cluster.together:
        return _feasible_by_trying(cluster, servers, bundles=bundles)
    keys = _best(cluster, servers.free, servers.order, needs[:, None])  # [worker needs]
    able = keys != NO_SERVER
    word = jnp.sum(jnp.where(able, cluster.worker_bits, 0), dtype=jnp.int32)
    if cluster.needs_ps:
        word |= jnp.sum(jnp.where(servers.hosts > 0, cluster.ps_bits, 0), dtype=jnp.int32)
        if bundles:
            there = servers.free[jnp.where(able, keys % cluster.num_servers, 0)][:, None]
            lost = holds(cluster, there, cluster.ps_needs)
            lost &= ~holds(cluster, there - needs[:, None], cluster.ps_needs)
            fits = able[:, None] & (servers.hosts > lost)  # [worker needs, PS needs]
            word |= jnp.sum(jnp.where(fits, cluster.bundle_bits, 0), dtype=jnp.int32)
    return word


def _feasible_by_trying(cluster: Cluster, servers: Servers, *, bundles: bool) -> Array:
    """``feasible`` with options of ``Cluster``, by looking where each task would go."""
    free, order, num = servers.free, servers.order, cluster.num_servers
    workers, tasks = cluster.worker_needs, cluster.ps_needs
    keys = _best(cluster, free, order, workers[:, None])  # [worker needs]
    able = keys != NO_SERVER
    word = jnp.sum(jnp.where(able, cluster.worker_bits, 0), dtype=jnp.int32)
    if not cluster.needs_ps:
        return word
    hosted = _best(cluster, free, order, tasks[:, None]) != NO_SERVER
    word |= jnp.sum(jnp.where(hosted, cluster.ps_bits, 0), dtype=jnp.int32)
    if bundles and cluster.together:
        both = (workers[:, None] + tasks)[..., None]
        fits = _best(cluster, free, order, both) != NO_SERVER  # [worker needs, PS needs]
        word |= jnp.sum(jnp.where(fits, cluster.bundle_bits, 0), dtype=jnp.int32)
    elif bundles:
        for model, need in enumerate(cluster.placement.tolist()):
            row = int(np.searchsorted(workers, need[0]))
            at = jnp.where(able[row], keys[row] % num, num)
            after = put(servers, at, jnp.int32(need[0]), jnp.int32(need[1]))
            key = _best(cluster, after.free, after.order, jnp.int32(need[2]))
            fits = able[row] & (key != NO_SERVER)
            word |= jnp.where(fits, 1 << KINDS * model + BUNDLE, 0)
    return word


def feasible_when_empty(cluster: Cluster, *, bundles: bool) -> int:
    """``feasible`` of the empty cluster, on the host."""
    room, word = np.array(cluster.layout.capacity), 0
    for model, (worker, ps) in enumerate(zip(*cluster.demands, strict=True)):
        hosts_worker, hosts_ps = bool(np.all(worker <= room)), bool(np.all(ps <= room))
        apart = cluster.num_servers > 1 and not cluster.together
        together = apart or bool(np.all(worker + ps <= room))
        kinds = hosts_worker << WORKER
        if cluster.needs_ps:
            kinds |= hosts_ps << PS
            if bundles:
                kinds |= (hosts_worker and hosts_ps and together) << BUNDLE
        word |= kinds << (KINDS * model)
    return word
