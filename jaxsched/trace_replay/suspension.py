"""What it is to suspend a job: accounts of what jobs have done, and who makes way for whom.

Replays of the orders that suspend jobs and the environment of rigid jobs go by the same functions.
Axes: ``S`` servers, ``M`` GPUs per server, ``K`` contenders. A rank is ``(value, job number)``,
lower first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.packing import Packing
from jaxsched.trace_replay.cluster import (
    Cluster,
    available,
    first_server,
    kind_for,
    largest_fit,
    of_kind,
    place,
    size_of,
)
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
    """What an instant has settled so far, before anybody is suspended; ``[M, S]``.

    Attributes:
      leaving: bool, the GPU's running job makes way.
      coming: int32, the chosen job that will take a GPU of this server (of the cluster, where
        locality does not matter), no job elsewhere. Which GPUs of the server it takes is open.
    """

    leaving: Array
    coming: Array


class Move(NamedTuple):
    """What an instant does next: jobs, int32 scalars, at most one is somebody."""

    starts: Array  # starts now
    suspended: Array  # is suspended now
    chosen: Array  # will start once those that make way are suspended


def no_plan(cluster: Cluster, nobody: int) -> Plan:
    """Nothing is settled."""
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    return Plan(jnp.zeros(gpus, bool), jnp.full(gpus, nobody, jnp.int32))


def no_move(nobody: int) -> Move:
    """Nothing happens."""
    return Move(*(jnp.int32(nobody) for _ in Move._fields))


def is_open(plan: Plan, nobody: int) -> Array:
    """Whether anything is settled that has not been done, bool scalar."""
    return jnp.any(plan.leaving | (plan.coming != nobody))


def left_over(plan: Plan, is_free: Array, nobody: int) -> Array:
    """GPUs of each server that nobody holds who stays and no chosen job will take, int32 ``[S]``.

    With locality ``any`` only the sum has a meaning.
    """
    return jnp.sum(is_free | plan.leaving, axis=0, dtype=jnp.int32) - _claimed(plan, nobody)


def after(plan: Plan, move: Move, holders: Array, nobody: int) -> Plan:
    """The plan once somebody has been suspended or has started.

    Args:
      plan: with what was settled.
      move: what was done.
      holders: int32 ``[M, S]``, the running job of each GPU, or its last one.
      nobody: the number of no job.
    """
    stopped = (holders == move.suspended) & (move.suspended < nobody)
    coming = jnp.where(plan.coming == move.starts, nobody, plan.coming)
    return Plan(plan.leaving & ~stopped, coming)


def own_place(cluster: Cluster, plan: Plan, job: Array) -> Packing:
    """The servers that a chosen job takes where locality matters."""
    taken = jnp.sum(plan.coming == job, axis=0, dtype=jnp.int32)
    full = taken == _sizes(cluster)
    part = (taken > 0) & ~full
    return Packing(full, part, jnp.max(jnp.where(part, taken, 0)))


def next_move(
    cluster: Cluster,
    locality: Locality,
    free_weight: Array,
    contenders: Contenders,
    holders: Holders,
    plan: Plan,
    nobody: int,
    *,
    equals: bool = True,
    block: bool = False,
) -> tuple[Move, Plan]:
    """What an instant does next, and what is settled then.

    The first contender that can run is chosen: it would fit, were all that come after it suspended.
    Those that make way for it are suspended once nobody before them in order can be chosen. Chosen
    jobs start last, at places of their own. Who fits while nothing is settled starts at once.

    Args:
      cluster: the cluster.
      locality: what fits.
      free_weight: int32 scalar, of ``cluster.FREE_WEIGHT``.
      contenders: who may go next; no chosen jobs.
      holders: who may have to make way.
      plan: what is settled so far.
      nobody: the number of no job.
      equals: of holders with a contender's value, those of higher numbers come after it; else none.
      block: only the first contender may go, whether it can run or not.
    """
    value, job = _first(holders, plan.leaving, nobody)
    least = jnp.min(jnp.where(contenders.exists, contenders.value, NONE))
    head = lowest(contenders, contenders.exists, nobody)
    none_before = (job < nobody) & ((value < least) | ((value == least) & (job < head)))
    suspends = no_move(nobody)._replace(suspended=job)

    def choose() -> tuple[Move, Plan]:
        wanted = _first_to_run(cluster, locality, contenders, holders, plan, nobody, equals, block)
        runs = wanted.job < nobody
        before = (value < wanted.value) | ((value == wanted.value) & (job < wanted.job))
        first_leaves = (job < nobody) & (~runs | before)
        begun = is_open(plan, nobody)
        free = left_over(plan, available(cluster, ~holders.busy), nobody)
        fits = wanted.num_gpus <= largest_fit(cluster, locality, free)
        order = plan.coming.T.reshape(-1)
        ready = order[jnp.argmax(order != nobody)]
        starts = jnp.where(runs, jnp.where(fits & ~begun, wanted.job, nobody), ready)
        chooses = ~first_leaves & runs & ~(fits & ~begun)
        move = Move(
            jnp.where(first_leaves, nobody, starts).astype(jnp.int32),
            jnp.where(first_leaves, job, nobody).astype(jnp.int32),
            jnp.where(chooses, wanted.job, nobody).astype(jnp.int32),
        )
        settled = jax.lax.cond(
            chooses,
            lambda: _chosen(cluster, locality, free_weight, wanted, holders, plan, nobody, equals),
            lambda: plan,
        )
        return move, settled

    return jax.lax.cond(none_before, lambda: (suspends, plan), choose)


def _sizes(cluster: Cluster) -> Array | int:
    """GPUs of each server, int32 ``[S]``, or of all."""
    if not cluster.kinds:
        return cluster.gpus_per_server
    return jnp.array(cluster.server_gpus, jnp.int32)


class _Wanted(NamedTuple):
    """The job that is to run, int32 scalars."""

    value: Array
    job: Array
    num_gpus: Array


def _claimed(plan: Plan, nobody: int) -> Array:
    """GPUs of each server that chosen jobs will take, int32 ``[S]``."""
    return jnp.sum(plan.coming != nobody, axis=0, dtype=jnp.int32)


def _later(holders: Holders, value: Array, job: Array, equals: bool) -> Array:
    """GPUs whose job comes after one of this rank."""
    found = holders.value > value
    if equals:
        found |= (holders.value == value) & (holders.job > job)
    return found


def _first(holders: Holders, allowed: Array, nobody: int) -> tuple[Array, Array]:
    """Value and number of the first job in order on these GPUs; ``NONE`` and n if there is none."""
    least = jnp.min(jnp.where(allowed, holders.value, NONE))
    job = jnp.min(jnp.where(allowed & (holders.value == least), holders.job, nobody))
    return least, job.astype(jnp.int32)


def _first_to_run(
    cluster: Cluster,
    locality: Locality,
    contenders: Contenders,
    holders: Holders,
    plan: Plan,
    nobody: int,
    equals: bool,
    block: bool,
) -> _Wanted:
    """The first contender that would fit, were all stopped that come after it; n if none would."""
    stays, claimed = holders.busy & ~plan.leaving, _claimed(plan, nobody)

    def count(value: Array, job: Array) -> Array:
        open_ = available(cluster, ~stays | _later(holders, value, job, equals))
        return jnp.sum(open_, axis=0, dtype=jnp.int32) - claimed

    counts = jax.vmap(count)(contenders.value, contenders.job)
    can_run = contenders.num_gpus <= largest_fit(cluster, locality, counts)
    allowed = contenders.exists & can_run
    job = lowest(contenders, contenders.exists if block else allowed, nobody)
    it = allowed & (contenders.job == job)
    return _Wanted(
        jnp.min(jnp.where(it, contenders.value, NONE)),
        jnp.where(jnp.any(it), job, nobody),
        jnp.max(jnp.where(it, contenders.num_gpus, 0)),
    )


def _chosen(
    cluster: Cluster,
    locality: Locality,
    free_weight: Array,
    wanted: _Wanted,
    holders: Holders,
    plan: Plan,
    nobody: int,
    equals: bool,
) -> Plan:
    """The plan with one more job that will start.

    While it does not fit beside those who stay, one of them makes way (``_victim``). Once it has
    its place, all that make way are asked in order whether their own GPUs are left over; then they
    stay.
    """
    is_free = available(cluster, ~holders.busy)
    later = _later(holders, wanted.value, wanted.job, equals)

    def free_of(leaving: Array) -> Array:
        return left_over(plan._replace(leaving=leaving), is_free, nobody)

    def lacks(leaving: Array) -> Array:
        return wanted.num_gpus > largest_fit(cluster, locality, free_of(leaving))

    def one_more(leaving: Array) -> Array:
        candidates = holders.busy & ~leaving & later
        free = free_of(leaving)
        victim = _victim(cluster, locality, wanted.num_gpus, holders, candidates, free)
        return leaving | (holders.busy & (holders.job == victim))

    leaving = jax.lax.while_loop(lacks, one_more, plan.leaving)
    free, empty = free_of(leaving), plan.coming == nobody
    if locality == "any":
        order = jnp.cumsum(empty.T.reshape(-1), dtype=jnp.int32).reshape(empty.T.shape).T
        claims = empty & (order <= wanted.num_gpus)
    else:
        taken = place(cluster, locality, free_weight, free, wanted.num_gpus).counts(free)
        claims = empty & (jnp.cumsum(empty, axis=0, dtype=jnp.int32) <= taken)
    coming = jnp.where(claims, wanted.job, plan.coming)

    def left(leaving: Array) -> Array:
        return left_over(Plan(leaving, coming), is_free, nobody)

    def ask(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        leaving, asked = carry
        own = holders.busy & (holders.job == _first_asked(holders, asked, nobody))
        free = left(leaving)
        if locality == "any":
            stays = jnp.sum(own) <= jnp.sum(free)
        else:
            stays = jnp.all(jnp.sum(own, axis=0) <= free)
        return leaving & ~(own & stays), asked & ~own

    rest = left(leaving)  # of a full server nobody need be asked
    some = jnp.sum(rest) > 0 if locality == "any" else rest > 0
    return Plan(
        jax.lax.while_loop(lambda carry: jnp.any(carry[1]), ask, (leaving, leaving & some))[0],
        coming,
    )


def _victim(
    cluster: Cluster,
    locality: Locality,
    num_gpus: Array,
    holders: Holders,
    candidates: Array,
    free: Array,
) -> Array:
    """Who makes way next for a job of so many GPUs, int32 scalar.

    Of the candidates on the servers to be cleared one of the largest value, the one that wastes
    least, then the last.
    """
    leaves, value = candidates, holders.value
    if locality == "strict":
        count = free + jnp.sum(candidates, axis=0, dtype=jnp.int32)
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
    return jnp.max(jnp.where(leaves, holders.job, -1))


def _first_asked(holders: Holders, asked: Array, nobody: int) -> Array:
    """The first in order of those that are asked, of victims by waste who wastes most; or n."""
    asked &= holders.value == jnp.min(jnp.where(asked, holders.value, NONE))
    if holders.waste is not None:
        asked &= holders.waste == jnp.max(jnp.where(asked, holders.waste, -1))
    return jnp.min(jnp.where(asked, holders.job, nobody)).astype(jnp.int32)


def to_clear(
    cluster: Cluster, free: Array, could_have: Array, num_gpus: Array
) -> tuple[Array, Array]:
    """What a job that does not fit yet needs next, and the servers that can be cleared for it.

    Where servers differ, those of the first kind on which it could fit.

    Args:
      cluster: the cluster.
      free: int32 ``[S]``, free GPUs of each server.
      could_have: int32 ``[S]``, GPUs of each server that the job could have.
      num_gpus: int32 scalar, GPUs of the job.

    Returns:
      Free GPUs of one server, int32 scalar, and which have fewer but could have as many, ``[S]``.
    """
    kind = kind_for(cluster, could_have, num_gpus)
    full = size_of(cluster, kind)
    whole = jnp.sum(of_kind(cluster, kind, free == full), dtype=jnp.int32)
    needed = jnp.where(whole < num_gpus // full, full, num_gpus % full)
    return needed, of_kind(cluster, kind, (free < needed) & (could_have >= needed))


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
