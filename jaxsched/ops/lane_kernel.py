"""Many steps of a function over lanes as ONE kernel of a GPU, written by Pallas for Triton.

Each thread goes through the steps of its own lane with all numbers in registers; memory is read
before the first step and for look-ups in shared arrays, and written after the last one. So this is
for small states and steps: the compiler's time grows with memory operations times operations
squared, and a state that does not fit into registers is spilled. Elsewhere than on a GPU of
NVIDIA's the kernel is interpreted, which is slow.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxsched.errors import JaxschedError
from jaxsched.ops.lanes import LaneFunction, Number, Table, is_known
from jaxsched.types import Array, PyTree

BLOCK, WARPS = 128, 4
_WORDS = (jnp.int32, jnp.uint32, jnp.float32)


def kernel_of(
    step: Callable[..., tuple[PyTree, PyTree]],
    shared: PyTree,
    begun: PyTree,
    sums: PyTree,
    *,
    block: int = BLOCK,
) -> Callable[[PyTree, Array], tuple[PyTree, PyTree]]:
    """Steps from a state, one kernel for all of them.

    Args:
      step: ``(shared, state, draw) -> (state, seen)`` of one instance; ``draw`` is a random word.
      shared: tree of arrays that all instances share; what depends on these alone is computed here.
      begun: tree of shapes and dtypes of one instance's state.
      sums: the same of ``seen``, float32 scalars, which are added up over the steps.
      block: lanes of a kernel's block, a power of two.

    Returns:
      ``(states, draws) -> (states, sums)``: leaves ``[..., B]``, draws uint32 ``[T, B]``, sums
      ``[B]``; ``B`` a multiple of ``block``.

    Raises:
      JaxschedError: the function has a primitive that no rule covers, or numbers of another type.
    """
    word = jax.ShapeDtypeStruct((), jnp.uint32)
    function = LaneFunction(step, shared, begun, word)
    numbers, arrays = list(function.shared), list(function.shared.values())
    leaves, tree = jax.tree.flatten(begun)
    for each in (*leaves, *arrays):
        if not (each.dtype in _WORDS or each.dtype == jnp.bool_ or _is_short(each.dtype)):
            raise JaxschedError(
                f"lanes: no kernel for numbers of {each.dtype}; accepted: flags, whole numbers of "
                "up to 32 bits, float32"
            )
    num_sums = len(jax.tree.leaves(sums))

    def steps(tables: Sequence[Any], draws: Any, state: Sequence[Any], out: Sequence[Any]) -> None:
        known = dict(zip(numbers, map(_table, tables, arrays), strict=True))

        def turn(at: Array, carry: tuple) -> tuple:
            state, so_far = carry
            held = [
                [_from_word(x, np.dtype(leaf.dtype)) for x in vectors]
                for vectors, leaf in zip(state, leaves, strict=True)
            ]
            found = function.of_vectors([*held, [draws[at]]], known, _emit)
            following = [list(map(_word, vectors)) for vectors in found[: len(leaves)]]
            return following, [a + b for a, [b] in zip(so_far, found[len(leaves) :], strict=True)]

        begun = [
            [ref[row] for row in range(_size(leaf))]
            for ref, leaf in zip(state, leaves, strict=True)
        ]
        zeros = [jnp.zeros(block, jnp.float32) for _ in range(num_sums)]
        ended, added = lax.fori_loop(0, draws.shape[0], turn, (begun, zeros))
        for ref, vectors in zip(out[: len(leaves)], ended, strict=True):
            for row, vector in enumerate(vectors):
                ref[row] = vector
        for ref, vector in zip(out[len(leaves) :], added, strict=True):
            ref[:] = vector

    def call(interpret: bool, draws: Array, *given: Array) -> list[Array]:
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        (num_steps, batch), flat = draws.shape, [_flat(array) for array in arrays]
        first, last = len(flat) + 1, len(flat) + 1 + len(given)

        def kernel(*refs: Any) -> None:
            steps(refs[: first - 1], refs[first - 1], refs[first:last], refs[last:])

        def columns(rows: int) -> Any:
            return pl.BlockSpec((rows, block), lambda i: (0, i))

        by_state = [columns(x.shape[0]) for x in given]
        of_states = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
        found: list[Array] = pl.pallas_call(
            kernel,
            out_shape=of_states + [jax.ShapeDtypeStruct((batch,), jnp.float32)] * num_sums,
            grid=(batch // block,),
            in_specs=[
                *(pl.BlockSpec(x.shape, lambda i: (0,)) for x in flat),
                *(columns(num_steps), *by_state),
            ],
            out_specs=by_state + [pl.BlockSpec((block,), lambda i: (i,))] * num_sums,
            input_output_aliases={first + at: at for at in range(len(given))},
            interpret=interpret,
            compiler_params=None
            if interpret
            else triton.CompilerParams(num_warps=WARPS, num_stages=1),
        )(*flat, draws, *given)
        return found

    def run(states: PyTree, draws: Array) -> tuple[PyTree, PyTree]:
        batch = draws.shape[1]
        if batch % block:
            raise JaxschedError(f"lanes: {batch} lanes are no multiple of the block of {block}")
        given = [
            _word(x).reshape(_size(leaf), batch)
            for x, leaf in zip(jax.tree.leaves(states), leaves, strict=True)
        ]
        out = lax.platform_dependent(
            draws, *given, cuda=partial(call, False), default=partial(call, True)
        )
        ended = [
            _from_word(x, np.dtype(leaf.dtype)).reshape(*leaf.shape, batch)
            for x, leaf in zip(out, leaves, strict=False)
        ]
        added = jax.tree.unflatten(jax.tree.structure(sums), out[len(leaves) :])
        return jax.tree.unflatten(tree, ended), added

    return run


def _flat(array: Array) -> Array:
    return jnp.atleast_1d(_word(array).reshape(-1))


def _size(leaf: Any) -> int:
    return int(np.prod(leaf.shape, dtype=int))


def _is_short(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.integer)) and jnp.iinfo(dtype).bits <= 16


def _word(x: Array) -> Array:
    """Numbers of 32 bits as they are, flags as int32: Triton keeps vectors of flags badly."""
    return x if x.dtype in _WORDS else x.astype(jnp.int32)


def _from_word(x: Array, dtype: np.dtype) -> Array:
    if x.dtype == dtype:
        return x
    return x != 0 if dtype == np.bool_ else x.astype(dtype)


def _table(ref: Any, array: Array) -> Table:
    dtype = np.dtype(array.dtype)

    def read(place: Number) -> Number:
        return _from_word(ref[int(place) if is_known(place) else place], dtype)

    return Table(read, array.shape, dtype)


def _emit(primitive: Any, params: dict[str, Any], vectors: list[Array]) -> Array:
    """An operation in a form that Pallas has for Triton."""
    first = vectors[0]
    match primitive.name:
        case "population_count" if first.dtype == jnp.uint32:
            # Of int32 there is an instruction.
            signed = lax.population_count(lax.bitcast_convert_type(first, jnp.int32))
            return lax.bitcast_convert_type(signed, jnp.uint32)
        case "convert_element_type" if first.dtype == jnp.bool_:
            whole = lax.convert_element_type(first, jnp.int32)
            return lax.convert_element_type(whole, params["new_dtype"])
        case "sign" if jnp.issubdtype(first.dtype, jnp.integer):
            return (first > 0).astype(first.dtype) - (first < 0).astype(first.dtype)
        case "integer_pow" if params["y"] > 0:
            return _power(first, params["y"])
        case "square":
            return first * first
    return primitive.bind(*vectors, **params)


def _power(number: Array, exponent: int) -> Array:
    """``number ** exponent`` by products."""
    if exponent == 1:
        return number
    half = _power(number, exponent // 2)
    return half * half * number if exponent % 2 else half * half
