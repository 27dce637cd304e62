"""All jobs of many decisions placed by one kernel of a GPU.

As a loop of XLA's, each job of an order is eight kernels, whatever it computes. Here a block of
environments goes through its jobs by itself; the rule for one job is the one of ``placement``.

Axes: ``B`` environments, ``P`` jobs in order, ``M`` machines.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.types import Array

MOST_MACHINES = 32
"""Pairs of them are compared at once; with more, few environments fit into a block."""
PAIRS = 8192
"""Of machines, in a block, all its environments together."""
LARGEST_BLOCK = 128
WARPS = 4
OneJob = Callable[[Any, Any, Array], tuple[Array, Any]]
"""``(free, demand, affinity) -> (counts, what is left)`` of one job of one environment."""


def place_with_kernel(
    one_job: OneJob, free: Any, demand: Any, affinity: Array, *, interpret: bool = False
) -> Array:
    """Place the jobs of each environment one after the other.

    Args:
      one_job: the rule.
      free: of each machine, leaves float32 ``[B, M]``.
      demand: of the jobs in order, leaves float32 ``[B, P]``.
      affinity: float32 ``[B, P, M]``.
      interpret: run it without a GPU, slowly.

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
        """Up to whole blocks, by environments without jobs."""
        return jnp.pad(x, [(0, rows - batch)] + [(0, 0)] * (x.ndim - 1)) if rows > batch else x

    def by_machine(x: Array, value: float) -> Array:
        """Machines that fill up have nothing free and come last."""
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
    """``place_with_kernel`` where the program is for a GPU of NVIDIA's, else another function."""
    kernel = partial(place_with_kernel, one_job)
    found: Array = jax.lax.platform_dependent(*given, cuda=kernel, default=otherwise)
    return found


def _power_of_two(number: int) -> int:
    """The least one that is not below a number."""
    return 1 << (number - 1).bit_length()
