"""Rules that choose GPUs for a gang of a given size.

Axes: ``S`` servers, ``G`` GPUs per server (at most 32). Everything is integer and exact.
"""

import jax
import jax.numpy as jnp

from jaxsched.types import Array


def to_bits(flags: Array) -> Array:
    """GPUs of each server as a bit set, GPU ``i`` in bit ``i``.

    Args:
      flags: bool ``[S, G]``, G at most 32.

    Returns:
      uint32 ``[S]``.
    """
    weights = jnp.uint32(1) << jnp.arange(flags.shape[-1], dtype=jnp.uint32)
    return jnp.sum(jnp.where(flags, weights, jnp.uint32(0)), axis=-1, dtype=jnp.uint32)


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
    index = jnp.arange(num_servers)
    order = free_count * num_servers + (num_servers - 1 - index)  # unique, larger comes first
    not_after = order[:, None] >= order[None, :]  # [other, server]
    return jnp.sum(jnp.where(not_after, free_count[:, None], 0), axis=0)


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


def pack(free_count: Array, cumulative: Array, num_gpus: Array) -> Array:
    """Packing (SCHED2, section 3): whole servers from the emptiest on, then the best fit.

    While some server can hold what is left, the fullest such server takes it; otherwise the server
    with the most free GPUs gives all of them (ties: lowest index). The result uses the fewest
    servers possible.

    Args:
      free_count: int32 ``[S]``, free GPUs of each server.
      cumulative: int32 ``[S]`` from ``cumulative_free``.
      num_gpus: int32 scalar, GPUs wanted, at most the number of free GPUs; 0 takes none.

    Returns:
      int32 ``[S]``, GPUs taken from each server.
    """
    num_servers = free_count.shape[-1]
    in_full = cumulative < num_gpus
    left = num_gpus - jnp.sum(jnp.where(in_full, free_count, 0))
    fits = ~in_full & (free_count >= left) & (left > 0)
    order = free_count * num_servers + jnp.arange(num_servers)  # unique, smaller is a better fit
    best = jnp.min(jnp.where(fits, order, jnp.iinfo(jnp.int32).max))
    return jnp.where(in_full, free_count, jnp.where(fits & (order == best), left, 0))


def lowest_free(bits: Array, count: Array, gpus_per_server: int) -> Array:
    """Marks each server's GPUs up to and including its ``count``-th free one.

    Args:
      bits: uint32 ``[S]`` from ``to_bits``.
      count: int32 ``[S]``, GPUs to take of each server.
      gpus_per_server: G.

    Returns:
      bool ``[S, G]``; its free GPUs are the ``count`` lowest-numbered free ones.
    """
    gpu = jnp.arange(gpus_per_server)
    below = bits[:, None] & ((jnp.uint32(1) << gpu.astype(jnp.uint32)) - 1)
    within = jnp.sum(count_bits(below) < count[:, None], axis=-1, dtype=jnp.int32)
    return gpu < within[:, None]
