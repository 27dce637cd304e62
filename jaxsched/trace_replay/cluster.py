"""What fits where on a cluster, whose servers may be of different sizes.

Axes: ``S`` servers, ``M`` GPUs per server (of the largest, where they differ), ``K`` kinds of
servers. Arrays ``[M, S]`` have places for GPUs that smaller servers have not: these are never busy
and never free.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.servers import LIMITS, MOST_OF_A_SERVER, Kind, Servers, read_servers
from jaxsched.ops.packing import Packing, pack_gang
from jaxsched.options import Count, check
from jaxsched.trace_replay.policies import Locality, Placing
from jaxsched.types import Array

MAX_GPUS = 2**15
MOST_PLACES = 2**20
"""Of servers times GPUs of the largest."""
MOST_PAIRED = 64
"""GPUs of a server that are compared pair by pair."""

FREE_WEIGHT: dict[Placing, int] = {"pack": 1, "first_fit": 0, "load_balance": -1, "fgd": 1}
"""How a server's free GPUs count when servers are compared; the lowest sum is chosen. With FGD, for
jobs that no server holds alone."""


@dataclass(frozen=True)
class Cluster:
    """Servers.

    Attributes:
      num_servers: S.
      gpus_per_server: M.
      kinds: servers by their size and type, in the order in which they are numbered and filled;
        none where all are alike and without further limits (``of`` reads them from a text).
      slots: k, parts into which every GPU can be shared; 1: jobs have whole GPUs (``shares``).

    Raises:
      JaxschedError: not whole numbers from 1 on, more than 2**15 GPUs or slots, kinds that do not
        add up, or a limit of CPUs or memory that is none.
    """

    num_servers: Count
    gpus_per_server: Count
    kinds: tuple[Kind, ...] = ()
    slots: Count = 1

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be used."""
        check(self, "rigid: ")
        if self.kinds:
            count = sum(kind.num_servers for kind in self.kinds)
            largest = max(kind.gpus_per_server for kind in self.kinds)
            if (count, largest) != (self.num_servers, self.gpus_per_server):
                raise JaxschedError(
                    f"rigid: {self.num_servers} servers of at most {self.gpus_per_server} GPUs "
                    f"with kinds of {count} servers of at most {largest}; accepted: the same"
                )
            for kind, name in product(self.kinds, LIMITS):
                limit = getattr(kind, name)
                if type(limit) is not int or not 0 <= limit <= MOST_OF_A_SERVER:
                    raise JaxschedError(
                        f"rigid: {name} of a server is {describe_value(limit)}; accepted: a whole "
                        f"number from 0 (no limit) to {MOST_OF_A_SERVER}"
                    )
        if self.num_gpus > MAX_GPUS:
            raise JaxschedError(
                f"rigid: the cluster has {self.num_gpus} GPUs; accepted: at most {MAX_GPUS}"
            )
        if self.num_gpus * self.slots > MAX_GPUS:
            raise JaxschedError(
                f"rigid: the cluster has {self.num_gpus} GPUs of {self.slots} slots; accepted: at "
                f"most {MAX_GPUS} slots"
            )
        if self.num_servers * self.gpus_per_server > MOST_PLACES:
            raise JaxschedError(
                f"rigid: {self.num_servers} servers times {self.gpus_per_server} GPUs of the "
                f"largest is {self.num_servers * self.gpus_per_server}; accepted: at most "
                f"{MOST_PLACES}"
            )

    @classmethod
    def of(cls, servers: str | Servers) -> "Cluster":
        """The cluster that a text such as ``40x8``, ``16x2:4,20x8`` or ``40x8x7`` stands for.

        Raises:
          JaxschedError: it stands for none, or as the class says.
        """
        if isinstance(servers, str):
            servers = read_servers(servers, mixed=True, shared=True)
        return cls(*servers)

    @cached_property
    def in_slots(self) -> "Cluster":
        """The same with slots in place of GPUs, as replays with shares count; itself without."""
        if self.slots == 1:
            return self
        kinds = self.kinds or (Kind(self.num_servers, self.gpus_per_server, self.num_gpus),)
        scaled = tuple(
            kind._replace(
                gpus_per_server=kind.gpus_per_server * self.slots,
                largest_job=kind.largest_job * self.slots,
            )
            for kind in kinds
        )
        return Cluster(self.num_servers, self.gpus_per_server * self.slots, scaled)

    @property
    def servers(self) -> Servers:
        """The sizes as people type them."""
        return Servers(self.num_servers, self.gpus_per_server, self.kinds, self.slots)

    @property
    def is_plain(self) -> bool:
        """Whether servers are alike, without further limits, and GPUs are whole."""
        return not self.kinds and self.slots == 1

    @property
    def size(self) -> str:
        """The servers in words: ``40 x 8``, or as people type them where there is more to say."""
        alike = f"{self.num_servers} x {self.gpus_per_server}"
        return alike if self.is_plain else str(self.servers)

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.servers.num_gpus

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The type of each kind's GPUs, ``[K]``; none where GPUs have no types."""
        return tuple(kind.gpu_type for kind in self.kinds) if self.servers.has_types else ()

    @property
    def demands(self) -> tuple[str, ...]:
        """What servers have limits of beside GPUs: columns of job tables."""
        return self.servers.demands

    @cached_property
    def server_gpus(self) -> tuple[int, ...]:
        """GPUs of each server, ``[S]``."""
        if not self.kinds:
            return (self.gpus_per_server,) * self.num_servers
        return tuple(k.gpus_per_server for k in self.kinds for _ in range(k.num_servers))

    @cached_property
    def server_kinds(self) -> tuple[int, ...]:
        """The number of each server's kind, ``[S]``; where there are kinds."""
        return tuple(number for number, k in enumerate(self.kinds) for _ in range(k.num_servers))

    def largest_job(self, locality: Locality) -> int:
        """GPUs of the largest job that can ever run."""
        if not self.kinds or locality == "any":
            return self.num_gpus
        return max(kind.most_for_a_job for kind in self.kinds)


def available(cluster: Cluster, gpus: Array) -> Array:
    """Which of these GPUs there are, bool ``[M, S]``; all where servers are alike."""
    if not cluster.kinds:
        return gpus
    number = np.arange(cluster.gpus_per_server)[:, None]
    return gpus & (number < np.array(cluster.server_gpus)[None, :])


def counts_alone(cluster: Cluster, locality: Locality) -> bool:
    """Whether the number of free GPUs alone says who fits."""
    if cluster.demands:
        return False
    if cluster.kinds:
        return locality == "any"
    return locality == "any" or 1 in (cluster.num_servers, cluster.gpus_per_server)


def largest_fit(cluster: Cluster, locality: Locality, free: Array) -> Array:
    """The most GPUs that one job could get now; every smaller job fits as well.

    Args:
      cluster: the cluster.
      locality: what fits.
      free: int32 ``[..., S]``, free GPUs of each server.

    Returns:
      int32 ``[...]``.
    """
    if locality == "any":
        return jnp.sum(free, axis=-1)
    if cluster.kinds:
        return jnp.max(_rooms(cluster, free), axis=-1)
    return _room(cluster.gpus_per_server, free)


def _room(full: int, free: Array) -> Array:
    """The most GPUs that one job could get of servers of one size, int32 ``[...]``."""
    whole = jnp.sum(free == full, axis=-1, dtype=jnp.int32)
    return whole * full + jnp.max(jnp.where(free == full, 0, free), axis=-1)


def _rooms(cluster: Cluster, free: Array) -> Array:
    """The most GPUs that one job could get of each kind, int32 ``[..., K]``."""
    found, first = [], 0
    for kind in cluster.kinds:
        own = free[..., first : first + kind.num_servers]
        found.append(jnp.minimum(_room(kind.gpus_per_server, own), kind.largest_job))
        first += kind.num_servers
    return jnp.stack(found, axis=-1)


def rooms_for(cluster: Cluster, locality: Locality, free: Array) -> Array:
    """``largest_fit``, int32 scalar; where GPUs have types, that of each kind, int32 ``[K]``."""
    if cluster.gpu_types:
        return _rooms(cluster, free)
    return largest_fit(cluster, locality, free)


def fits(rooms: Array, num_gpus: Array, ranks: Array | None) -> Array:
    """Whether jobs of so many GPUs could start now, bool ``[...]``.

    Args:
      rooms: from ``rooms_for``, the same for all jobs or of each.
      num_gpus: int32 ``[...]``.
      ranks: int32 ``[..., K]``, the place of each kind in the jobs' order of kinds, from ``K`` on
        where they cannot run; None where GPUs have no types.
    """
    if ranks is None:
        return num_gpus <= rooms
    return jnp.any((num_gpus[..., None] <= rooms) & (ranks < rooms.shape[-1]), axis=-1)


def kind_for(
    cluster: Cluster, free: Array, num_gpus: Array, ranks: Array | None = None
) -> Array | None:
    """The kind of the servers on which a job of so many GPUs goes, with strict locality.

    Where servers differ, the first kind in the job's order on which it fits; int32 scalar, junk if
    it fits nowhere. None where they are alike.
    """
    if not cluster.kinds:
        return None
    if ranks is None:
        return jnp.argmax(num_gpus <= _rooms(cluster, free))
    return kinds_for(_rooms(cluster, free), num_gpus, ranks)


def kinds_for(rooms: Array, num_gpus: Array, ranks: Array) -> Array:
    """``kind_for`` of jobs, int32 ``[...]``; arguments as those of ``fits``."""
    return jnp.argmin(jnp.where(num_gpus[..., None] <= rooms, ranks, rooms.shape[-1]), axis=-1)


def size_of(cluster: Cluster, kind: Array | None) -> Array | int:
    """GPUs of each server of a kind."""
    if kind is None:
        return cluster.gpus_per_server
    return jnp.array([each.gpus_per_server for each in cluster.kinds], jnp.int32)[kind]


def of_kind(cluster: Cluster, kind: Array | None, servers: Array) -> Array:
    """Of these servers (bool ``[S]``) those of a kind."""
    if kind is None:
        return servers
    return servers & (jnp.array(cluster.server_kinds, jnp.int32) == kind)


def place(
    cluster: Cluster,
    locality: Locality,
    free_weight: Array,
    free: Array,
    num_gpus: Array,
    ranks: Array | None = None,
) -> Packing:
    """Where a job goes that fits.

    Args:
      cluster: the cluster.
      locality: what fits.
      free_weight: int32 scalar, of ``FREE_WEIGHT``.
      free: int32 ``[S]``, free GPUs of each server.
      num_gpus: int32 scalar, GPUs wanted.
      ranks: int32 ``[K]``, the job's order of kinds (``fits``); None: as they are numbered.

    Returns:
      The servers of which all free GPUs are taken, the one that gives a part, and that part.
    """
    if locality == "any":
        return pack_gang(free, num_gpus, cluster.gpus_per_server)
    most, size = cluster.gpus_per_server, cluster.num_servers
    kind = kind_for(cluster, free, num_gpus, ranks)
    full = size_of(cluster, kind)
    num_whole, left = num_gpus // full, num_gpus % full
    index = jnp.arange(size, dtype=jnp.int32)
    whole = of_kind(cluster, kind, free == full)
    in_full = whole & (jnp.cumsum(whole, dtype=jnp.int32) <= num_whole)
    suits = of_kind(cluster, kind, ~in_full & (free >= left))
    order = (most + free_weight * free) * size + index
    best = jnp.min(jnp.where(suits, order, jnp.iinfo(jnp.int32).max)) % size
    return Packing(in_full, (index == best) & (left > 0), left)


def first_server(placing: Packing) -> Array:
    """The lowest index of the servers used, int32 scalar."""
    return jnp.argmax(placing.in_full | placing.in_part).astype(jnp.int32)


def take_gpus(placing: Packing, free: Array) -> Array:
    """The GPUs that a placement takes, the first free ones of each server.

    Args:
      placing: from ``place``.
      free: bool ``[M, S]``, free GPUs.

    Returns:
      bool ``[M, S]``.
    """
    server = jnp.argmax(placing.in_part)
    column = free[:, server]
    gpu = jnp.arange(column.shape[0])
    if column.shape[0] > MOST_PAIRED:
        before = jnp.cumsum(column, dtype=jnp.int32) - column
    else:
        before = jnp.sum(column[None, :] & (gpu[None, :] < gpu[:, None]), axis=-1, dtype=jnp.int32)
    part = column & (before < placing.left)
    return free & (placing.in_full | (placing.in_part & part[:, None]))
