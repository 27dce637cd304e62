"""Rules that choose GPUs for a gang of a given size.

Axes: ``S`` servers, ``G`` GPUs per server (at most 32). Everything is integer and exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.bit_sets import bit_values
from jaxsched.types import Array

VECTOR = 8  # int32 in a vector register of common CPUs
MOST_PAIRED = 128
"""More servers than this are counted by their free GPUs instead of compared pair by pair."""


def to_bits(flags: Array) -> Array:
    """GPUs of each server as a bit set, GPU ``i`` in bit ``i``.

    Args:
      flags: bool ``[S, G]``, G at most 32.

    Returns:
      uint32 ``[S]``.
    """
    values = jnp.where(flags, bit_values(flags.shape[-1]), jnp.uint32(0))
    return jnp.sum(values, axis=-1, dtype=jnp.uint32)


def count_bits(bits: Array) -> Array:
    """Number of set bits, int32."""
    return jax.lax.population_count(bits).astype(jnp.int32)


def cumulative_free(free_count: Array) -> Array:
    """GPUs free on each server and on all those before it in (free descending, index) order.

    Packing takes servers in this order, so a gang of ``g`` GPUs takes in full exactly the servers
    whose value is below ``g``.

    Args:
      free_count: int32 ``[S]``, free GPUs of each server.

    Returns:
      int32 ``[S]``.
    """
    num_servers = free_count.shape[-1]
    # Full servers at the end change nothing; whole vectors take half the time on a CPU.
    free_count = jnp.pad(free_count, (0, -num_servers % VECTOR))
    size = free_count.shape[-1]
    order = free_count * size + (size - 1 - jnp.arange(size))  # unique, larger comes first
    not_after = order[None, :] >= order[:, None]  # [server, other]
    return jnp.sum(jnp.where(not_after, free_count[None, :], 0), axis=1)[:num_servers]


def servers_used(cumulative: Array, num_gpus: Array) -> Array:
    """Servers over which packing would spread gangs of ``num_gpus``, where these fit.

    Args:
      cumulative: int32 ``[S]`` from ``cumulative_free``.
      num_gpus: int32 ``[...]``, sizes of the gangs, at least 1.

    Returns:
      int32 ``[...]``.
    """
    taken_in_full = cumulative < num_gpus[..., None]
    return 1 + jnp.sum(taken_in_full, axis=-1, dtype=jnp.int32)


class Reach(NamedTuple):
    """How far packing goes through servers in the order of their free GPUs.

    Attributes:
      value: int32 ``[...]``, servers with more free GPUs than this are taken in full.
      same: int32 ``[...]``, servers with as many that are taken in full as well, the first ones.
    """

    value: Array
    same: Array


def reach_of(servers: Array, num_gpus: Array) -> Reach:
    """How far gangs of ``num_gpus`` get.

    Args:
      servers: int32 ``[G + 1]``, how many servers have 0, 1 .. G free GPUs.
      num_gpus: int32 ``[...]``, sizes of the gangs.
    """
    value = jnp.arange(servers.shape[-1], dtype=jnp.int32)
    gpus = servers * value
    above = jnp.sum(jnp.where(value[None, :] > value[:, None], gpus, 0), axis=-1)
    reached = jnp.sum(above < num_gpus[..., None], axis=-1, dtype=jnp.int32)
    last = servers.shape[-1] - reached  # above G for no GPU, 0 for more than are free
    before = jnp.sum(jnp.where(value > last[..., None], gpus, 0), axis=-1)
    same = jnp.maximum(num_gpus - before - 1, 0) // jnp.maximum(last, 1)
    return Reach(last, jnp.where(last > 0, same, servers[0]))


def count_servers(free_count: Array, most: int) -> Array:
    """How many servers have 0, 1 .. ``most`` free GPUs, int32 ``[most + 1]``."""
    value = jnp.arange(most + 1, dtype=jnp.int32)
    return jnp.sum(free_count == value[:, None], axis=-1, dtype=jnp.int32)


def servers_for(free_count: Array, num_gpus: Array, most: int) -> Array:
    """``servers_used`` from the free GPUs themselves, of which a server has at most ``most``."""
    if free_count.shape[-1] <= MOST_PAIRED:
        return servers_used(cumulative_free(free_count), num_gpus)
    servers = count_servers(free_count, most)
    reach = reach_of(servers, num_gpus)
    more = jnp.arange(most + 1, dtype=jnp.int32) > reach.value[..., None]
    return 1 + jnp.sum(jnp.where(more, servers, 0), axis=-1) + reach.same


class Packing(NamedTuple):
    """Where packing puts a gang: some servers in full, then part of one more.

    Attributes:
      in_full: bool ``[S]``, servers of which all free GPUs are taken.
      in_part: bool ``[S]``, the one server that gives its lowest-numbered free GPUs, or none.
      left: int32 scalar, how many it gives.
    """

    in_full: Array
    in_part: Array
    left: Array

    @property
    def num_servers(self) -> Array:
        """Servers used, int32 scalar."""
        return jnp.sum(self.in_full, dtype=jnp.int32) + (self.left > 0)

    def counts(self, free_count: Array) -> Array:
        """GPUs taken from each server, int32 ``[S]``."""
        return jnp.where(self.in_full, free_count, jnp.where(self.in_part, self.left, 0))


def pack(free_count: Array, cumulative: Array, num_gpus: Array) -> Packing:
    """Packing (SCHED2, section 3): whole servers from the emptiest on, then the best fit.

    While some server can hold what is left, the fullest such server takes it; otherwise the server
    with the most free GPUs gives all of them (ties: lowest index). The result uses the fewest
    servers possible.

    Args:
      free_count: int32 ``[S]``, free GPUs of each server.
      cumulative: int32 ``[S]`` from ``cumulative_free``.
      num_gpus: int32 scalar, GPUs wanted, at most the number of free GPUs; 0 takes none.
    """
    return _packing(free_count, cumulative < num_gpus, num_gpus)


def pack_gang(free_count: Array, num_gpus: Array, most: int) -> Packing:
    """``pack`` from the free GPUs alone, of which a server has at most ``most``."""
    if free_count.shape[-1] <= MOST_PAIRED:
        return pack(free_count, cumulative_free(free_count), num_gpus)
    reach = reach_of(count_servers(free_count, most), num_gpus)
    same = free_count == reach.value
    first = jnp.cumsum(same, dtype=jnp.int32) <= reach.same
    return _packing(free_count, (free_count > reach.value) | (same & first), num_gpus)


def _packing(free_count: Array, in_full: Array, num_gpus: Array) -> Packing:
    num_servers = free_count.shape[-1]
    left = num_gpus - jnp.sum(jnp.where(in_full, free_count, 0))
    fits = ~in_full & (free_count >= left)
    index = jnp.arange(num_servers)
    order = jnp.where(fits, free_count * num_servers + index, jnp.iinfo(jnp.int32).max)
    best = jnp.min(order) % num_servers  # fewest free GPUs, then lowest index
    return Packing(in_full, (index == best) & (left > 0), left)


def taken_gpus(packing: Packing, free: Array, bits: Array) -> Array:
    """The GPUs that a packing takes, bool ``[S, G]``.

    Args:
      packing: from ``pack``.
      free: bool ``[S, G]``, free GPUs.
      bits: uint32 ``[S]``, the same from ``to_bits``.
    """
    shared = jnp.sum(jnp.where(packing.in_part, bits, 0), dtype=jnp.uint32)
    gpus_per_server = free.shape[-1]
    below = shared & (bit_values(gpus_per_server) - 1)
    within = jnp.sum(count_bits(below) < packing.left, dtype=jnp.int32)
    reach = jnp.where(packing.in_full, gpus_per_server, jnp.where(packing.in_part, within, 0))
    return free & (jnp.arange(gpus_per_server) < reach[:, None])
