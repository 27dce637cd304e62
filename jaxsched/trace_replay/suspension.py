"""What it is to suspend a job: accounts of what jobs have done, and who makes way for whom.

Replays of the orders that suspend jobs and the environment of rigid jobs go by the same functions.
Axes: ``S`` servers, ``M`` GPUs per server, ``K`` contenders. A rank is ``(value, job number)``,
lower first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.packing import Packing
from jaxsched.trace_replay.cluster import Cluster, first_server, largest_fit
from jaxsched.trace_replay.policies import MOST_SERVICE, Locality
from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array


class Account(NamedTuple):
    """What is known of a job: a row of a ledger, int32 ``[..., n + 1]`` in columns."""

    start: Array  # of the first run
    end: Array  # of the last run, unless suspended before
    num_servers: Array  # of the last run
    first_server: Array
    preemptions: Array
    last_start: Array  # of the last run
    remaining: Array  # seconds of work, restart included, when last suspended; at first all
    served: Array  # seconds for which GPUs were held before the last suspension


class Contenders(NamedTuple):
    """Waiting jobs of which one may go next, ``[K]``."""

    value: Array  # int32, in its rank
    job: Array  # int32
    num_gpus: Array  # int32
    exists: Array  # bool


class Holders(NamedTuple):
    """What runs on each GPU, ``[M, S]``."""

    value: Array  # int32, in the rank of its last job
    job: Array  # int32, that job
    busy: Array  # bool, it runs
    waste: Array | None = None  # int32, what its suspension costs, where victims are chosen by it


def new_accounts(duration: Array) -> Account:
    """The accounts before anything has happened, of jobs of these run times (s)."""
    nothing = jnp.zeros_like(duration)
    return Account(*(nothing for _ in Account._fields))._replace(remaining=duration)


def begin_run(account: Account, time: Array, placing: Packing) -> Account:
    """The account of a job that begins a run now."""
    return account._replace(
        start=jnp.where(account.preemptions > 0, account.start, time),
        end=time + account.remaining,
        num_servers=placing.num_servers,
        first_server=first_server(placing),
        last_start=time,
    )


def cut_run(account: Account, time: Array, again_s: Array) -> Account:
    """The account of a running job that is suspended now, with so many more seconds of work."""
    return account._replace(
        preemptions=account.preemptions + 1,
        remaining=account.end - time + again_s,
        served=account.served + time - account.last_start,
    )


def gpu_seconds(seconds: Array, num_gpus: Array, most: int = MOST_SERVICE) -> Array:
    """So many seconds on so many GPUs, cut at ``most``; int32."""
    return jnp.where(seconds > most // num_gpus, most, seconds * num_gpus)


def next_decision(
    cluster: Cluster,
    locality: Locality,
    free: Array,
    contenders: Contenders,
    holders: Holders,
    nobody: int,
    *,
    equals: bool = True,
    block: bool = False,
) -> tuple[Array, Array]:
    """The first contender that can run starts, or somebody is suspended for it.

    A contender can run if it would fit, were all that come after it suspended. Of these, on the
    servers to be cleared, one of the largest value goes, the one that wastes least, then the last.

    Args:
      cluster: the cluster.
      locality: what fits.
      free: int32 ``[S]``, free GPUs of each server.
      contenders: who may go next.
      holders: who may have to make way.
      nobody: the number of no job.
      equals: of holders with a contender's value, those of higher numbers come after it; else none.
      block: only the first contender may go, whether it can run or not.

    Returns:
      The job that starts and the one that is suspended, int32 scalars, at most one of which is
      somebody.
    """
    value, busy = holders.value, holders.busy

    def available(value_: Array, job: Array) -> Array:
        after = value > value_
        if equals:
            after |= (value == value_) & (holders.job > job)
        return ~busy | after

    counts = jax.vmap(lambda value_, job: jnp.sum(available(value_, job), axis=0, dtype=jnp.int32))(
        contenders.value, contenders.job
    )
    can_run = contenders.num_gpus <= largest_fit(cluster, locality, counts)
    allowed = contenders.exists & can_run
    job = lowest(contenders, contenders.exists if block else allowed, nobody)
    chosen = allowed & (contenders.job == job)
    runs = jnp.any(chosen)
    num_gpus = jnp.max(jnp.where(chosen, contenders.num_gpus, 0))
    fits = runs & (num_gpus <= largest_fit(cluster, locality, free))

    rank = jnp.min(jnp.where(chosen, contenders.value, NONE))
    open_ = available(rank, job)
    leaves = busy & open_
    if locality == "strict":
        needed, suited = to_clear(cluster, free, open_, num_gpus)
        if holders.waste is not None:
            suited = least_of(suited, cost_to_clear(holders, leaves, needed - free))
        servers = suited & (free == jnp.max(jnp.where(suited, free, -1)))
        if holders.waste is not None:  # one by one, so that what has begun is ended
            servers &= jnp.arange(servers.shape[0]) == jnp.argmax(servers)
        leaves &= servers
    leaves &= value == jnp.max(jnp.where(leaves, value, jnp.iinfo(jnp.int32).min))
    if holders.waste is not None:
        leaves = least_of(leaves, holders.waste)
    last = jnp.max(jnp.where(leaves, holders.job, -1))
    victim = jnp.where(runs & ~fits, last, nobody).astype(jnp.int32)
    return jnp.where(fits, job, nobody), victim


def to_clear(
    cluster: Cluster, free: Array, available: Array, num_gpus: Array
) -> tuple[Array, Array]:
    """What a job that does not fit yet needs next, and the servers that can be cleared for it.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      available: bool ``[M, S]``, GPUs that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      Free GPUs of one server, int32 scalar, and which have fewer but could have as many, ``[S]``.
    """
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    count = jnp.sum(available, axis=0, dtype=jnp.int32)
    return needed, (free < needed) & (count >= needed)


def cost_to_clear(holders: Holders, leaves: Array, more: Array) -> Array:
    """What it wastes to free so many more GPUs of each server, int32 ``[S]``.

    Jobs of a server go one after the other, each with all that it wastes, wherever it runs, until
    enough of the server is free.

    Args:
      holders: the jobs, with what they waste.
      leaves: which may go, bool ``[M, S]``.
      more: GPUs, int32 ``[S]``.
    """
    gpu = jnp.arange(leaves.shape[0])

    def compared(values: Array) -> tuple[Array, Array]:
        return values[:, None, :], values[None, :, :]

    assert holders.waste is not None
    (value, other), (cost, others), (own, its) = map(
        compared, (holders.value, holders.waste, holders.job)
    )
    sooner = (other > value) | (
        (other == value) & ((others < cost) | (others == cost) & (its > own))
    )
    freed = jnp.sum(leaves[None] & sooner, axis=1, dtype=jnp.int32)
    again = jnp.any(leaves[None] & (its == own) & (gpu[None, :] < gpu[:, None])[..., None], axis=1)
    goes = leaves & ~again & (freed < more)
    return jnp.sum(jnp.where(goes, holders.waste, 0), axis=0, dtype=jnp.int32)


def least_of(allowed: Array, cost: Array) -> Array:
    """Those among the allowed whose cost is the least."""
    return allowed & (cost == jnp.min(jnp.where(allowed, cost, NONE)))


def lowest(contenders: Contenders, allowed: Array, nobody: int) -> Array:
    """The contender of the lowest rank among those allowed, int32 scalar; n if none is."""
    least = jnp.min(jnp.where(allowed, contenders.value, NONE))
    first = jnp.where(allowed & (contenders.value == least), contenders.job, nobody)
    return jnp.min(first).astype(jnp.int32)
