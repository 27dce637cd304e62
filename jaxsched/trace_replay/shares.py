"""Shares of a GPU: slots, of which every GPU has the same number, and who may take which.

A replay with shares counts slots in place of GPUs: a server of M GPUs with k slots each has ``M*k``
places (``Cluster.in_slots``). A job that asks for a part of one GPU (column ``gpu_milli``) needs
that part, rounded up to slots, on one GPU; of a server's GPUs that are able it takes the one with
the fewest free slots (best fit; ``fragmentation`` says which under ``fgd``). A job of whole GPUs
needs GPUs that are wholly free. Slots are alike, wherever on the GPU they are: MIG's rules for the
places of its instances are not kept.

Axes: ``S`` servers, ``M`` GPUs per server, ``k`` slots per GPU.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.shares import GPU_MILLI, WHOLE, slots_of
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.policies import WEIGHING, Policy
from jaxsched.types import Array

SHARE = "share"
"""Column of tables in slots: the slots of a job that shares its GPU, 0 for jobs of whole GPUs."""


def looks_at_gpus(cluster: Cluster, policy: Policy) -> bool:
    """Whether it matters on which GPU of a server a job is."""
    return cluster.slots > 1 or policy.placement == "fgd"


def check_shares(table: JobTable, cluster: Cluster, policy: Policy) -> None:
    """Refuse what does not go with slots.

    Raises:
      JaxschedError: an order or a locality that slots are not made for, or a job of several GPUs
        that asks for parts of them.
    """
    if policy.placement == "fgd" and cluster.gpu_types:
        raise JaxschedError(
            "rigid: placement fgd with GPUs of different types; accepted: pack, first_fit, "
            "load_balance"
        )
    if cluster.slots == 1:
        return
    if not policy.takes_shares:
        given = "locality any" if policy.locality == "any" else f"order {policy.order}"
        raise JaxschedError(
            f"rigid: {given} with slots of GPUs; accepted: locality strict and an order that "
            f"neither suspends jobs nor learns, but {', '.join(WEIGHING)}"
        )
    if GPU_MILLI.name in table.columns:
        wrong = (table[GPU_MILLI.name] < WHOLE) & (table["num_gpus"] > 1)
        if wrong.any():
            job = int(np.flatnonzero(wrong)[0])
            raise JaxschedError(
                f"table '{table.name}', job {job}: gpu_milli is {table[GPU_MILLI.name][job]} of "
                f"{table['num_gpus'][job]} GPUs; accepted: {WHOLE}, or a job of one GPU"
            )


def in_slots(table: JobTable, cluster: Cluster) -> JobTable:
    """The table for ``cluster.in_slots``: ``num_gpus`` counts slots, ``SHARE`` is there."""
    slots = slots_of(table, cluster.slots)
    return table.with_columns(
        **{"num_gpus": slots, SHARE: np.where(slots < cluster.slots, slots, 0)}
    )


def free_slots(is_free: Array, size: int) -> Array:
    """Free slots of each GPU, int32 ``[M, S]``, where these are free, bool ``[M * k, S]``."""
    return jnp.sum(_by_gpu(is_free, size), axis=1, dtype=jnp.int32)


def of_gpus(is_free: Array, size: int, mine: Array | None) -> Array:
    """Of these free slots, bool ``[M * k, S]``, those on GPUs that a job may use.

    Args:
      is_free: all of them.
      size: k.
      mine: int32 ``[M, S]``, from ``offered``; None: GPUs are alike, and a job may use all.
    """
    if mine is None:
        return is_free
    return (_by_gpu(is_free, size) & (mine > 0)[:, None]).reshape(is_free.shape)


def _by_gpu(slots: Array, size: int) -> Array:
    """Slots ``[M * k, S]`` as ``[M, k, S]``."""
    return slots.reshape(-1, size, slots.shape[-1])


def offered(slots: Array, size: int, share: Array) -> Array:
    """Free slots of the GPUs that a job could use, int32 ``[M, S]``; 0 for all others.

    Those of GPUs that are wholly free, or of the one on each server that a share would take.

    Args:
      slots: int32 ``[M, S]``, free slots of each GPU.
      size: k.
      share: int32 scalar, slots of a job that shares its GPU; 0 for jobs of whole GPUs.
    """
    able = slots >= jnp.where(share > 0, share, size)
    order = jnp.where(able, slots, size + 1)
    return jnp.where(able & ((share == 0) | is_first_least(order)), slots, 0)


def is_first_least(values: Array) -> Array:
    """Which GPU of each server has the least value, the first of equal ones; bool ``[M, S]``."""
    return jnp.arange(values.shape[0])[:, None] == jnp.argmin(values, axis=0)[None, :]


def taken_of(mine: Array, counts: Array) -> Array:
    """Slots that a job takes of each GPU, int32 ``[M, S]``, of the first ones that it may use.

    Args:
      mine: int32 ``[M, S]``, from ``offered``.
      counts: int32 ``[S]``, slots that it takes of each server.
    """
    before = jnp.cumsum(mine, axis=0, dtype=jnp.int32) - mine
    return jnp.clip(counts[None, :] - before, 0, mine)
