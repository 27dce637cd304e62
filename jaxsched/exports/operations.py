"""The vocabulary of policies that are handed over as programs of array operations.

A program is a list of steps; each is a plain dictionary: ``op``, the names of its ``inputs``, the
name of its ``output``, and the op's own settings. Steps run in order. Arrays are float32, int32 or
bool and have no batch axis. ``OPERATIONS`` is the whole vocabulary; it travels in every manifest
of a program, and ``examples/read_program.py`` follows it with NumPy alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxsched.errors import JaxschedError

Step: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, np.ndarray]

OPERATIONS = {
    "negative": "-x, elementwise",
    "exp": "e to the power of x",
    "log": "natural logarithm",
    "log1p": "log(1 + x)",
    "sqrt": "square root",
    "tanh": "hyperbolic tangent",
    "sigmoid": "1 / (1 + exp(-x))",
    "abs": "absolute value",
    "sign": "-1, 0 or 1",
    "floor": "largest whole number not above x",
    "round": "nearest whole number, halves to the even one",
    "not": "of bool",
    "add": "x + y, elementwise; an input of no axes goes with every entry, here and below",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y of float32; of int32 the quotient without its fraction (towards 0)",
    "remainder": "x - y * divide(x, y) of int32",
    "power": "x to the power of y",
    "maximum": "the larger one",
    "minimum": "the smaller one",
    "less": "x < y",
    "less_equal": "x <= y",
    "equal": "x == y",
    "and": "of bool",
    "or": "of bool",
    "where": "the second input where the first (bool) is true, else the third",
    "cast": "to dtype; bool gives 0 and 1, a float32 loses its fraction",
    "reshape": "the same numbers in the given shape, row-major (the last axis varies fastest)",
    "transpose": "axis i of the output is axis order[i] of the input",
    "broadcast": "copies along axes of length 1 (or of a number), to the given shape",
    "slice": "entries starts[i], starts[i] + strides[i], ... below stops[i] of each axis i",
    "concat": "inputs one after the other along the axis",
    "sum": "over the axes, which are left out",
    "largest": "maximum over the axes, which are left out",
    "smallest": "minimum over the axes, which are left out",
    "first_largest": "int32 index of the largest entry along the axis, of equal ones the first",
    "cumulative_sum": "along the axis",
    "take": "rows of the first input, along its first axis, at the indices of the second (int32)",
    "take_along": "numpy.take_along_axis of the first input at the indices of the second",
    "einsum": "sum of products as the equation says, as numpy.einsum",
}

_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "negative": np.negative,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "round": np.round,
    "not": np.logical_not,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda x, y: x / y if x.dtype.kind == "f" else np.trunc(x / y).astype(x.dtype),
    "remainder": np.fmod,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "where": np.where,
}
ELEMENTWISE = tuple(_ELEMENTWISE)

_OTHERS: dict[str, Callable[..., Any]] = {
    "cast": lambda x, dtype: x.astype(dtype),
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, order: x.transpose(order),
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "slice": lambda x, starts, stops, strides: x[
        tuple(map(slice, starts, stops, strides))  # one slice per axis
    ],
    "concat": lambda *parts, axis: np.concatenate(parts, axis),
    "sum": lambda x, axes: x.sum(tuple(axes), dtype=x.dtype),
    "largest": lambda x, axes: x.max(tuple(axes)),
    "smallest": lambda x, axes: x.min(tuple(axes)),
    "first_largest": lambda x, axis: x.argmax(axis).astype(np.int32),
    "cumulative_sum": lambda x, axis: x.cumsum(axis, dtype=x.dtype),
    "take": lambda x, index: x[index],
    "take_along": lambda x, index, axis: np.take_along_axis(x, index, axis),
    "einsum": lambda *parts, equation: np.einsum(equation, *parts, optimize=True),
}


def run(steps: Sequence[Step], values: Mapping[str, np.ndarray]) -> Arrays:
    """Follow a program with NumPy alone.

    Args:
      steps: the program.
      values: weights, constants and inputs by name, without a batch axis.

    Returns:
      These and the output of every step.

    Raises:
      JaxschedError: a step that is unknown, or that does not fit its inputs.
    """
    values = dict(values)
    with np.errstate(all="ignore"):  # branches that are not taken may divide by 0
        for number, step in enumerate(steps):
            try:
                values[step["output"]] = np.asarray(_apply(step, values))
            except KeyError as error:
                raise JaxschedError(f"program step {number} needs {error}, which is absent") from (
                    error
                )
            except (ValueError, TypeError, IndexError) as error:
                raise JaxschedError(f"program step {number} ({step['op']}): {error}") from error
    return values


def settings_of(step: Step) -> dict[str, Any]:
    """What a step says beside its op and the names."""
    return {name: value for name, value in step.items() if name not in ("op", "inputs", "output")}


def _apply(step: Step, values: Mapping[str, np.ndarray]) -> np.ndarray:
    op = step["op"]
    if op not in OPERATIONS:
        raise JaxschedError(f"unknown operation {op!r}; known are {', '.join(OPERATIONS)}")
    inputs = [values[name] for name in step["inputs"]]
    function = _ELEMENTWISE.get(op) or _OTHERS[op]
    found: np.ndarray = function(*inputs, **settings_of(step))
    return found
