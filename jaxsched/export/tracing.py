"""From a JAX function of named arrays to a program of the operations in ``operations.py``.

The function is traced for one decision, without a batch axis. Loops of known length are unrolled,
what depends on no input is computed here, equal steps are written once, and steps that nobody needs
are left out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import numpy as np
from jax.extend import core as jex

from jaxsched.errors import JaxschedError
from jaxsched.export.operations import ELEMENTWISE, Step

Value: TypeAlias = str | np.ndarray
"""A name in the program, or an array that is known now."""

MOST_STEPS = 20_000
LARGEST_REPEATED = 16  # entries of an array of equal ones that is written out


class Program(NamedTuple):
    """Steps from weights, constants and inputs to outputs.

    Attributes:
      steps: in order.
      constants: name -> array, float32, int32 or bool.
      outputs: name of the output -> name of the value.
    """

    steps: list[Step]
    constants: dict[str, np.ndarray]
    outputs: dict[str, str]


def trace(
    function: Callable[[Any, Any], Mapping[str, Any]],
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
) -> Program:
    """The program of a function.

    Args:
      function: ``(weights, inputs) -> outputs``, dictionaries of arrays by name.
      weights: arrays or their shapes, by name.
      inputs: the same.

    Raises:
      JaxschedError: it computes something for which there is no operation.
    """
    shapes = [
        {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in given.items()}
        for given in (weights, inputs)
    ]
    closed, result = jax.make_jaxpr(function, return_shape=True)(*shapes)
    names = [*sorted(weights), *sorted(inputs)]  # the order of a dictionary's leaves
    writer = _Writer()
    found = writer.follow(closed.jaxpr, closed.consts, list(names))
    outputs = {
        name: writer.named(value)
        for name, value in zip(sorted(result), found, strict=True)  # type: ignore[type-var]
    }
    return writer.finished(outputs)


class _Writer:
    """Steps as they are written; results of all methods are names or known arrays."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, np.ndarray] = {}
        self._known: dict[Any, str] = {}

    def follow(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Value]) -> list[Value]:
        """The values that a traced function returns."""
        values: dict[Any, Value] = dict(zip(jaxpr.invars, arguments, strict=True))
        values.update(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))

        def read(variable: Any) -> Value:
            if isinstance(variable, jex.Literal):
                return np.asarray(variable.val, cast(Any, variable.aval).dtype)
            return values[variable]

        for equation in jaxpr.eqns:
            given = [read(variable) for variable in equation.invars]
            values.update(zip(equation.outvars, self._result(equation, given), strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def step(self, op: str, *inputs: Value, **settings: Any) -> str:
        """The output of a step, which is written unless it is there already."""
        small = op in ELEMENTWISE
        names = [self.named(value, small=small) for value in inputs]
        key = json.dumps([op, names, settings], sort_keys=True, default=int)
        if key not in self._known:
            if len(self.steps) >= MOST_STEPS:
                raise JaxschedError(f"the policy takes more than {MOST_STEPS} operations")
            self._known[key] = f"v{len(self.steps)}"
            output = self._known[key]
            self.steps.append({"op": op, "inputs": names, "output": output, **settings})
        return self._known[key]

    def named(self, value: Value, *, small: bool = False) -> str:
        """The name of a value; ``small``: an array of equal entries may be one number."""
        if isinstance(value, str):
            return value
        if value.size > (1 if small else LARGEST_REPEATED) and np.all(value == value.flat[0]):
            one = value.reshape(-1)[0]
            return self.named(one) if small else self.step("broadcast", one, shape=[*value.shape])
        value = np.asarray(value, order="C")
        if value.dtype not in (np.float32, np.int32, np.bool_):
            raise JaxschedError(f"an export has no numbers of the type {value.dtype}")
        key = (str(value.dtype), value.shape, value.tobytes())
        if key not in self._known:
            number = len(self.constants)
            name = f"{value.dtype}({value.item()!r})" if value.ndim == 0 else f"constant.{number}"
            self._known[key] = name
            self.constants[name] = value
        return self._known[key]

    def finished(self, outputs: dict[str, str]) -> Program:
        """The program without steps and constants that no output needs."""
        needed, kept = set(outputs.values()), []
        for step in reversed(self.steps):
            if step["output"] in needed:
                needed.update(step["inputs"])
                kept.append(step)
        constants = {name: value for name, value in self.constants.items() if name in needed}
        return Program(kept[::-1], constants, outputs)

    def _result(self, equation: Any, given: list[Value]) -> list[Value]:
        name, settings = equation.primitive.name, equation.params
        if name == "scan":
            return self._unrolled(equation, given)
        inner = _inner_of(settings)
        if inner is not None:
            return self.follow(inner.jaxpr, inner.consts, given)
        if not any(isinstance(value, str) for value in given) and not _repeats(equation, given):
            known = equation.primitive.bind(*given, **settings)
            several = equation.primitive.multiple_results
            return [np.asarray(value) for value in (known if several else [known])]
        if name == "split":
            return self._split(given[0], equation)
        rule = _RULES.get(name)
        if rule is None:
            raise JaxschedError(
                f"the policy computes {name!r}, which the vocabulary of exports does not have"
            )
        return [rule(self, equation, *given)]

    def _split(self, value: Value, equation: Any) -> list[Value]:
        axis, shape = equation.params["axis"], equation.invars[0].aval.shape
        stops = np.cumsum(equation.params["sizes"]).tolist()
        return [
            _slice_axis(self, value, shape, axis, start, stop)
            for start, stop in zip([0, *stops], stops, strict=False)
        ]

    def _unrolled(self, equation: Any, given: list[Value]) -> list[Value]:
        """A loop of known length, iteration by iteration."""
        p = equation.params
        inner, carried = p["jaxpr"], p["num_consts"] + p["num_carry"]
        fixed, state, over = given[: p["num_consts"]], given[p["num_consts"] : carried], []
        shapes = [variable.aval.shape for variable in equation.invars[carried:]]
        over = list(zip(given[carried:], shapes, strict=True))
        turns = range(p["length"])
        rows: dict[int, list[Value]] = {}
        for turn in reversed(turns) if p["reverse"] else turns:
            here = [_row(self, value, shape, turn) for value, shape in over]
            found = self.follow(inner.jaxpr, inner.consts, [*fixed, *state, *here])
            state, rows[turn] = found[: len(state)], found[len(state) :]
        stacked = [
            _stacked(self, [rows[turn][i] for turn in turns], variable.aval.shape[1:])
            for i, variable in enumerate(equation.outvars[len(state) :])
        ]
        return [*state, *stacked]


def _repeats(equation: Any, given: list[Value]) -> bool:
    """Whether many copies of different numbers would be kept."""
    copies = equation.primitive.name == "broadcast_in_dim"
    if not copies or math.prod(equation.outvars[0].aval.shape) <= LARGEST_REPEATED:
        return False
    return bool(np.any(given[0] != np.ravel(given[0])[0]))


def _inner_of(settings: Mapping[str, Any]) -> Any:
    """The function that an equation only calls, or None."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if hasattr(settings.get(name), "jaxpr"):
            return settings[name]
    return None


def _slice(writer: _Writer, value: Value, starts: Any, stops: Any, strides: Any = None) -> Value:
    strides = [1] * len(starts) if strides is None else strides
    if isinstance(value, np.ndarray):
        return value[tuple(map(slice, starts, stops, strides))]
    ranges = {"starts": starts, "stops": stops, "strides": strides}
    return writer.step("slice", value, **{k: [int(x) for x in v] for k, v in ranges.items()})


def _slice_axis(
    writer: _Writer, value: Value, shape: Sequence[int], axis: int, start: int, stop: int
) -> Value:
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = start, stop
    return _slice(writer, value, starts, stops)


def _reshape(writer: _Writer, value: Value, shape: Sequence[int]) -> Value:
    if isinstance(value, np.ndarray):
        return value.reshape(shape)
    return writer.step("reshape", value, shape=[int(n) for n in shape])


def _row(writer: _Writer, value: Value, shape: Sequence[int], index: int) -> Value:
    return _reshape(writer, _slice_axis(writer, value, shape, 0, index, index + 1), shape[1:])


def _stacked(writer: _Writer, rows: Sequence[Value], shape: Sequence[int]) -> Value:
    if all(isinstance(row, np.ndarray) for row in rows):
        return np.stack(cast(list[np.ndarray], list(rows)))
    rows = [_reshape(writer, row, (1, *shape)) for row in rows]
    return writer.step("concat", *rows, axis=0)


Rule: TypeAlias = Callable[..., Value]


def _plain(op: str) -> Rule:
    return lambda writer, equation, *given: writer.step(op, *given)


def _swapped(op: str) -> Rule:
    return lambda writer, equation, x, y: writer.step(op, y, x)


def _negated(op: str) -> Rule:
    return lambda writer, equation, *given: writer.step("not", writer.step(op, *given))


def _like(equation: Any, number: float) -> np.ndarray:
    return np.asarray(number, equation.invars[0].aval.dtype)


def _integer_pow(writer: _Writer, equation: Any, x: Value) -> Value:
    exponent = equation.params["y"]
    if exponent < 0:
        raise JaxschedError("an export has no negative whole powers")
    result = x
    for _ in range(exponent - 1):
        result = writer.step("multiply", result, x)
    return result


def _select(writer: _Writer, equation: Any, condition: Value, *cases: Value) -> Value:
    if len(cases) != 2 or equation.invars[0].aval.dtype != np.bool_:
        raise JaxschedError("an export chooses between two cases only")
    return writer.step("where", condition, cases[1], cases[0])


def _cast(writer: _Writer, equation: Any, x: Value) -> Value:
    dtype = np.dtype(equation.params["new_dtype"])
    if dtype == equation.invars[0].aval.dtype:
        return x
    if dtype not in (np.float32, np.int32, np.bool_):
        raise JaxschedError(f"an export has no numbers of the type {dtype}")
    return writer.step("cast", x, dtype=dtype.name)


def _broadcast(writer: _Writer, equation: Any, x: Value) -> Value:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    given = equation.invars[0].aval.shape
    wide = [1] * len(shape)
    for axis, size in zip(axes, given, strict=True):
        wide[axis] = size
    x = x if tuple(wide) == given else _reshape(writer, x, wide)
    return x if tuple(wide) == tuple(shape) else writer.step("broadcast", x, shape=list(shape))


def _reduced(op: str) -> Rule:
    def rule(writer: _Writer, equation: Any, x: Value) -> Value:
        axes = [int(axis) for axis in equation.params["axes"]]
        if equation.invars[0].aval.dtype != np.bool_:
            return writer.step(op, x, axes=axes)
        whole = writer.step("cast", x, dtype="int32")
        return writer.step("cast", writer.step(op, whole, axes=axes), dtype="bool")

    return rule


def _index_of(op: str | None) -> Rule:
    def rule(writer: _Writer, equation: Any, x: Value) -> Value:
        (axis,) = equation.params["axes"]
        x = writer.step(op, x) if op else x
        return writer.step("first_largest", x, axis=int(axis))

    return rule


def _concat(writer: _Writer, equation: Any, *parts: Value) -> Value:
    return writer.step("concat", *parts, axis=int(equation.params["dimension"]))


def _stack(writer: _Writer, equation: Any, *parts: Value) -> Value:
    axis = equation.params["axis"]
    shape = list(equation.outvars[0].aval.shape)
    shape[axis] = 1
    return writer.step("concat", *(_reshape(writer, part, shape) for part in parts), axis=int(axis))


def _dynamic_slice(writer: _Writer, equation: Any, x: Value, *starts: Value) -> Value:
    if any(isinstance(start, str) for start in starts):
        raise JaxschedError("an export has no slices at places that are computed")
    sizes, shape = equation.params["slice_sizes"], equation.invars[0].aval.shape
    first = [
        min(max(int(start), 0), most - size)  # type: ignore[arg-type]
        for start, size, most in zip(starts, sizes, shape, strict=True)
    ]
    return _slice(writer, x, first, [a + size for a, size in zip(first, sizes, strict=True)])


def _cumsum(writer: _Writer, equation: Any, x: Value) -> Value:
    if equation.params["reverse"]:
        raise JaxschedError("an export has no sums from the end")
    return writer.step("cumulative_sum", x, axis=int(equation.params["axis"]))


def _einsum(writer: _Writer, equation: Any, x: Value, y: Value) -> Value:
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


def _gather(writer: _Writer, equation: Any, x: Value, index: Value) -> Value:
    """Rows along one axis, or entries along one axis with all axes before it in step."""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape, where = (variable.aval.shape for variable in equation.invars)
    in_step, (axis, *more) = tuple(numbers.operand_batching_dims), numbers.start_index_map
    others = [i for i in range(len(shape)) if i != axis and i not in in_step]
    plain = not more and tuple(numbers.collapsed_slice_dims) == (axis,) and where[-1] == 1
    plain = plain and all(sizes[i] == shape[i] for i in others)
    lead = where[:-1]
    if plain and not in_step:
        rows = _transposed(writer, x, [axis, *others])
        rows = writer.step("take", rows, _reshape(writer, index, lead))
        return _transposed(writer, rows, _places(numbers.offset_dims, len(lead), len(others)))
    if plain and in_step == tuple(range(axis)) and where[:axis] == shape[:axis]:
        index = _reshape(writer, index, (*lead, *(1 for _ in shape[axis + 1 :])))
        index = writer.step("broadcast", index, shape=[*lead, *shape[axis + 1 :]])
        return writer.step("take_along", x, index, axis=int(axis))
    raise JaxschedError("the policy looks up entries in a way that exports do not have")


def _places(offsets: Sequence[int], num_lead: int, num_rest: int) -> list[int]:
    """Where the axes of a look-up's result come from: the index's first, then those of a row."""
    lead, rest = iter(range(num_lead)), iter(range(num_lead, num_lead + num_rest))
    return [next(rest if i in offsets else lead) for i in range(num_lead + num_rest)]


def _transposed(writer: _Writer, x: Value, order: list[int]) -> Value:
    if order == sorted(order):
        return x
    return (
        x.transpose(order)
        if isinstance(x, np.ndarray)
        else writer.step("transpose", x, order=order)
    )


def _reordered(writer: _Writer, equation: Any, x: Value) -> Value:
    return writer.step("transpose", x, order=[int(i) for i in equation.params["permutation"]])


def _to_output_shape(writer: _Writer, equation: Any, x: Value) -> Value:
    return _reshape(writer, x, equation.outvars[0].aval.shape)


def _clamp(writer: _Writer, equation: Any, low: Value, x: Value, high: Value) -> Value:
    return writer.step("minimum", writer.step("maximum", x, low), high)


_RULES: dict[str, Rule] = {
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
            "not": "not",
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
            "and": "and",
            "or": "or",
            "pow": "power",
            "add_any": "add",
        }.items()
    },  # fmt: skip
    "gt": _swapped("less"),
    "ge": _swapped("less_equal"),
    "ne": _negated("equal"),
    "round": _plain("round"),
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
    "slice": lambda writer, equation, x: _slice(
        writer,
        x,
        equation.params["start_indices"],
        equation.params["limit_indices"],
        equation.params["strides"],
    ),
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concat,
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
