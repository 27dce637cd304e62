"""The rules of MLFS' cluster: no policy, no learning. Here: servers, their loads, static options.

Everything is whole numbers: GPUs in per mille (pm) of one, CPUs in thousandths of a virtual CPU,
memory in GB, bandwidth in MB per minute.

Axes: ``S`` servers, ``G`` GPUs of the largest server.
"""

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.types import Array

FULL = 1000  # pm
NO_GPU = 2**30  # load of the GPUs that a smaller server does not have
MOST_UTILISATION = 23000  # pm; beyond it counts as this much: four squares fit in int32


class Cluster(NamedTuple):
    """Servers and thresholds (specification, section 2).

    All is static, or arrays (``rules.with_options``) but for ``gpus``, from which shapes follow.

    Attributes:
      gpus: GPUs of each server.
      cpus: virtual CPUs of a server.
      mem: GB of a server.
      bandwidth: MB per minute of a server's link.
      flow_rate: MB per minute of one task's communication.
      overload: pm of any resource above which a server is overloaded (h_r).
      busy: pm; above it on average the cluster is (h_s).
      some_gpus: GPUs of each server, int32 ``[S]``, if these are no more than ``gpus``.
    """

    gpus: tuple[int, ...] = (4,) * 5
    cpus: int = 32
    mem: int = 244
    bandwidth: int = 75000
    flow_rate: int = 10000
    overload: int = 900
    busy: int = 900
    some_gpus: Array | None = None

    @property
    def num_servers(self) -> int:
        """S."""
        return len(self.gpus)

    @property
    def max_gpus(self) -> int:
        """G."""
        return max(self.gpus)

    @property
    def num_gpus(self) -> Any:
        """GPUs of each server, int32 ``[S]``."""
        return np.array(self.gpus, np.int32) if self.some_gpus is None else self.some_gpus


class Loads(NamedTuple):
    """What running tasks take.

    Attributes:
      gpu: pm, int32 ``[S, G]``.
      cpu: thousandths of a virtual CPU, int32 ``[S]``.
      mem: GB, int32 ``[S]``.
      bandwidth: MB per minute, int32 ``[S]``.
    """

    gpu: Array
    cpu: Array
    mem: Array
    bandwidth: Array


class Demand(NamedTuple):
    """What one task takes, int32 ``[...]`` each, in the units of ``Loads``."""

    gpu: Array
    cpu: Array
    mem: Array


def div(a: Any, b: Any) -> Array:
    """``a // b`` of numbers from 0 on, ``b`` above 0, int32.

    Processors divide whole vectors of real numbers only, so by anything but a constant we divide
    these, first the number, which leaves a rest of some hundred times ``b`` at most, then the rest.
    """
    if isinstance(b, np.ndarray) and (b == b.flat[0]).all():
        b = b.flat[0]
    constant = isinstance(b, int | np.integer)
    a, b = jnp.broadcast_arrays(jnp.asarray(a, jnp.int32), jnp.asarray(b, jnp.int32))
    if constant or a.ndim == 0:
        return jax.lax.div(a, b)
    divisor = b.astype(jnp.float32)
    about = (a.astype(jnp.float32) / divisor).astype(jnp.int32)
    rest = a - about * b
    more = jnp.floor(rest.astype(jnp.float32) / divisor).astype(jnp.int32)
    rest = rest - more * b
    return about + more + (rest >= b).astype(jnp.int32) - (rest < 0).astype(jnp.int32)


def per_mille(amount: Array, capacity: int) -> Array:
    """``1000 * amount // capacity``, whose product may not fit in int32."""
    whole = div(amount, capacity)
    return FULL * whole + div(FULL * (amount - whole * capacity), capacity)


def no_loads(cluster: Cluster) -> Loads:
    """An idle cluster."""
    servers = jnp.zeros(cluster.num_servers, jnp.int32)
    gpus = jnp.zeros((cluster.num_servers, cluster.max_gpus), jnp.int32)
    return Loads(gpus, servers, servers, servers)


def with_task(loads: Loads, server: Any, gpu: Any, demand: Demand, bandwidth: Any) -> Loads:
    """Loads with a task more, or with one less of negated demand.

    Args:
      loads: of all servers.
      server: int32; the loads stay as they are where it is out of range.
      gpu: int32, of the server.
      demand: of the task.
      bandwidth: of the task.
    """
    return Loads(
        loads.gpu.at[server, gpu].add(demand.gpu, mode="drop"),
        loads.cpu.at[server].add(demand.cpu, mode="drop"),
        loads.mem.at[server].add(demand.mem, mode="drop"),
        loads.bandwidth.at[server].add(bandwidth, mode="drop"),
    )


class Servers(NamedTuple):
    """Some servers and their loads.

    Attributes:
      num_gpus: int32 ``[S]``.
      loads: of these servers.
    """

    num_gpus: Any
    loads: Loads


def all_servers(cluster: Cluster, loads: Loads) -> Servers:
    """The whole cluster."""
    return Servers(cluster.num_gpus, loads)


def one_server(cluster: Cluster, loads: Loads, server: Array) -> Servers:
    """A single server, axes ``[1]``."""
    pick = partial(jax.lax.dynamic_index_in_dim, index=server, keepdims=True)
    return Servers(pick(jnp.asarray(cluster.num_gpus)), Loads(*map(pick, loads)))


def used_by_resource(cluster: Cluster, servers: Servers) -> tuple[Array, ...]:
    """U of section 2: GPU, CPU, memory and bandwidth, pm; int32 ``[S]`` each."""
    gpu, cpu, mem, bandwidth = servers.loads
    return (
        div(jnp.sum(gpu, axis=-1, dtype=jnp.int32), servers.num_gpus),
        div(cpu, cluster.cpus),
        per_mille(mem, cluster.mem),
        per_mille(bandwidth, cluster.bandwidth),
    )


def utilisation(cluster: Cluster, servers: Servers) -> Array:
    """The same as int32 ``[S, 4]``."""
    return jnp.stack(used_by_resource(cluster, servers), axis=-1)


def strained_by_resource(cluster: Cluster, servers: Servers) -> tuple[Array, ...]:
    """Whether U is above the threshold: GPU, CPU, memory and bandwidth, bool ``[S]`` each.

    A bound on a rounded quotient is one on the number itself: nothing is divided by servers.
    """
    gpu, cpu, mem, bandwidth = servers.loads
    limit = cluster.overload + 1

    def least(capacity: Any) -> Any:  # amount that is ``limit`` pm, in parts as in ``per_mille``
        return limit * (capacity // FULL) + (limit * (capacity % FULL) + FULL - 1) // FULL

    return (
        jnp.sum(gpu, axis=-1, dtype=jnp.int32) >= limit * servers.num_gpus,
        cpu >= limit * cluster.cpus,
        mem >= least(cluster.mem),
        bandwidth >= least(cluster.bandwidth),
    )


def overloaded(cluster: Cluster, servers: Servers) -> Array:
    """Servers with any utilisation or any single GPU above the threshold, bool ``[S]``."""
    most = jnp.max(servers.loads.gpu, axis=-1)
    return reduce(jnp.logical_or, strained_by_resource(cluster, servers), most > cluster.overload)


def least_gpu(servers: Servers) -> Array:
    """Load of each server's least loaded GPU, pm; int32 ``[S]``."""
    gpu = servers.loads.gpu
    there = np.arange(gpu.shape[-1], dtype=np.int32) < servers.num_gpus[..., None]
    return jnp.min(jnp.where(there, gpu, NO_GPU), axis=-1)


class Room(NamedTuple):
    """What a task must stay below to fit a server, int32 ``[S]`` each, in thousandths of its units.

    A limit on a rounded quotient is one on the number itself: nothing is divided for each task.

    Attributes:
      gpu: of its pm of a GPU.
      cpu: of its virtual CPUs.
      mem: of its GB.
    """

    gpu: Array
    cpu: Array
    mem: Array


def room_below_threshold(cluster: Cluster, servers: Servers) -> Room:
    """Room of servers that are to stay below the threshold with a task more (section 3)."""
    limit, (_, cpu, mem, _) = cluster.overload, servers.loads
    gpu = jnp.maximum(limit + 1 - least_gpu(servers), 0)
    gpu = jnp.where(overloaded(cluster, servers), 0, gpu)
    return Room(
        FULL * gpu, cluster.cpus * (limit + 1) - cpu, cluster.mem * (limit + 1) - FULL * mem
    )


def nominal_room(cluster: Cluster, servers: Servers) -> Room:
    """Room of servers for a task's nominal demand (section 9)."""
    _, cpu, mem, _ = servers.loads
    gpu = jnp.maximum(FULL + 1 - least_gpu(servers), 0)
    return Room(FULL * gpu, FULL * cluster.cpus + 1 - cpu, FULL * (cluster.mem - mem) + 1)


def is_busy(cluster: Cluster, used: Array) -> Array:
    """Whether the norms of all servers' utilisations sum to more than ``busy`` each (3.5)."""
    capped = jnp.minimum(used, MOST_UTILISATION)
    norm = floor_sqrt(jnp.sum(capped * capped, axis=-1, dtype=jnp.int32))
    return jnp.sum(norm, dtype=jnp.int32) > cluster.busy * cluster.num_servers


def floor_sqrt(value: Array) -> Array:
    """Largest n with n * n <= value, int32 of int32 from 0 on."""
    root = jnp.sqrt(value.astype(jnp.float32)).astype(jnp.int32)
    root = jnp.minimum(root, 46340)
    root = root - (root * root > value)
    following = jnp.minimum(root + 1, 46340)
    return jnp.where(following * following <= value, following, root)


Order = Literal["mlf", "fair", "slaq", "tiresias", "gandiva", "graphene", "hypersched", "fifo"]
MLF: Order = "mlf"
ORDERS: tuple[Order, ...] = get_args(Order)
"""Who is placed first: by MLF-H's priorities, or as a baseline orders (section 9)."""
WAVE_CLASSES = (800, 900, 1000, 1100, 1200)
"""Pm of the nominal demand that a task may be estimated to need; waiting tasks need 1000."""


class Rules(NamedTuple):
    """Static options (specification, sections 2, 3, 9).

    Attributes:
      cluster: servers and thresholds.
      window: A, jobs that can be active.
      max_offers: decisions of a slot.
      order: one of ``ORDERS``; all but ``mlf`` go by nominal demand.
      move_work: mmin that a task loses by moving to another server.
      move_mb: MB that it sends.
      migrant_share: per cent of the tasks of overloaded GPUs that may leave (p_s).
      use_urgency: urgency counts in priorities.
      use_deadline: deadlines count in priorities.
      use_bandwidth: communication counts in the choice of hosts and of migrants.
      use_migration: tasks leave overloaded servers.
      use_mlfc: jobs end early where the cluster is busy (MLF-C).
      tiresias_threshold: attained GPU-seconds after which a job yields.
      waiting_min: minutes of the unit of time of the waiting term in priorities.
      stop_achieved: MLF-C stops jobs by the accuracy that they have, not by a prediction.
      stop_hopeless: MLF-C also stops jobs that cannot reach their target any more.
    """

    cluster: Cluster = Cluster()
    window: int = 64
    max_offers: int = 32
    order: Order = MLF
    move_work: int = 250
    move_mb: int = 500
    migrant_share: int = 10
    use_urgency: bool = True
    use_deadline: bool = True
    use_bandwidth: bool = True
    use_migration: bool = True
    use_mlfc: bool = False
    tiresias_threshold: int = 30000
    waiting_min: int = 1440
    stop_achieved: bool = False
    stop_hopeless: bool = False

    @property
    def measures(self) -> bool:
        """Decisions go by measured demand, not by the nominal one."""
        return self.order == MLF

    @property
    def classes(self) -> tuple[int, ...]:
        """Estimates of demand that tasks on offer may have, pm."""
        return WAVE_CLASSES if self.measures and self.use_migration else (1000,)


OF_CLUSTER = ("cpus", "mem", "bandwidth", "flow_rate", "overload", "busy", "some_gpus")
OF_RULES = (
    *("max_offers", "move_work", "move_mb", "migrant_share", "use_urgency", "use_deadline"),
    *("use_bandwidth", "use_mlfc", "tiresias_threshold"),
    *("waiting_min", "stop_achieved", "stop_hopeless"),
)
"""Options from which no shape and no choice of a rule follows."""


def with_options(rules: Rules, options: Mapping[str, Any]) -> Rules:
    """Rules with ``options``, those of ``OF_CLUSTER`` and ``OF_RULES``, in place of their own."""
    cluster = rules.cluster._replace(**{name: options[name] for name in OF_CLUSTER})
    return rules._replace(cluster=cluster, **{name: options[name] for name in OF_RULES})


LATE = 2**31 - 1


def first_least(among: Any, value: Any, key: Any = None) -> Array:
    """Index of the least (value, key) among some, int32 scalar; 0 if there are none.

    Args:
      among: bool ``[N]``.
      value: int32 ``[N]``.
      key: int32 ``[N]``, different for each; the index if absent.
    """
    index = np.arange(among.shape[0], dtype=np.int32)
    tied = among & (value == jnp.min(jnp.where(among, value, LATE)))
    if key is None:
        return jnp.min(jnp.where(tied, index, LATE)) * jnp.any(tied)
    first = tied & (key == jnp.min(jnp.where(tied, key, LATE)))
    return jnp.sum(jnp.where(first, index, 0), dtype=jnp.int32)
