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


def cut_run(account: Account, time: Array, restart_s: Array) -> Account:
    """The account of a running job that is suspended now; it will have to restart."""
    return account._replace(
        preemptions=account.preemptions + 1,
        remaining=account.end - time + restart_s,
        served=account.served + time - account.last_start,
    )


def remaining_service(left: Array, num_gpus: Array) -> Array:
    """GPU-seconds of jobs with so many seconds left, cut at ``MOST_SERVICE``; int32."""
    return jnp.where(left > MOST_SERVICE // num_gpus, MOST_SERVICE, left * num_gpus)


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

    A contender can run if it would fit, were all that come after it suspended.

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
    servers = jnp.ones(free.shape, bool)
    if locality == "strict":
        servers = to_clear(cluster, free, open_, num_gpus)
    candidates = busy & open_ & servers
    largest = jnp.max(jnp.where(candidates, value, jnp.iinfo(jnp.int32).min))
    last = jnp.max(jnp.where(candidates & (value == largest), holders.job, -1))
    victim = jnp.where(runs & ~fits, last, nobody).astype(jnp.int32)
    return jnp.where(fits, job, nobody), victim


def to_clear(cluster: Cluster, free: Array, available: Array, num_gpus: Array) -> Array:
    """The servers on which somebody is suspended for a job that does not fit yet.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      available: bool ``[M, S]``, GPUs that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      bool ``[S]``.
    """
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    count = jnp.sum(available, axis=0, dtype=jnp.int32)
    suited = (free < needed) & (count >= needed)
    most = jnp.max(jnp.where(suited, free, -1))
    return suited & (free == most)


def lowest(contenders: Contenders, allowed: Array, nobody: int) -> Array:
    """The contender of the lowest rank among those allowed, int32 scalar; n if none is."""
    least = jnp.min(jnp.where(allowed, contenders.value, NONE))
    first = jnp.where(allowed & (contenders.value == least), contenders.job, nobody)
    return jnp.min(first).astype(jnp.int32)
