"""Reservations of servers that a replay knows beforehand (``outages.Windows``): what they leave.

A job may start on a server only if it ends, as the policy knows it, by the beginning of the next
reservation there. So jobs of one class whose run times lie between the same two limits fit on the
same servers: these are a span. Axes: ``S`` servers, ``K`` classes.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.gpu_types import work_within
from jaxsched.trace_replay.outages import Windows
from jaxsched.trace_replay.waiting import NONE, Waiting
from jaxsched.types import Array

ANY = NONE - 1
"""Work that may be started where nothing is reserved any more: that of any job."""


class Span(NamedTuple):
    """Run times of each class that may start on the same servers.

    Attributes:
      above: int32 ``[K]``, they are longer than this (s).
      most: int32 ``[K]``, and at most this.
      servers: bool ``[K, S]``, where they may start.
    """

    above: Array
    most: Array
    servers: Array


def most_work(windows: Windows, cluster: Cluster, time: Array, speed: Array | None) -> Array:
    """The longest run time that may start on each server at a time, int32 ``[S]`` (s).

    0 where a reservation has begun, ``ANY`` where none is to come.

    Args:
      windows: the reservations.
      cluster: the servers.
      time: int32 scalar (s).
      speed: int32 ``[kinds]``, of the job on each kind, thousandths; None where GPUs have no types.
    """
    left = jnp.where(windows.end > time, jnp.maximum(windows.begin - time, 0), ANY)
    gap = jnp.full(cluster.num_servers, ANY, jnp.int32).at[windows.server].min(left)
    if speed is None:
        return gap
    own = speed[jnp.array(cluster.server_kinds, jnp.int32)]
    return jnp.where(gap < ANY, work_within(gap, own, ANY), ANY)


def span_above(work: Array, above: Array) -> Span:
    """The next span of run times, given what may start where (``most_work``, int32 ``[K, S]``)."""
    servers = work > above[:, None]
    return Span(above, jnp.min(jnp.where(servers, work, ANY), axis=1), servers)


def within(waiting: Waiting, block_class: Array, span: Span) -> Waiting:
    """Of the waiting jobs those of a span; ``block_class`` as in ``waiting.first_up_to``."""
    own = jnp.minimum(block_class, span.above.shape[0] - 1)[:, None]
    suits = (waiting.values > span.above[own]) & (waiting.values <= span.most[own])
    values = jnp.where(suits, waiting.values, NONE)
    return Waiting(values, jnp.min(values, axis=1))


def next_end(windows: Windows, time: Array) -> Array:
    """When the next reservation ends, int32 scalar (s); ``NONE`` if none does."""
    return jnp.min(jnp.where(windows.end > time, windows.end, NONE), initial=NONE)
