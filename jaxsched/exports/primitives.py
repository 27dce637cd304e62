"""What each primitive of JAX is in the vocabulary of ``operations.py``."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.exports.steps import Steps, Value, reshaped, sliced, sliced_axis

Rule: TypeAlias = Callable[..., Value]
"""``(writer, equation, *inputs) -> output``."""


def _plain(op: str) -> Rule:
    return lambda writer, equation, *given: writer.step(op, *given)


def _swapped(op: str) -> Rule:
    return lambda writer, equation, x, y: writer.step(op, y, x)


def _negated(op: str) -> Rule:
    return lambda writer, equation, *given: writer.step("not", writer.step(op, *given))


def _logical(op: str) -> Rule:
    def rule(writer: Steps, equation: Any, *given: Value) -> Value:
        if equation.invars[0].aval.dtype != np.bool_:
            raise JaxschedError(f"an export has '{op}' of truth values only, not of bits")
        return writer.step(op, *given)

    return rule


def _like(equation: Any, number: float) -> np.ndarray:
    return np.asarray(number, equation.invars[0].aval.dtype)


def _integer_pow(writer: Steps, equation: Any, x: Value) -> Value:
    exponent = equation.params["y"]
    if exponent < 0:
        raise JaxschedError("an export has no negative whole powers")
    result = x
    for _ in range(exponent - 1):
        result = writer.step("multiply", result, x)
    return result


def _select(writer: Steps, equation: Any, condition: Value, *cases: Value) -> Value:
    if len(cases) != 2 or equation.invars[0].aval.dtype != np.bool_:
        raise JaxschedError("an export chooses between two cases only")
    return writer.step("where", condition, cases[1], cases[0])


def _cast(writer: Steps, equation: Any, x: Value) -> Value:
    dtype, given = np.dtype(equation.params["new_dtype"]), equation.invars[0].aval.dtype
    dtype = np.dtype(np.int32) if dtype == np.uint32 else dtype
    if dtype == given or (dtype == np.int32 and given == np.uint32):
        return x
    if dtype not in (np.float32, np.int32, np.bool_):
        raise JaxschedError(f"an export has no numbers of the type {dtype}")
    return writer.step("cast", x, dtype=dtype.name)


def _broadcast(writer: Steps, equation: Any, x: Value) -> Value:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    given = equation.invars[0].aval.shape
    wide = [1] * len(shape)
    for axis, size in zip(axes, given, strict=True):
        wide[axis] = size
    x = x if tuple(wide) == given else reshaped(writer, x, wide)
    return x if tuple(wide) == tuple(shape) else writer.step("broadcast", x, shape=list(shape))


def _reduced(op: str) -> Rule:
    def rule(writer: Steps, equation: Any, x: Value) -> Value:
        axes = [int(axis) for axis in equation.params["axes"]]
        if equation.invars[0].aval.dtype != np.bool_:
            return writer.step(op, x, axes=axes)
        whole = writer.step("cast", x, dtype="int32")
        return writer.step("cast", writer.step(op, whole, axes=axes), dtype="bool")

    return rule


def _index_of(op: str | None) -> Rule:
    def rule(writer: Steps, equation: Any, x: Value) -> Value:
        (axis,) = equation.params["axes"]
        x = writer.step(op, x) if op else x
        return writer.step("first_largest", x, axis=int(axis))

    return rule


def _concat(writer: Steps, equation: Any, *parts: Value) -> Value:
    return writer.step("concat", *parts, axis=int(equation.params["dimension"]))


def _stack(writer: Steps, equation: Any, *parts: Value) -> Value:
    axis = equation.params["axis"]
    shape = list(equation.outvars[0].aval.shape)
    shape[axis] = 1
    return writer.step("concat", *(reshaped(writer, part, shape) for part in parts), axis=int(axis))


def _dynamic_slice(writer: Steps, equation: Any, x: Value, *starts: Value) -> Value:
    if any(isinstance(start, str) for start in starts):
        raise JaxschedError("an export has no slices at places that are computed")
    sizes, shape = equation.params["slice_sizes"], equation.invars[0].aval.shape
    first = [
        min(max(int(start), 0), most - size)  # type: ignore[arg-type]
        for start, size, most in zip(starts, sizes, shape, strict=True)
    ]
    return sliced(writer, x, first, [a + size for a, size in zip(first, sizes, strict=True)])


def _pad(writer: Steps, equation: Any, x: Value, filling: Value) -> Value:
    shape = list(equation.invars[0].aval.shape)
    for axis, (low, high, inner) in enumerate(equation.params["padding_config"]):
        if inner or low < 0 or high < 0 or isinstance(filling, str):
            raise JaxschedError("an export has no padding of this kind")
        parts: list[Value] = []
        for size in (low, None, high):
            if size is None:
                parts.append(x)
            elif size:
                beside = (*shape[:axis], size, *shape[axis + 1 :])
                parts.append(np.broadcast_to(filling, beside))
        x = writer.step("concat", *parts, axis=axis) if len(parts) > 1 else x
        shape[axis] += low + high
    return x


def _cumsum(writer: Steps, equation: Any, x: Value) -> Value:
    if equation.params["reverse"]:
        raise JaxschedError("an export has no sums from the end")
    return writer.step("cumulative_sum", x, axis=int(equation.params["axis"]))


def _einsum(writer: Steps, equation: Any, x: Value, y: Value) -> Value:
    (contract_x, contract_y), (batch_x, batch_y) = equation.params["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxy")
    first = [next(letters) for _ in equation.invars[0].aval.shape]
    second = [""] * len(equation.invars[1].aval.shape)
    for i, j in zip((*contract_x, *batch_x), (*contract_y, *batch_y), strict=True):
        second[j] = first[i]
    second = [letter or next(letters) for letter in second]
    batch = [first[i] for i in batch_x]
    free = [c for i, c in enumerate(first) if i not in (*contract_x, *batch_x)]
    free += [c for j, c in enumerate(second) if j not in (*contract_y, *batch_y)]
    text = f"{''.join(first)},{''.join(second)}->{''.join(batch + free)}"
    return writer.step("einsum", x, y, equation=text)


def _gather(writer: Steps, equation: Any, x: Value, index: Value) -> Value:
    """Rows along one axis, or entries along one axis with all axes before it in step."""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape, where = (variable.aval.shape for variable in equation.invars)
    in_step, (axis, *more) = tuple(numbers.operand_batching_dims), numbers.start_index_map
    others = [i for i in range(len(shape)) if i != axis and i not in in_step]
    plain = not more and tuple(numbers.collapsed_slice_dims) == (axis,) and where[-1] == 1
    plain = plain and all(sizes[i] == shape[i] for i in others)
    lead = where[:-1]
    first = tuple(range(len(more) + 1))
    if more and not in_step and first == tuple(numbers.start_index_map):
        flat = _flat_index(writer, index, where, shape[: len(first)])
        rest = shape[len(first) :]
        if tuple(numbers.collapsed_slice_dims) == first and tuple(sizes[len(first) :]) == rest:
            rows = reshaped(writer, x, (math.prod(shape[: len(first)]), *rest))
            rows = writer.step("take", rows, reshaped(writer, flat, lead))
            return _transposed(writer, rows, _places(numbers.offset_dims, len(lead), len(rest)))
    if plain and not in_step:
        rows = _transposed(writer, x, [axis, *others])
        rows = writer.step("take", rows, reshaped(writer, index, lead))
        return _transposed(writer, rows, _places(numbers.offset_dims, len(lead), len(others)))
    if plain and in_step == tuple(range(axis)) and where[:axis] == shape[:axis]:
        index = reshaped(writer, index, (*lead, *(1 for _ in shape[axis + 1 :])))
        index = writer.step("broadcast", index, shape=[*lead, *shape[axis + 1 :]])
        return writer.step("take_along", x, index, axis=int(axis))
    raise JaxschedError("the policy looks up entries in a way that exports do not have")


def _flat_index(writer: Steps, index: Value, where: Sequence[int], shape: Sequence[int]) -> Value:
    """Places in row-major order of indices ``[..., axes]`` of leading axes of that shape."""
    total: Value = _like_int(0)
    for axis in range(len(shape)):
        part = sliced_axis(writer, index, where, len(where) - 1, axis, axis + 1)
        stride = _like_int(math.prod(shape[axis + 1 :]))
        total = writer.step("add", total, writer.step("multiply", part, stride))
    return total


def _places(offsets: Sequence[int], num_lead: int, num_rest: int) -> list[int]:
    """Where the axes of a look-up's result come from: the index's first, then those of a row."""
    lead, rest = iter(range(num_lead)), iter(range(num_lead, num_lead + num_rest))
    return [next(rest if i in offsets else lead) for i in range(num_lead + num_rest)]


def _transposed(writer: Steps, x: Value, order: list[int]) -> Value:
    if order == sorted(order):
        return x
    return (
        x.transpose(order)
        if isinstance(x, np.ndarray)
        else writer.step("transpose", x, order=order)
    )


def _reordered(writer: Steps, equation: Any, x: Value) -> Value:
    return writer.step("transpose", x, order=[int(i) for i in equation.params["permutation"]])


def _to_output_shape(writer: Steps, equation: Any, x: Value) -> Value:
    return reshaped(writer, x, equation.outvars[0].aval.shape)


def _shift_right(writer: Steps, equation: Any, x: Value, bits: Value) -> Value:
    """Division by a power of two, down."""
    if isinstance(bits, str) or bits.ndim:
        raise JaxschedError("an export shifts by numbers that are known only")
    unit = _like_int(2 ** int(bits))
    rest = writer.step("add", writer.step("remainder", x, unit), unit)  # above 0
    rest = writer.step("remainder", rest, unit)
    return writer.step("divide", writer.step("subtract", x, rest), unit)


def _population_count(writer: Steps, equation: Any, x: Value) -> Value:
    """Bits of a number below 2**31, one after the other."""
    bits: Value = _like_int(0)
    for bit in range(31):
        above = writer.step("divide", x, _like_int(2**bit))
        bits = writer.step("add", bits, writer.step("remainder", above, _like_int(2)))
    return bits


def _like_int(number: int) -> np.ndarray:
    return np.asarray(number, np.int32)


def _round(writer: Steps, equation: Any, x: Value) -> Value:
    if equation.params["rounding_method"] != jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        raise JaxschedError("an export rounds halves to the even number only")
    return writer.step("round", x)


def _clamp(writer: Steps, equation: Any, low: Value, x: Value, high: Value) -> Value:
    return writer.step("minimum", writer.step("maximum", x, low), high)


RULES: dict[str, Rule] = {
    **{
        name: _plain(op)
        for name, op in {
            "neg": "negative",
            "exp": "exp",
            "log": "log",
            "log1p": "log1p",
            "sqrt": "sqrt",
            "tanh": "tanh",
            "logistic": "sigmoid",
            "abs": "abs",
            "sign": "sign",
            "floor": "floor",
            "add": "add",
            "sub": "subtract",
            "mul": "multiply",
            "div": "divide",
            "rem": "remainder",
            "max": "maximum",
            "min": "minimum",
            "lt": "less",
            "le": "less_equal",
            "eq": "equal",
            "pow": "power",
            "add_any": "add",
        }.items()
    },  # fmt: skip
    **{name: _logical(name) for name in ("not", "and", "or")},
    "gt": _swapped("less"),
    "ge": _swapped("less_equal"),
    "ne": _negated("equal"),
    "round": _round,
    "population_count": _population_count,
    "shift_right_arithmetic": _shift_right,
    "log2": lambda writer, equation, x: writer.step(  # a primitive from jax 0.12 on
        "divide", writer.step("log", x), _like(equation, math.log(2))
    ),
    "square": lambda writer, equation, x: writer.step("multiply", x, x),
    "rsqrt": lambda writer, equation, x: writer.step(
        "divide", _like(equation, 1), writer.step("sqrt", x)
    ),
    "integer_pow": _integer_pow,
    "clamp": _clamp,
    "select_n": _select,
    "convert_element_type": _cast,
    "stop_gradient": lambda writer, equation, x: x,
    "copy": lambda writer, equation, x: x,
    "broadcast_in_dim": _broadcast,
    "reshape": _to_output_shape,
    "squeeze": _to_output_shape,
    "expand_dims": _to_output_shape,
    "transpose": _reordered,
    "slice": lambda writer, equation, x: sliced(
        writer,
        x,
        equation.params["start_indices"],
        equation.params["limit_indices"],
        equation.params["strides"],
    ),
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concat,
    "pad": _pad,
    "stack": _stack,
    "reduce_sum": _reduced("sum"),
    "reduce_max": _reduced("largest"),
    "reduce_min": _reduced("smallest"),
    "reduce_or": _reduced("largest"),
    "reduce_and": _reduced("smallest"),
    "argmax": _index_of(None),
    "argmin": _index_of("negative"),
    "cumsum": _cumsum,
    "dot_general": _einsum,
    "gather": _gather,
}
