"""Ordering and placement of a decision (specification, section 3.4).

Amounts are whole numbers in float32, exact below 2**20. On a GPU one kernel places all jobs of
many decisions; its blocks of environments loop over their jobs independently. An XLA loop would
launch eight kernels for each job.

Axes: ``B`` environments, ``N`` positions of the window, ``M`` machines, ``P`` = N ranks.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.ops import target
from jaxsched.ops.batching import apply_if
from jaxsched.ops.ordered import LARGEST, ordered
from jaxsched.types import Array

MOST_MACHINES = 32
"""The kernel compares all pairs of machines; with more, few environments fit into a block."""
PAIRS = 8192
"""Pairs of machines in a block, over all its environments."""
LARGEST_BLOCK = 128
WARPS = 4
OneJob = Callable[[Any, Any, Array], tuple[Array, Any]]
"""``(free, demand, affinity) -> (counts, free afterwards)`` of one job of one environment."""


def place_with_kernel(
    one_job: OneJob, free: Any, demand: Any, affinity: Array, *, interpret: bool = False
) -> Array:
    """Place the jobs of each environment one after the other.

    Args:
      one_job: places one job.
      free: free resources of each machine, leaves float32 ``[B, M]``.
      demand: of the jobs in order, leaves float32 ``[B, P]``.
      affinity: float32 ``[B, P, M]``.
      interpret: run the kernel without a GPU, slowly.

    Returns:
      Instances on each machine, int8 ``[B, P, M]``.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    batch, places, machines = affinity.shape
    width = _power_of_two(machines)
    block = min(LARGEST_BLOCK, max(1, PAIRS // width**2), _power_of_two(batch))
    rows = -(-batch // block) * block

    def filled(x: Array) -> Array:
        """Pad to whole blocks with environments that have no jobs."""
        return jnp.pad(x, [(0, rows - batch)] + [(0, 0)] * (x.ndim - 1)) if rows > batch else x

    def by_machine(x: Array, value: float) -> Array:
        """Pad to ``width`` machines with ones that have nothing free and come last."""
        ends = [(0, 0)] * (x.ndim - 1) + [(0, width - machines)]
        return filled(jnp.pad(x, ends, constant_values=value) if width > machines else x)

    frees, of_free = jax.tree.flatten(jax.tree.map(lambda x: by_machine(x, 0.0), free))
    demands, of_demand = jax.tree.flatten(jax.tree.map(filled, demand))
    many = jax.vmap(one_job)

    def kernel(*refs: Any) -> None:
        free_refs, demand_refs = refs[: len(frees)], refs[len(frees) : -2]
        affinities, counts = refs[-2:]

        def job(k: Array, left: Any) -> Any:
            wanted = jax.tree.unflatten(of_demand, [ref[:, k] for ref in demand_refs])
            found, left = many(left, wanted, affinities[:, k, :])
            counts[:, k, :] = found.astype(jnp.int8)
            return left

        start = jax.tree.unflatten(of_free, [ref[...] for ref in free_refs])
        jax.lax.fori_loop(0, places, job, start)

    def part(*sizes: int) -> Any:
        return pl.BlockSpec((block, *sizes), lambda i: (i, *[0] * len(sizes)))

    placed = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, places, width), jnp.int8),
        grid=(rows // block,),
        in_specs=[part(width)] * len(frees) + [part(places)] * len(demands) + [part(places, width)],
        out_specs=part(places, width),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=WARPS, num_stages=1),
    )(*frees, *demands, by_machine(affinity, -jnp.inf))
    return placed[:batch, :, :machines]


def on_a_gpu(one_job: OneJob, otherwise: Callable[..., Array], *given: Any) -> Array:
    """``place_with_kernel`` where the program is for an NVIDIA GPU, else ``otherwise``."""
    kernel = partial(place_with_kernel, one_job)
    found: Array = jax.lax.platform_dependent(*given, cuda=kernel, default=otherwise)
    return found


def _power_of_two(number: int) -> int:
    """The least power of two that is at least ``number``."""
    return 1 << (number - 1).bit_length()


HEAD = 4  # first jobs of the order, which all decisions of a batch place together
CHUNK = 4  # jobs that a decision with more than HEAD places in one round
HALF = 0.5  # of a unit
FEW = 32  # at most this many terms are added one by one, which compilers fuse
MOST_COMPARED = 128  # positions or machines that are compared pair by pair; more are sorted
TAIL_SHARE = 8  # a round places chunks of one in TAIL_SHARE decisions of the batch

Free = tuple[Array, Array, Array]
"""Free GPUs, CPUs and GB of each machine, float32 ``[M]``."""


class Demand(NamedTuple):
    """Requests of jobs, float32 ``[...]``; ``instances`` 0 or less stands for no job."""

    instances: Array
    gpus: Array
    cpus: Array
    mem: Array

    @property
    def requests(self) -> tuple[Array, Array, Array]:
        """GPUs, CPUs and GB of one instance."""
        return self.gpus, self.cpus, self.mem


def fitting(free: Free, demand: Demand) -> Array:
    """Instances that fit on each machine, float32 ``[M, ...]``; zero requests do not count.

    Adding half a unit keeps the floor of the rounded quotient exact.
    """
    rooms = []
    for amount, request in zip(free, demand.requests, strict=True):
        inverse = inverse_of_request(request)
        rooms.append(jnp.expand_dims(amount + HALF, range(1, 1 + inverse.ndim)) * inverse)
    return jnp.floor(reduce(jnp.minimum, rooms))


def can_place(free: Free, demand: Demand) -> Array:
    """Whether all instances fit at once, bool ``[...]``."""
    if free[0].shape[0] > FEW:
        room = jnp.sum(fitting(free, demand), axis=0)
    else:
        inverses = [inverse_of_request(request) for request in demand.requests]
        machines = zip(*(amount + HALF for amount in free), strict=True)
        room = reduce(jnp.add, [_fitting_one(machine, inverses) for machine in machines])
    return (demand.instances > 0) & (room >= demand.instances)


def inverse_of_request(request: Array) -> Array:
    """The factor from free amount to instances that fit; 1e6 for a zero request."""
    return jnp.where(request > 0, 1.0 / jnp.maximum(request, 1.0), 1e6)


def _fitting_one(machine: Sequence[Array], inverses: Sequence[Array]) -> Array:
    """Instances that fit on one machine; ``machine`` is its free amounts plus half a unit."""
    rooms = [amount * inverse for amount, inverse in zip(machine, inverses, strict=True)]
    return jnp.floor(reduce(jnp.minimum, rooms))


def place(free: Free, demand: Demand, affinity: Array) -> Array:
    """Put one job on the machines of the highest affinity, ties to the lower index.

    Args:
      free: free resources of the machines.
      demand: of the job, scalars.
      affinity: float ``[M]``, without NaN.

    Returns:
      float32 ``[M]``, instances on each machine; all 0 where the job does not fit as a whole.
    """
    fit = fitting(free, demand)
    earlier = fitting_earlier(fit, affinity)
    fits = (jnp.sum(fit) >= demand.instances) & (demand.instances > 0)
    wanted = jnp.where(fits, demand.instances, 0.0)
    return jnp.clip(wanted - earlier, 0.0, fit)


def fitting_earlier(fit: Array, affinity: Array) -> Array:
    """Instances that fit on the machines preferred to each one, float32 ``[M]``."""
    if fit.shape[-1] > MOST_COMPARED:
        order = jnp.argsort(-ordered(affinity), stable=True)
        before = jnp.cumsum(jnp.pad(fit[order[:-1]], (1, 0)))
        return jnp.zeros_like(fit).at[order].set(before, unique_indices=True)
    index = jnp.arange(fit.shape[-1], dtype=jnp.int32)
    higher = affinity[:, None] > affinity[None, :]
    tie = (affinity[:, None] == affinity[None, :]) & (index[:, None] < index[None, :])
    return jnp.sum(jnp.where(higher | tie, fit[:, None], 0.0), axis=0)


def take(free: Free, demand: Demand, counts: Array) -> Free:
    """Free resources after placing ``counts`` (float32 ``[M]``) instances of a job."""
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
    key = apply_if(  # kept apart from what follows: compilers would repeat it for every pair
        jnp.any(member),
        lambda _, given: jnp.where(given[1], ordered(given[0]), -LARGEST),
        jnp.full(priority.shape, -LARGEST, jnp.int32),
        (jax.lax.stop_gradient(priority), member),  # learners may differentiate priorities
    )
    if key.shape[0] > MOST_COMPARED:
        return inverse_of(jnp.argsort(-key, stable=True).astype(jnp.int32))
    index = np.arange(key.shape[0], dtype=np.int32)
    not_after = key[:, None] - (index[None, :] < index[:, None])
    return jnp.sum(key[None, :] > not_after, axis=-1, dtype=jnp.int32)


def inverse_of(rank: Array) -> Array:
    """The position at each rank, int32 ``[P]``, from the positions' ranks ``[N]``."""
    index = jnp.arange(rank.shape[0], dtype=jnp.int32)
    if rank.shape[0] > MOST_COMPARED:
        return jnp.zeros_like(rank).at[rank].set(index, unique_indices=True)
    there = jnp.where(rank[None, :] == index[:, None], index[None, :], 0)
    return jnp.sum(there, axis=-1, dtype=jnp.int32)


def rows_in_turn(free: Free, demand: Demand, rank: Array, row: Callable[[Free], Array]) -> Array:
    """Affinities from the resources that are free when each job is placed, after earlier jobs.

    Args:
      free: free resources of the machines.
      demand: of the jobs, leaves ``[N]``.
      rank: int32 ``[N]``, their ranks in the order.
      row: maps free resources to affinities ``[M]``.

    Returns:
      float32 ``[N, M]``.
    """

    def body(free: Free, job: Demand) -> tuple[Free, Array]:
        affinity = row(free)
        return take(free, job, place(free, job, affinity)), affinity

    in_turn = jax.tree.map(lambda x: x[inverse_of(rank)], demand)
    return jax.lax.scan(body, free, in_turn)[1][rank]


def place_in_order(free: Free, demand: Demand, affinity: Array, number: Array) -> Array:
    """Place jobs one after the other on the resources that earlier jobs leave free.

    In a batch most decisions place a few jobs and some place many: the first ``HEAD`` jobs are
    placed in all decisions at once, the rest only in those in which another job still fits. On
    other devices than a CPU all jobs are placed in turn: the host does not know the rounds left.

    Args:
      free: free resources of the machines.
      demand: of the jobs in order, leaves ``[P]``.
      affinity: float ``[P, M]``, in the same order, without NaN.
      number: int32, how many jobs to try.

    Returns:
      Instances on each machine, int8 ``[P, M]``; all 0 where not placed or not tried.
    """
    tried = jnp.arange(affinity.shape[0], dtype=jnp.int32) < number
    demand = demand._replace(instances=jnp.where(tried, demand.instances, 0.0))
    return _place_all(free, demand, affinity, number)


def _place_one(free: Free, demand: Demand, affinity: Array) -> tuple[Array, Free]:
    """Instances of a job, float32 ``[M]``, and free resources afterwards."""
    counts = place(free, demand, affinity)
    return counts, take(free, demand, counts)


def _place_some(free: Free, demand: Demand, affinity: Array) -> tuple[Free, Array]:
    """Free resources afterwards, and instances int8 ``[P, M]``."""

    def body(free: Free, job: tuple[Demand, Array]) -> tuple[Free, Array]:
        counts, free = _place_one(free, *job)
        return free, counts.astype(jnp.int8)

    return jax.lax.scan(body, free, (demand, affinity))


def _place_each(free: Free, demand: Demand, affinity: Array) -> Array:
    """Instances int8 ``[B, P, M]`` of many decisions, leaves ``[B, ...]``."""
    return jax.vmap(_place_some)(free, demand, affinity)[1]


def _place_chunk(
    fits: Array, free: Free, demand: Demand, affinity: Array
) -> tuple[Free, Array, Array, Array]:
    """Place the first ``CHUNK`` of the jobs that fit.

    Args:
      fits: bool ``[P]``, jobs that are not placed and would fit.
      free: free resources of the machines.
      demand: leaves ``[P]``.
      affinity: float ``[P, M]``.

    Returns:
      Free resources afterwards, ``fits`` then, the ranks of the chunk's jobs (int32 ``[CHUNK]``, P
      for no job), and their instances, int8 ``[CHUNK, M]``.
    """
    size = fits.shape[0]
    turn = jnp.cumsum(fits, dtype=jnp.int32)
    wanted, place = np.arange(1, CHUNK + 1, dtype=np.int32), np.arange(size, dtype=np.int32)
    chosen = fits & (turn == wanted[:, None])  # [CHUNK, P]
    at = jnp.sum(jnp.where(chosen, place - size, 0), axis=-1, dtype=jnp.int32) + size
    demand_at, affinity_at = jax.tree.map(lambda x: x.at[at].get(mode="clip"), (demand, affinity))
    instances = jnp.where(at < size, demand_at.instances, 0.0)
    free, counts = _place_some(free, demand_at._replace(instances=instances), affinity_at)
    return free, fits & (turn > CHUNK) & can_place(free, demand), at, counts


@jax.custom_batching.custom_vmap
def _place_all(free: Free, demand: Demand, affinity: Array, number: Array) -> Array:
    del number
    return _place_some(free, demand, affinity)[1]


@_place_all.def_vmap
def _place_batch(
    axis_size: int, in_batched: list, free: Free, demand: Demand, affinity: Array, number: Array
) -> tuple[Array, bool]:
    """All decisions of a batch: first ``HEAD`` jobs of each, then rounds of ``CHUNK`` jobs."""

    def batched(value: Array, is_batched: bool) -> Array:
        return value if is_batched else jnp.broadcast_to(value, (axis_size, *value.shape))

    inputs = (free, demand, affinity, number)
    free, demand, affinity, number = jax.tree.map(batched, inputs, tuple(in_batched))
    places = affinity.shape[1]
    group = -(-axis_size // TAIL_SHARE)
    known = isinstance(axis_size, int)  # false in exports, whose batch size is symbolic
    if known and target.platform() == "gpu" and affinity.shape[-1] <= MOST_MACHINES:
        return on_a_gpu(_place_one, _place_each, free, demand, affinity), True
    if places <= HEAD or not known or group == axis_size or not target.on_cpu():
        return _place_each(free, demand, affinity), True

    head, tail = (
        jax.tree.map(lambda x, part=part: x[:, part], (demand, affinity))
        for part in (slice(HEAD), slice(HEAD, None))
    )
    free, counts = jax.vmap(_place_some)(free, *head)
    unplaced = jnp.zeros((axis_size, places - HEAD, affinity.shape[-1]), jnp.int8)

    def waits(carry: tuple[Array, Free, Array]) -> Array:
        return jnp.any(carry[0])

    def some(carry: tuple[Array, Free, Array]) -> tuple[Array, Free, Array]:
        fits, free, placed = carry
        turn = jnp.cumsum(jnp.any(fits, axis=-1), dtype=jnp.int32)
        lanes = jnp.searchsorted(turn, jnp.arange(1, group + 1, dtype=jnp.int32))
        theirs = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), (fits, free, *tail))
        left, now, at, counts = jax.vmap(_place_chunk)(*theirs)
        # With fewer decisions left than ``group``, surplus indices are out of range and dropped.
        fits = fits.at[lanes].set(now, mode="drop")
        free = jax.tree.map(lambda x, new: x.at[lanes].set(new, mode="drop"), free, left)
        return fits, free, placed.at[lanes[:, None], at].set(counts, mode="drop")

    fits = jax.vmap(can_place)(free, tail[0])
    _, _, rest = jax.lax.while_loop(waits, some, (fits, free, unplaced))
    return jnp.concatenate([counts, rest], axis=1), True
