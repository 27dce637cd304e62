"""Conditions and numbers of rounds that stay scalar when they are vectorised.

``jax.lax.cond`` under ``vmap`` computes its branch for every copy at every call. Where all copies
tend to need the branch at the same calls, it pays to skip it whenever none does.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.ops import target
from jaxsched.types import Array, PyTree


def select(condition: Array, on_true: PyTree, on_false: PyTree) -> PyTree:
    """Choose between two pytrees of equal structure by a scalar condition, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def in_single(tree: PyTree) -> PyTree:
    """The same with floats in 32 bits, whatever JAX' own precision is (``jax_enable_x64``)."""

    def single(leaf: Array) -> Array:
        return leaf.astype(jnp.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(single, tree)


def unbatched(function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
    """A function of batches, leaves ``[B, ...]``, applied to single items, leaves ``[...]``."""
    return jax.tree.map(lambda x: x[0], function(*jax.tree.map(lambda x: x[None], trees)))


def apply_if(
    condition: Array,
    function: Callable[[PyTree, Any], PyTree],
    tree: PyTree,
    given: Any,
    *,
    heavy: bool = False,
) -> PyTree:
    """``function(tree, given)`` where ``condition`` holds, ``tree`` elsewhere.

    The results are those of ``jax.lax.cond`` however often it is vectorised. The function is not
    run at all while the condition holds for no copy, unless that is dearer than to run it: where
    a program is not for a processor, only what is heavy is asked for first, which is a trip to the
    host.

    Args:
      condition: bool scalar.
      function: gives a tree of the structure, shapes and dtypes of ``tree``.
      tree: what is changed.
      given: what the function reads besides.
      heavy: whether the function takes longer than such a trip.
    """
    if not (heavy or target.on_cpu()):
        return select(condition, function(tree, given), tree)

    def where(condition: Array, tree: PyTree, given: Any) -> PyTree:
        return select(condition, function(tree, given), tree)

    return _gated(where)(condition, condition, tree, given)


def materialise(number: Array) -> Array:
    """The int32 or float scalar itself, computed once, whatever reads it.

    XLA's CPU compiler repeats what leads to a number in everything that reads it, up to the last
    reduction; so this is one. It pays where many arrays are chosen by the outcome of much; for a
    number that leads to few it costs more than it saves. On other devices it would be a kernel.
    """
    if not target.on_cpu():
        return number
    floats = jnp.issubdtype(number.dtype, jnp.floating)
    least = -jnp.inf if floats else -(2**31) + 1
    return jnp.max(jnp.stack([number, jnp.asarray(least, number.dtype)]))


def materialise_flags(*flags: Array) -> tuple[Array, ...]:
    """Bool scalars themselves, computed once together, see :func:`materialise`."""
    if not target.on_cpu():
        return flags
    word = materialise(
        sum((flag.astype(jnp.int32) << k for k, flag in enumerate(flags)), jnp.int32(0))
    )
    return tuple((word >> k) & 1 > 0 for k in range(len(flags)))


def materialise_flags_by_quotient(*flags: Array) -> tuple[Array, ...]:
    """As :func:`materialise_flags`, where much leads to the flags and little reads them.

    XLA does not repeat quotients either, and unlike a reduction of two numbers it computes them,
    and what leads to them, for whole vectors of copies.
    """
    if not target.on_cpu():
        return flags

    def kept(flag: Array) -> Array:
        number = flag.astype(jnp.float32)
        return number / (number + 1.0) > 0.0

    return tuple(kept(flag) for flag in flags)


@jax.custom_batching.custom_vmap
def max_across_batch(number: Array) -> Array:
    """The scalar itself; vectorised, the largest over all copies, one number for all of them.

    For numbers of rounds that may be too many but not too few.
    """
    return number


@max_across_batch.def_vmap
def _(axis_size: int, batched: Any, number: Array) -> tuple[Array, bool]:
    del axis_size, batched
    return max_across_batch(jnp.max(number)), False


def any_across_batch(condition: Array) -> Array:
    """The bool scalar itself; vectorised, whether it holds for any copy, one answer for all.

    For loops that go on until all copies are done: as their condition no axis of copies splits it,
    and no copy's numbers need to be held back while others go on.
    """
    return max_across_batch(condition.astype(jnp.int32)) > 0


def _gated(where: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """``where(condition, tree, given)`` behind a condition that no axis of copies splits."""

    @jax.custom_batching.custom_vmap
    def run(any_holds: Array, condition: Array, tree: PyTree, given: Any) -> PyTree:
        # A conditional copies a tree that it leaves as it is, a loop of no rounds does not.
        return jax.lax.while_loop(
            lambda carry: carry[0],
            lambda carry: (jnp.zeros_like(any_holds), where(condition, carry[1], given)),
            (any_holds, tree),
        )[1]

    @run.def_vmap
    def _(
        axis_size: int, batched: Any, any_holds: Array, condition: Array, tree: PyTree, given: Any
    ) -> tuple[PyTree, Any]:
        _, condition_in, tree_in, given_in = batched
        repeat = lambda x: jnp.broadcast_to(x, (axis_size, *jnp.shape(x)))  # noqa: E731
        condition = condition if condition_in else repeat(condition)
        tree = jax.tree.map(lambda x, known: x if known else repeat(x), tree, tree_in)
        axes = jax.tree.map(lambda known: 0 if known else None, given_in)
        result = _gated(jax.vmap(where, (0, 0, axes)))(jnp.any(any_holds), condition, tree, given)
        return result, jax.tree.map(lambda _: True, result)

    return run
