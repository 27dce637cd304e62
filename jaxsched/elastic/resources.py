"""What fits on a server, which server is taken, and shares of the cluster; all integer and exact.

The free resources of a server are packed into one int32, one field per resource with a guard bit
above it: a task fits if subtracting its packed need from the free amounts, guards set, clears no
guard. One subtraction and one comparison replace three of each.

Axes: ``S`` servers, ``R`` = 3 resources (GPUs, CPU cores, GB of memory).
"""

from math import lcm
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.elastic.models import RESOURCES
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.types import Array

Integers = npt.NDArray[np.int32]
NO_SERVER = 2**31 - 1  # key of ``least_loaded`` where no server can host the task


class Layout(NamedTuple):
    """How resource vectors are packed into an int32 (static).

    Attributes:
      capacity: of one server, per resource.
      shifts: lowest bit of each field.
      guards: int with the guard bit of every field set.
    """

    capacity: tuple[int, ...]
    shifts: tuple[int, ...]
    guards: int

    def pack(self, vectors: npt.ArrayLike) -> Integers:
        """Resource vectors ``[..., R]`` as int32 ``[...]``.

        Amounts beyond what a field holds are cut to the guard bit, more than any server has.
        """
        limits = [1 << c.bit_length() for c in self.capacity]
        values = np.minimum(np.asarray(vectors, np.int64), limits)
        return np.sum(values << np.array(self.shifts), axis=-1).astype(np.int32)

    @property
    def full(self) -> int:
        """An empty server's packed free resources."""
        return int(self.pack(self.capacity))

    def unpack(self, packed: Array) -> Array:
        """Packed amounts int32 ``[...]`` as vectors ``[..., R]``."""
        widths = [c.bit_length() for c in self.capacity]
        fields = [
            (packed >> shift) & ((1 << width) - 1)
            for shift, width in zip(self.shifts, widths, strict=True)
        ]
        return jnp.stack(fields, axis=-1)

    def fits(self, free: Array, need: Array | Integers | int) -> Array:
        """Whether ``need`` is at most ``free`` in every resource (packed, broadcast), bool."""
        return (((free | self.guards) - need) & self.guards) == self.guards


def layout(capacity: tuple[int, ...]) -> Layout:
    """The packing for servers of this capacity.

    Raises:
      JaxschedError: a capacity is negative, or the amounts need more than 31 bits.
    """
    if any(c < 0 for c in capacity) or not any(capacity):
        raise JaxschedError(
            f"a server's capacity is {capacity}; accepted: {', '.join(RESOURCES)}, none negative "
            "and not all 0"
        )
    shifts, guards, bit = [], 0, 0
    for amount in capacity:
        shifts.append(bit)
        bit += amount.bit_length() + 1
        guards |= 1 << (bit - 1)
    if bit > 31:
        raise JaxschedError(
            f"a server's capacity of {capacity} needs {bit} bits; accepted: at most 31 "
            "(one more than each amount has, together)"
        )
    return Layout(tuple(capacity), tuple(shifts), guards)


def integer_weights(totals: tuple[int, ...]) -> tuple[int, Integers]:
    """``U`` = least common multiple of the non-zero totals, and ``U / total`` (0 for none).

    With a server's capacities the weights turn used resources into its load; with the cluster's
    totals, a usage times its weight is its share of the cluster in units of ``1 / U``.

    Raises:
      JaxschedError: ``U`` does not fit in int32.
    """
    unit = lcm(*(t for t in totals if t))
    if unit >= 2**31:
        raise JaxschedError(
            f"the least common multiple of {totals} is {unit}; accepted: amounts for which it is "
            "below 2**31"
        )
    return unit, np.array([unit // t if t else 0 for t in totals], np.int32)


def dominant_amount(needs: npt.ArrayLike, totals: tuple[int, ...]) -> Integers:
    """How much of its dominant resource a task takes (ties: first resource), ``[...]``."""
    needs = np.asarray(needs, np.int32)
    _, weights = integer_weights(totals)
    chosen = np.argmax(needs * weights, axis=-1)
    return np.take_along_axis(needs, chosen[..., None], axis=-1)[..., 0]


def least_loaded(free: Array, load: Array, need: Array | int, cluster: Layout) -> Array:
    """Key of the least loaded server on which a task fits, ties to the lower index.

    Args:
      free: int32 ``[S]``, packed free resources.
      load: int32 ``[S]``, used resources times the weights of the server's capacity.
      need: packed need of the task.
      cluster: the packing.

    Returns:
      int32 scalar ``load * S + server``, or ``NO_SERVER``; the server is ``key % S``.
    """
    num_servers = free.shape[-1]
    keys = load * num_servers + jnp.arange(num_servers, dtype=jnp.int32)
    return jnp.min(jnp.where(cluster.fits(free, need), keys, NO_SERVER), axis=-1)


def find_unfit(
    table: JobTable,
    worker_needs: Integers,
    ps_needs: Integers,
    capacity: tuple[int, ...],
    num_servers: int,
    *,
    needs_ps: bool = True,
) -> tuple[int, str] | None:
    """The first job that the cluster could never train, and why; or None.

    Args:
      table: jobs with a ``model`` column.
      worker_needs: ``[M, R]``.
      ps_needs: ``[M, R]``.
      capacity: of one server.
      num_servers: S.
      needs_ps: false with all-reduce, where jobs have workers only.
    """
    room = np.array(capacity)
    worker, ps = worker_needs[table["model"]], ps_needs[table["model"]]
    tasks = [worker, ps] if needs_ps else [worker]
    too_large = np.any([np.any(task > room, axis=-1) for task in tasks], axis=0)
    if too_large.any():
        return int(np.argmax(too_large)), "needs a task that fits on no server"
    if num_servers == 1 and needs_ps:
        crowded = np.any(worker + ps > room, axis=-1)
        if crowded.any():
            return int(np.argmax(crowded)), "cannot run one worker and one parameter server"
    return None
