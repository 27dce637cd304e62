"""Ordering and placement of a decision (specification, section 3.4).

Amounts are whole numbers in float32, exact below 2**20. Axes: ``N`` positions of the window, ``M``
machines; ``P`` = N ranks of the order.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.types import Array

HEAD = 4  # jobs of an order that all decisions of a batch try together
TAIL_SHARE = 8  # of the batch, one part goes on at a time

Free = tuple[Array, Array, Array]
"""Free GPUs, CPUs and GB of each machine, float32 ``[M]``."""


class Demand(NamedTuple):
    """What jobs ask for, float32 ``[...]``; ``instances`` 0 or less stands for no job."""

    instances: Array
    gpus: Array
    cpus: Array
    mem: Array

    @property
    def requests(self) -> tuple[Array, Array, Array]:
        """GPUs, CPUs and GB of one instance."""
        return self.gpus, self.cpus, self.mem


def fitting(free: Free, demand: Demand) -> Array:
    """Instances that each machine can take, float32 ``[M, ...]``; zero requests do not count.

    Half a unit on top keeps the floor of the rounded quotient exact.
    """
    rooms = []
    for amount, request in zip(free, demand.requests, strict=True):
        inverse = jnp.where(request > 0, 1.0 / jnp.maximum(request, 1.0), 1e6)
        rooms.append(jnp.expand_dims(amount + 0.5, range(1, 1 + inverse.ndim)) * inverse)
    return jnp.floor(reduce(jnp.minimum, rooms))


def can_place(free: Free, demand: Demand) -> Array:
    """Whether all instances fit at once, bool ``[...]``."""
    room = jnp.sum(fitting(free, demand), axis=0)
    return (demand.instances > 0) & (room >= demand.instances)


def place(free: Free, demand: Demand, affinity: Array) -> Array:
    """Put one job on the machines of the highest affinity, ties to the lower index.

    Args:
      free: what the machines have left.
      demand: of the job, scalars.
      affinity: float ``[M]``, without NaN.

    Returns:
      float32 ``[M]``, instances on each machine; all 0 where the job does not fit as a whole.
    """
    fit = fitting(free, demand)
    index = jnp.arange(fit.shape[-1], dtype=jnp.int32)
    higher = affinity[:, None] > affinity[None, :]
    tie = (affinity[:, None] == affinity[None, :]) & (index[:, None] < index[None, :])
    earlier = jnp.sum(jnp.where(higher | tie, fit[:, None], 0.0), axis=0)
    fits = (jnp.sum(fit) >= demand.instances) & (demand.instances > 0)
    wanted = jnp.where(fits, demand.instances, 0.0)
    return jnp.clip(wanted - earlier, 0.0, fit)


def take(free: Free, demand: Demand, counts: Array) -> Free:
    """What is left after ``counts`` (float32 ``[M]``) instances of a job."""
    gpus, cpus, mem = (
        amount - counts * request for amount, request in zip(free, demand.requests, strict=True)
    )
    return gpus, cpus, mem


def rank_of(priority: Array, member: Array) -> Array:
    """Rank of each position in the order, int32 ``[N]``: members first, by priority descending.

    Ties go to the lower position; NaN counts as minus infinity.

    Args:
      priority: float ``[N]``.
      member: bool ``[N]``; the others come last, by position.
    """
    value = jnp.where(member & ~jnp.isnan(priority), priority, -jnp.inf)
    index = jnp.arange(value.shape[0], dtype=jnp.int32)
    tie = (value[None, :] == value[:, None]) & (index[None, :] < index[:, None])
    before = (value[None, :] > value[:, None]) | tie
    before = jnp.where(member[None, :] == member[:, None], before, member[None, :])
    return jnp.sum(before, axis=-1, dtype=jnp.int32)


def inverse_of(rank: Array) -> Array:
    """The position at each rank of the order, int32 ``[P]``, of the positions' ranks ``[N]``."""
    index = jnp.arange(rank.shape[0], dtype=jnp.int32)
    there = jnp.where(rank[None, :] == index[:, None], index[None, :], 0)
    return jnp.sum(there, axis=-1, dtype=jnp.int32)


def rows_in_turn(free: Free, demand: Demand, rank: Array, row: Callable[[Free], Array]) -> Array:
    """Affinities by what is free when each job's turn comes, earlier jobs being placed by theirs.

    Args:
      free: what the machines have.
      demand: of the jobs, leaves ``[N]``.
      rank: int32 ``[N]``, their places in the order.
      row: affinities ``[M]`` of free resources.

    Returns:
      float32 ``[N, M]``.
    """

    def body(free: Free, job: Demand) -> tuple[Free, Array]:
        affinity = row(free)
        return take(free, job, place(free, job, affinity)), affinity

    in_turn = jax.tree.map(lambda x: x[inverse_of(rank)], demand)
    return jax.lax.scan(body, free, in_turn)[1][rank]


def place_in_order(free: Free, demand: Demand, affinity: Array, number: Array) -> Array:
    """Place jobs one after the other on what the earlier ones leave.

    In a batch nearly all decisions are about a few jobs and some about many: the first ``HEAD``
    jobs are placed in all of them at once, the rest only in those that have more.

    Args:
      free: what the machines have.
      demand: of the jobs in order, leaves ``[P]``.
      affinity: float ``[P, M]``, in the same order, without NaN.
      number: int32, how many jobs to try.

    Returns:
      Instances on each machine, int8 ``[P, M]``; all 0 where not placed or not tried.
    """
    tried = jnp.arange(affinity.shape[0], dtype=jnp.int32) < number
    demand = demand._replace(instances=jnp.where(tried, demand.instances, 0.0))
    return _place_all(free, demand, affinity, number)


def _place_some(free: Free, demand: Demand, affinity: Array) -> tuple[Free, Array]:
    """What is left, and instances int8 ``[P, M]``."""

    def body(free: Free, job: tuple[Demand, Array]) -> tuple[Free, Array]:
        demand, affinity = job
        counts = place(free, demand, affinity)
        return take(free, demand, counts), counts.astype(jnp.int8)

    return jax.lax.scan(body, free, (demand, affinity))


@jax.custom_batching.custom_vmap
def _place_all(free: Free, demand: Demand, affinity: Array, number: Array) -> Array:
    del number
    return _place_some(free, demand, affinity)[1]


@_place_all.def_vmap
def _place_batch(
    axis_size: int, in_batched: list, free: Free, demand: Demand, affinity: Array, number: Array
) -> tuple[Array, bool]:
    """All decisions of a batch: their heads together, then their tails, some at a time."""

    def batched(value: Array, is_batched: bool) -> Array:
        return value if is_batched else jnp.broadcast_to(value, (axis_size, *value.shape))

    inputs = (free, demand, affinity, number)
    free, demand, affinity, number = jax.tree.map(batched, inputs, tuple(in_batched))
    places = affinity.shape[1]
    group = -(-axis_size // TAIL_SHARE)
    known = isinstance(axis_size, int)  # not so in exports, whose batches have any size
    if places <= HEAD or not known or group == axis_size:
        return jax.vmap(_place_some)(free, demand, affinity)[1], True

    head, tail = (
        jax.tree.map(lambda x, part=part: x[:, part], (demand, affinity))
        for part in (slice(HEAD), slice(HEAD, None))
    )
    free, counts = jax.vmap(_place_some)(free, *head)
    unplaced = jnp.zeros((axis_size, places - HEAD, affinity.shape[-1]), jnp.int8)

    def waits(carry: tuple[Array, Array]) -> Array:
        return jnp.any(carry[0])

    def some(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        longer, placed = carry
        turn = jnp.cumsum(longer, dtype=jnp.int32)
        wanted = jnp.arange(1, group + 1, dtype=jnp.int32)
        lanes = jnp.searchsorted(turn, wanted)  # out of range: dropped
        theirs = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), (free, *tail))
        _, rest = jax.vmap(_place_some)(*theirs)
        return longer & (turn > group), placed.at[lanes].set(rest, mode="drop")

    _, rest = jax.lax.while_loop(waits, some, (number > HEAD, unplaced))
    return jnp.concatenate([counts, rest], axis=1), True
