"""Several devices: a mesh, the layout of arrays on it, and computations on each device alone.

A mesh has two axes, ``seeds`` and ``envs``; one of them is longer than 1. It is the ambient mesh
(:func:`on`), so that code is the same for one device and for many::

    environments   split over ``envs``; each device steps its own (:func:`over_environments`)
    rollouts       split likewise along their axis of environments
    learners       parameters, optimiser and counters on every device; minibatches split
                   (:func:`split`), so that gradients are averaged over devices
    replay         split along the axes in a learner's ``layout`` (:func:`split_layout`)
    evaluation     episodes split over all devices (:func:`over_episodes`)

Without a mesh, and on a mesh of one device, every function here returns its input unchanged.

Axes: ``B`` batch of environments, ``E`` episodes, ``N`` seeds.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, counted
from jaxsched.types import PyTree

Shard = Literal["envs", "seeds"]
SEEDS, ENVS = "seeds", "envs"
WHOLE = PartitionSpec()

Function = Callable[[PyTree, PyTree], PyTree]


def make_mesh(num_devices: int | None, shard: Shard = "envs") -> Mesh | None:
    """A mesh over the first devices, as many of each process.

    Args:
      num_devices: number of devices; None: all.
      shard: the axis to split over them.

    Returns:
      The mesh; None for one device.

    Raises:
      JaxschedError: more devices than exist, or not as many of each process.
    """
    present, processes = jax.devices(), jax.process_count()
    num = len(present) if num_devices is None else num_devices
    if shard not in get_args(Shard):
        raise JaxschedError(
            f"{argument('shard')} is {shard!r}; accepted: {', '.join(map(str, get_args(Shard)))}"
        )
    if num > len(present):
        raise JaxschedError(
            f"{argument('devices')} is {num}; there {'is' if len(present) == 1 else 'are'} "
            f"{counted(len(present), present[0].platform.upper() + ' device')}"
        )
    if num % processes:
        raise JaxschedError(
            f"{argument('devices')} is {num}; it must be a multiple of {processes} processes"
        )
    if num == 1:
        return None
    each = num // processes
    by_process = [[d for d in present if d.process_index == p] for p in range(processes)]
    if any(len(own) < each for own in by_process):
        fewest = min(len(own) for own in by_process)
        raise JaxschedError(
            f"{argument('devices')} is {num}, {each} of each process; one has only "
            f"{counted(fewest, 'device')}"
        )
    chosen = [device for own in by_process for device in own[:each]]
    shape = (1, num) if shard == ENVS else (num, 1)
    axes = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh(shape, (SEEDS, ENVS), axis_types=axes, devices=chosen)


@contextlib.contextmanager
def on(mesh: Mesh | None) -> Iterator[None]:
    """A context in which programs run on this mesh, or on one device if it is None."""
    if mesh is None:
        yield
        return
    with jax.set_mesh(mesh):
        yield


def num_parts(*axes: str) -> int:
    """Number of devices over which the ambient mesh splits these axes; 1 without a mesh.

    Also 1 inside :func:`over_environments` and the like, where each device is alone.
    """
    mesh = jax.sharding.get_abstract_mesh()
    shares = {
        name: size
        for name, size, kind in zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
        if kind == AxisType.Auto
    }
    return int(np.prod([shares.get(axis, 1) for axis in axes], dtype=int))


def check_divisible(
    mesh: Mesh | None, *, num_envs: int, num_seeds: int, seeds: str = "number of seeds"
) -> None:
    """Refuse numbers of environments or seeds that the devices cannot share equally.

    Args:
      mesh: the devices; None: one.
      num_envs: environments.
      num_seeds: parallel trainings.
      seeds: the word for them in the message.

    Raises:
      JaxschedError: one line with what was found and what is accepted.
    """
    for axis, name, number in ((ENVS, "num_envs", num_envs), (SEEDS, seeds, num_seeds)):
        parts = 1 if mesh is None else mesh.shape[axis]
        if number % parts:
            raise JaxschedError(
                f"{name} is {number}; {parts} devices need a multiple of {parts} (or fewer "
                f"devices: {argument('devices')})"
            )


def over_environments(function: Function, batched: PyTree, shared: PyTree = ()) -> PyTree:
    """``function(batched, shared)``, on each device for its own environments alone.

    Devices do not wait for each other inside, not even in loops.

    Args:
      function: its results have leaves ``[B, ...]``, and each row depends on its own row only.
      batched: leaves ``[B, ...]``.
      shared: inputs of all environments.
    """
    return _alone(function, batched, shared, ENVS)


def over_episodes(function: Function, batched: PyTree, shared: PyTree = ()) -> PyTree:
    """``over_environments`` for episodes ``[E, ...]``, over all devices; results on each."""
    parts = num_parts(SEEDS, ENVS)
    if parts == 1:
        return function(batched, shared)
    num = jax.tree.leaves(batched)[0].shape[0]
    rows = np.minimum(np.arange(-(-num // parts) * parts), num - 1)  # padded with the last
    padded = jax.tree.map(lambda x: x[rows], batched)
    result = _alone(function, padded, shared, (SEEDS, ENVS))
    return _constrained(jax.tree.map(lambda x: x[:num], result), WHOLE)


def over_seeds(function: Function, batched: PyTree, shared: PyTree = ()) -> PyTree:
    """``over_environments`` for seeds, leaves ``[N, ...]``."""
    return _alone(function, batched, shared, SEEDS)


def split(tree: PyTree, axis: int = 0) -> PyTree:
    """Divide rows along ``axis`` of all leaves over the axis ``envs`` of the mesh.

    Results computed from them are divided as well, and sums over them are sums over devices.
    """
    if num_parts(ENVS) == 1:
        return tree
    return _constrained(tree, PartitionSpec(*[None] * axis, ENVS))


def whole(tree: PyTree) -> PyTree:
    """All leaves on every device, which may cost a transfer."""
    return tree if num_parts(SEEDS, ENVS) == 1 else _constrained(tree, WHOLE)


def whole_layout(tree: PyTree) -> PyTree:
    """The layout (a tree of ``PartitionSpec``) with all leaves on every device."""
    return jax.tree.map(lambda _: WHOLE, tree)


def split_layout(tree: PyTree, *axes: int) -> PyTree:
    """The layout that divides each leaf along the first of these axes that it can.

    Where no axis is a multiple of the number of devices, the leaf is on every device.
    """
    parts = num_parts(ENVS)

    def of(leaf: Any) -> PartitionSpec:
        for axis in axes:
            if leaf.shape[axis] % parts == 0:
                return PartitionSpec(*[None] * axis, ENVS)
        return WHOLE

    return jax.tree.map(of, tree)


def laid_out(tree: PyTree, layout: PyTree, *, stacked: bool = False) -> PyTree:
    """A tree with leaves in this layout; ``stacked``: behind an axis of seeds."""
    if num_parts(SEEDS, ENVS) == 1:
        return tree
    return jax.tree.map(_constrained, tree, _of_seeds(layout, stacked))


def described(tree: PyTree, layout: PyTree, *, stacked: bool = False) -> PyTree:
    """``jax.ShapeDtypeStruct`` leaves in this layout on the ambient mesh."""
    if num_parts(SEEDS, ENVS) == 1:
        return tree
    mesh = jax.sharding.get_mesh()
    return jax.tree.map(
        lambda leaf, spec: leaf.update(sharding=NamedSharding(mesh, spec)),
        tree,
        _of_seeds(layout, stacked),
    )


def on_host(tree: PyTree) -> PyTree:
    """Leaves as NumPy arrays, typed keys as their data; called by all processes together.

    Leaves that are split over processes are gathered one by one.
    """
    from jax.experimental import multihost_utils

    def of(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array):
            leaf = key_data(leaf)
            if not (leaf.is_fully_addressable or leaf.is_fully_replicated):
                return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
        return np.asarray(leaf)

    return jax.tree.map(of, tree)


def host_like(tree: PyTree) -> PyTree:
    """NumPy arrays of the shapes of :func:`on_host`, values arbitrary."""

    def of(leaf: jax.Array) -> np.ndarray:
        data = jax.eval_shape(key_data, leaf)
        return np.empty(data.shape, data.dtype)

    return jax.tree.map(of, tree)


def placed_like(values: PyTree, target: PyTree) -> PyTree:
    """Results of :func:`on_host` with the layout and types of ``target``."""

    def of(value: np.ndarray, leaf: jax.Array) -> jax.Array:
        data = key_data(leaf)
        sharding: Any = data.sharding
        placed = jax.make_array_from_callback(data.shape, sharding, lambda index: value[index])
        return (
            placed
            if data is leaf
            else jax.random.wrap_key_data(placed, impl=jax.random.key_impl(leaf))
        )

    return jax.tree.map(of, values, target)


def everywhere(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Leaves on all devices of a mesh, so that calls send nothing; unchanged without a mesh."""
    if mesh is None:
        return tree
    with on(mesh):
        return jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, WHOLE))(tree)


def key_data(leaf: jax.Array) -> jax.Array:
    """The data of typed keys; other arrays themselves."""
    typed = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if typed else leaf


def _alone(
    function: Function, batched: PyTree, shared: PyTree, axes: str | tuple[str, ...]
) -> PyTree:
    names = (axes,) if isinstance(axes, str) else axes
    if num_parts(*names) == 1:
        return function(batched, shared)
    rows = PartitionSpec(axes)
    # Without the check of values that vary over devices, which fails for loops over random keys.
    divided = jax.shard_map(function, in_specs=(rows, WHOLE), out_specs=rows, check_vma=False)
    return divided(batched, shared)


def _of_seeds(layout: PyTree, stacked: bool) -> PyTree:
    """A layout, behind an axis of seeds if they are stacked."""
    lead = (SEEDS if num_parts(SEEDS) > 1 else None,) if stacked else ()
    return jax.tree.map(
        lambda spec: PartitionSpec(*lead, *spec),
        layout,
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )


def _constrained(tree: PyTree, spec: PartitionSpec) -> PyTree:
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spec), tree)
