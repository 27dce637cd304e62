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


class Plan(NamedTuple):
    """What an instant has settled so far, before anybody is suspended; int32 ``[M, S]``.

    Attributes:
      leaving: whether the GPU's running job makes way: ``STAYS``, ``ASKED`` or ``LEAVES``.
      coming: the chosen job that will take a GPU of this server (of the cluster, where locality
        does not matter), no job elsewhere. Which GPUs of the server it takes is open.
    """

    leaving: Array
    coming: Array


STAYS, ASKED, LEAVES = 0, 1, 2
"""A running job keeps its GPUs; makes way unless they are left over; makes way."""


class Move(NamedTuple):
    """The next thing that an instant settles: jobs, int32 scalars, at most one is somebody."""

    starts: Array  # starts now
    suspended: Array  # is suspended now
    chosen: Array  # will start once those that make way are suspended
    leaves: Array  # has to make way
    stays: Array  # had to, and keeps its GPUs


def no_plan(cluster: Cluster, nobody: int) -> Plan:
    """Nothing is settled."""
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    return Plan(jnp.full(gpus, STAYS, jnp.int32), jnp.full(gpus, nobody, jnp.int32))


def no_move(nobody: int) -> Move:
    """Nothing happens."""
    return Move(*(jnp.int32(nobody) for _ in Move._fields))


def is_open(plan: Plan, nobody: int) -> Array:
    """Whether anything is settled that has not been done, bool scalar."""
    return jnp.any((plan.leaving != STAYS) | (plan.coming != nobody))


def left_over(plan: Plan, is_free: Array, nobody: int) -> Array:
    """GPUs of each server that nobody holds who stays and no chosen job will take, int32 ``[S]``.

    With locality ``any`` only the sum has a meaning.
    """
    open_ = jnp.sum(is_free | (plan.leaving != STAYS), axis=0, dtype=jnp.int32)
    return open_ - jnp.sum(plan.coming != nobody, axis=0, dtype=jnp.int32)


def next_move(
    cluster: Cluster,
    locality: Locality,
    contenders: Contenders,
    holders: Holders,
    plan: Plan,
    nobody: int,
    *,
    equals: bool = True,
    block: bool = False,
) -> Move:
    """What an instant settles next: first who runs, then suspensions, then starts.

    The first contender that can run is chosen: it would fit, were all that come after it suspended.
    If it does not fit beside those who stay, one of them makes way: of those after it on the
    servers to be cleared, one of the largest value, the one that wastes least, then the last. Once
    it is chosen, all that make way are asked in order whether their own GPUs are left over; then
    they keep them, and never stop. The others are asked again after whoever is chosen later but
    comes before them; when none is left, they are suspended. Chosen jobs start last, at places of
    their own.

    Args:
      cluster: the cluster.
      locality: what fits.
      contenders: who may go next; no chosen jobs.
      holders: who may have to make way.
      plan: what is settled so far.
      nobody: the number of no job.
      equals: of holders with a contender's value, those of higher numbers come after it; else none.
      block: only the first contender may go, whether it can run or not.
    """
    value, busy = holders.value, holders.busy
    stays = busy & (plan.leaving == STAYS)
    free = left_over(plan, ~busy, nobody)
    claimed = jnp.sum(plan.coming != nobody, axis=0, dtype=jnp.int32)

    def available(value_: Array, job: Array) -> Array:
        after = value > value_
        if equals:
            after |= (value == value_) & (holders.job > job)
        return ~stays | after

    counts = jax.vmap(lambda value_, job: jnp.sum(available(value_, job), axis=0, dtype=jnp.int32))(
        contenders.value, contenders.job
    )
    can_run = contenders.num_gpus <= largest_fit(cluster, locality, counts - claimed)
    allowed = contenders.exists & can_run
    job = lowest(contenders, contenders.exists if block else allowed, nobody)
    chosen = allowed & (contenders.job == job)
    runs = jnp.any(chosen)
    num_gpus = jnp.max(jnp.where(chosen, contenders.num_gpus, 0))
    fits = num_gpus <= largest_fit(cluster, locality, free)

    rank = jnp.min(jnp.where(chosen, contenders.value, NONE))
    open_ = available(rank, job)
    leaves = stays & open_
    if locality == "strict":
        count = jnp.sum(open_, axis=0, dtype=jnp.int32) - claimed
        needed, suited = to_clear(cluster, free, count, num_gpus)
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

    asked = _first_asked(holders, busy & (plan.leaving == ASKED), nobody)
    asks = asked < nobody
    own = busy & (holders.job == asked)
    if locality == "any":
        is_left = jnp.sum(own) <= jnp.sum(free)
    else:
        is_left = jnp.all(jnp.sum(own, axis=0) <= free)

    goes = busy & (plan.leaving == LEAVES)
    first_value = jnp.min(jnp.where(goes, value, NONE))
    first = jnp.min(jnp.where(goes & (value == first_value), holders.job, nobody))
    before = (first_value < rank) | ((first_value == rank) & (first < job))
    suspends = ~asks & (first < nobody) & (~runs | before)
    decides = ~asks & ~suspends & runs
    begun = is_open(plan, nobody)
    order = plan.coming.T.reshape(-1)
    ready = order[jnp.argmax(order != nobody)]

    def only(condition: Array, who: Array) -> Array:
        return jnp.where(condition, who, nobody).astype(jnp.int32)

    return Move(
        starts=only(~asks & ~suspends & ~(runs & begun), jnp.where(runs, only(fits, job), ready)),
        suspended=only(suspends, first),
        chosen=only(decides & fits & begun, job),
        leaves=jnp.where(asks, only(~is_left, asked), only(decides & ~fits, last)),
        stays=only(asks & is_left, asked),
    )


def planned(
    locality: Locality,
    plan: Plan,
    move: Move,
    holders: Array,
    free: Array,
    taken: Array,
    nobody: int,
) -> Plan:
    """The plan after a move.

    Args:
      locality: what fits.
      plan: the plan before it.
      move: the move.
      holders: int32 ``[M, S]``, the running job of each GPU; no job where nobody runs.
      free: int32 ``[S]``, what is ``left_over`` before it.
      taken: int32 ``[S]``, the GPUs of each server that the chosen job will take, if one is.
      nobody: the number of no job.
    """

    def of(who: Array) -> Array:
        return (holders == who) & (who < nobody)

    def with_chosen() -> Array:
        empty = plan.coming == nobody
        if locality == "any":
            order = jnp.cumsum(empty.T.reshape(-1), dtype=jnp.int32).reshape(empty.T.shape).T
            claimed = empty & (order <= jnp.sum(taken))
        else:
            claimed = empty & (jnp.cumsum(empty, axis=0, dtype=jnp.int32) <= taken)
        return jnp.where(claimed, move.chosen, plan.coming)

    chooses = move.chosen < nobody
    coming = jax.lax.cond(chooses, with_chosen, lambda: plan.coming)
    rest = free - taken
    if locality == "any":
        rest = jnp.full_like(rest, jnp.sum(rest))
    asked = jnp.where(rest > 0, ASKED, LEAVES)  # of a full server nobody need be asked
    leaving = jnp.where(chooses & (plan.leaving != STAYS), asked, plan.leaving)
    leaving = jnp.where(of(move.leaves), LEAVES, leaving)
    leaving = jnp.where(of(move.stays) | of(move.suspended), STAYS, leaving)
    return Plan(leaving, jnp.where(coming == move.starts, nobody, coming))


def own_place(cluster: Cluster, plan: Plan, job: Array) -> Packing:
    """The servers that a chosen job takes where locality matters."""
    taken = jnp.sum(plan.coming == job, axis=0, dtype=jnp.int32)
    full = taken == cluster.gpus_per_server
    part = (taken > 0) & ~full
    return Packing(full, part, jnp.max(jnp.where(part, taken, 0)))


def _first_asked(holders: Holders, asked: Array, nobody: int) -> Array:
    """The first in order of those that are asked, of victims by waste who wastes most; or n."""
    asked &= holders.value == jnp.min(jnp.where(asked, holders.value, NONE))
    if holders.waste is not None:
        asked &= holders.waste == jnp.max(jnp.where(asked, holders.waste, -1))
    return jnp.min(jnp.where(asked, holders.job, nobody)).astype(jnp.int32)


def to_clear(
    cluster: Cluster, free: Array, available: Array, num_gpus: Array
) -> tuple[Array, Array]:
    """What a job that does not fit yet needs next, and the servers that can be cleared for it.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      available: int32 ``[S]``, GPUs of each server that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      Free GPUs of one server, int32 scalar, and which have fewer but could have as many, ``[S]``.
    """
    full = cluster.gpus_per_server
    whole = jnp.sum(free == full, dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    return needed, (free < needed) & (available >= needed)


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
