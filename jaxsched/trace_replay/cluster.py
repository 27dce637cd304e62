"""What fits where on a cluster of identical servers.

Axes: ``S`` servers, ``M`` GPUs per server.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.ops.packing import Packing, pack_gang
from jaxsched.options import Count, check
from jaxsched.trace_replay.policies import Locality, Placement
from jaxsched.types import Array

MAX_GPUS = 2**15
MOST_PAIRED = 64
"""GPUs of a server that are compared pair by pair."""

FREE_WEIGHT: dict[Placement, int] = {"pack": 1, "first_fit": 0, "load_balance": -1}
"""How a server's free GPUs count when servers are compared; the lowest sum is chosen."""


@dataclass(frozen=True)
class Cluster:
    """Identical servers.

    Attributes:
      num_servers: S.
      gpus_per_server: M.

    Raises:
      JaxschedError: not whole numbers from 1 on, or more than 2**15 GPUs in all.
    """

    num_servers: Count
    gpus_per_server: Count

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be used."""
        check(self, "rigid: ")
        if self.num_gpus > MAX_GPUS:
            raise JaxschedError(
                f"rigid: the cluster has {self.num_gpus} GPUs; accepted: at most {MAX_GPUS}"
            )

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_servers * self.gpus_per_server


def counts_alone(cluster: Cluster, locality: Locality) -> bool:
    """Whether the number of free GPUs alone says who fits."""
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
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, axis=-1, dtype=jnp.int32)
    return whole * full + jnp.max(jnp.where(free == full, 0, free), axis=-1)


def place(
    cluster: Cluster, locality: Locality, free_weight: Array, free: Array, num_gpus: Array
) -> Packing:
    """Where a job goes that fits.

    Args:
      cluster: the cluster.
      locality: what fits.
      free_weight: int32 scalar, of ``FREE_WEIGHT``.
      free: int32 ``[S]``, free GPUs of each server.
      num_gpus: int32 scalar, GPUs wanted.

    Returns:
      The servers of which all free GPUs are taken, the one that gives a part, and that part.
    """
    if locality == "any":
        return pack_gang(free, num_gpus, cluster.gpus_per_server)
    full, size = cluster.gpus_per_server, cluster.num_servers
    num_whole, left = num_gpus // full, num_gpus % full
    index = jnp.arange(size, dtype=jnp.int32)
    whole = free == full
    in_full = whole & (jnp.cumsum(whole, dtype=jnp.int32) <= num_whole)
    suits = ~in_full & (free >= left)
    order = (full + free_weight * free) * size + index
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
