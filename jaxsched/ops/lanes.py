"""One function, many instances: every number of an instance becomes a vector over instances.

``jax.vmap`` gives each array of a function one more axis. A compiler for GPUs then starts a kernel
for every reduction over a short axis, as it hardly fuses a reduction with what follows it. Here the
same function is traced for ONE instance, and its operations are written anew with an array
``[15, 8]`` as 120 vectors ``[B]``, "lanes". Reshaping, slicing, stacking and one-hots happen while
tracing; a reduction is a tree of elementwise operations; a look-up in an array that all instances
share is one indexed read. What depends on shared arrays alone is computed once, as it was written.

The program is as long as an instance has numbers, so this is for small instances: some hundred
numbers, no loops. Whole numbers come out as with ``jax.vmap``; sums of floats are added in another
order. A primitive without a rule in :data:`RULES` is an error that names it.

Axes: ``B`` lanes.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PyTree

Number = Any
"""A NumPy scalar (known), a scalar array (the same for all lanes), or a vector ``[B]``."""
_INDEX = np.dtype(np.int32)
_FLAG = np.dtype(bool)


class Numbers(NamedTuple):
    """An array of one instance, number by number.

    Attributes:
      each: object array of the instance's shape, of ``Number``.
      dtype: of all of them.
    """

    each: np.ndarray
    dtype: np.dtype


class Table(NamedTuple):
    """An array that all lanes share.

    Attributes:
      read: number at a place in the order of its numbers, for a place in range.
      shape: of the array.
      dtype: of its numbers.
    """

    read: Callable[[Number], Number]
    shape: tuple[int, ...]
    dtype: np.dtype


Value = np.ndarray | Table | Numbers
"""Known, shared by all lanes, or of each lane."""


class Equation(NamedTuple):
    """An operation of a flattened program.

    Attributes:
      primitive: of JAX.
      params: its parameters.
      inputs: numbers of variables, or known arrays.
      outputs: numbers of variables.
      results: their shapes and dtypes.
      shapes: of the inputs.
    """

    primitive: Any
    params: dict[str, Any]
    inputs: list[int | np.ndarray]
    outputs: list[int]
    results: list[Any]
    shapes: list[tuple[int, ...]]


class LaneFunction:
    """``jax.vmap`` of a function over the last axis of its arguments, written over lanes.

    Args:
      function: ``(shared, *own) -> result``, for one instance.
      shared: tree of arrays that all instances share. What depends on nothing else is computed
        here: make a ``LaneFunction`` outside of the loop that calls it.
      *own: trees of ``jax.ShapeDtypeStruct`` of one instance's arguments.

    Attributes:
      shared: arrays that the program for the lanes reads, by number.
      given: shapes and dtypes of one instance's arguments, leaf by leaf.
      results: the same of what the function returns.

    Raises:
      JaxschedError: the function has a primitive that no rule covers.
    """

    def __init__(self, function: Callable[..., PyTree], shared: PyTree, *own: PyTree) -> None:
        closed, result = jax.make_jaxpr(function, return_shape=True)(shared, *own)
        flat = _Flat()
        inputs = [flat.variable() for _ in closed.jaxpr.invars]
        outputs = flat.write(closed, inputs)
        equations = _needed(flat.equations, outputs)
        leaves = jax.tree.leaves(shared)
        known: dict[int, Any] = dict(zip(inputs, map(jnp.asarray, leaves), strict=False))
        known.update(flat.constants)
        rest = []
        for equation in equations:
            values = [_read(known, each) for each in equation.inputs]
            if any(value is None for value in values):
                _check(equation)
                rest.append(equation)
                continue
            known.update(zip(equation.outputs, _whole(equation, values), strict=True))
        read = {each for equation in rest for each in equation.inputs if isinstance(each, int)}
        read.update(each for each in outputs if isinstance(each, int))
        self._constants = {n: x for n, x in known.items() if isinstance(x, np.ndarray)}
        self.shared: dict[int, Array] = {
            n: x for n, x in known.items() if n in read and n not in self._constants
        }
        self._equations, self._outputs = rest, outputs
        self._own = inputs[len(leaves) :]
        if not all(math.prod(leaf.shape) for leaf in jax.tree.leaves((own, result))):
            raise JaxschedError("lanes: no rule for arrays without numbers; use jax.vmap")
        self.given: list[Any] = jax.tree.leaves(own)
        self.results: list[Any] = jax.tree.leaves(result)
        self._tree = jax.tree.structure(result)

    def __call__(self, *own: PyTree) -> PyTree:
        """The results, leaves ``[..., B]``.

        Args:
          *own: arguments, leaves ``[..., B]``.
        """
        vectors = [list(leaf.reshape(-1, leaf.shape[-1])) for leaf in jax.tree.leaves(own)]
        results = self.of_vectors(vectors)
        stacked = [
            jnp.stack(each).reshape(*spec.shape, -1)
            for each, spec in zip(results, self.results, strict=True)
        ]
        return jax.tree.unflatten(self._tree, stacked)

    def of_vectors(
        self,
        own: Sequence[Sequence[Array]],
        tables: Mapping[int, Table] | None = None,
        emit: "Emit | None" = None,
    ) -> list[list[Array]]:
        """The same for vectors ``[B]``: those of each leaf, in the order of its numbers.

        Args:
          own: arguments.
          tables: how to read each array of ``shared``; by default from the array itself.
          emit: writes an operation on vectors, for compilers that lack some.
        """
        lanes = next(vector.shape[0] for leaf in own for vector in leaf)
        writer = Writer(lanes, emit or _bind)
        if tables is None:
            tables = {number: table_of(array) for number, array in self.shared.items()}
        values: dict[int, Value] = {**self._constants, **tables}
        for variable, spec, vectors in zip(self._own, self.given, own, strict=True):
            values[variable] = Numbers(_object(vectors, spec.shape), np.dtype(spec.dtype))
        for equation in self._equations:
            inputs = [_read(values, each) for each in equation.inputs]
            found = RULES[equation.primitive.name](writer, equation, inputs)
            for variable, aval, value in zip(
                equation.outputs, equation.results, found, strict=True
            ):
                values[variable] = Numbers(value, np.dtype(aval.dtype))
        results = []
        for output in self._outputs:
            numbers = as_numbers(writer, _read(values, output))
            results.append(
                [writer.vector(each, numbers.dtype) for each in numbers.each.reshape(-1)]
            )
        return results


Emit = Callable[[Any, dict[str, Any], list[Array]], Array]
"""``(primitive, params, vectors) -> vector``."""


def _bind(primitive: Any, params: dict[str, Any], vectors: list[Array]) -> Array:
    return primitive.bind(*vectors, **params)


def table_of(array: Array) -> Table:
    """An array as a table."""
    flat = array.reshape(-1)

    def read(place: Number) -> Number:
        if is_known(place):
            return flat[int(place)]
        return flat.at[place].get(mode="promise_in_bounds")

    return Table(read, array.shape, np.dtype(array.dtype))


class Writer:
    """Writes operations on numbers, each of them once.

    Args:
      lanes: ``B``.
      emit: see ``LaneFunction``.
    """

    def __init__(self, lanes: int, emit: Emit) -> None:
        self.lanes, self.emit = lanes, emit
        self._made: dict[Any, tuple[Number, tuple[Number, ...]]] = {}

    def vector(self, number: Number, dtype: np.dtype) -> Array:
        """A number as a vector ``[B]``."""
        if is_known(number):
            return self._once(
                ("full", dtype.name, np.asarray(number, dtype).tobytes()),
                (),
                lambda: lax.full((self.lanes,), number, dtype),
            )
        if number.ndim:
            return number
        return self._once(
            ("spread", id(number)), (number,), lambda: lax.broadcast(number, (self.lanes,))
        )

    def do(
        self, primitive: Any, dtypes: Sequence[np.dtype], *numbers: Number, **params: Any
    ) -> Number:
        """An elementwise operation on numbers of the given dtypes."""
        name = primitive.name
        if all(map(is_known, numbers)):
            arrays = [np.asarray(x, dtype) for x, dtype in zip(numbers, dtypes, strict=True)]
            with jax.ensure_compile_time_eval():
                return np.asarray(primitive.bind(*arrays, **params))[()]
        same = _without(name, numbers, dtypes)
        if same is not None:
            return same
        names = [
            ("known", np.asarray(x, dtype).tobytes()) if is_known(x) else id(x)
            for x, dtype in zip(numbers, dtypes, strict=True)
        ]
        if name in _COMMUTE:
            names = sorted(names, key=str)
        key = (name, *names, *(dtype.name for dtype in dtypes), str(sorted(params.items())))

        def write() -> Array:
            if all(is_known(x) or not x.ndim for x in numbers):  # of scalars, for all lanes
                scalars = [jnp.asarray(x, d) for x, d in zip(numbers, dtypes, strict=True)]
                return primitive.bind(*scalars, **params)
            vectors = [self.vector(x, d) for x, d in zip(numbers, dtypes, strict=True)]
            return self.emit(primitive, params, vectors)

        return self._once(key, numbers, write)

    def read(self, table: Table, place: Number) -> Number:
        """A table's number at a place in range."""
        name = int(place) if is_known(place) else ("at", id(place))
        uses = (table, place)
        return self._once(("read", id(table), name), uses, lambda: table.read(place))

    def _once(self, key: Any, uses: tuple[Number, ...], write: Callable[[], Number]) -> Number:
        # What a key names by its ``id`` is kept, so that no other object gets it.
        if key not in self._made:
            self._made[key] = write(), uses
        return self._made[key][0]

    # Operations that rules need between numbers of one dtype.

    def both(self, primitive: Any, dtype: np.dtype, a: Number, b: Number) -> Number:
        """``primitive(a, b)``."""
        return self.do(primitive, (dtype, dtype), a, b)

    def choose(self, flag: Number, dtype: np.dtype, on_true: Number, on_false: Number) -> Number:
        """``where(flag, on_true, on_false)``."""
        return self.do(lax.select_n_p, (_FLAG, dtype, dtype), flag, on_false, on_true)

    def combine(self, primitive: Any, dtype: np.dtype, numbers: Iterable[Number]) -> Number:
        """All numbers by an associative operation, neighbours first."""
        rest = list(numbers)
        while len(rest) > 1:
            pairs = [rest[at : at + 2] for at in range(0, len(rest), 2)]
            rest = [p[0] if len(p) == 1 else self.both(primitive, dtype, *p) for p in pairs]
        return rest[0]

    def converted(self, numbers: Numbers, dtype: np.dtype) -> np.ndarray:
        """The same numbers of another dtype."""
        if numbers.dtype == dtype:
            return numbers.each
        params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
        convert = partial(self.do, lax.convert_element_type_p, (numbers.dtype,), **params)
        return _object(list(map(convert, numbers.each.reshape(-1))), numbers.each.shape)

    def index(self, number: Number, dtype: np.dtype, most: int) -> tuple[Number, Number]:
        """The nearest place from 0 to ``most``, int32, and whether it is the number itself."""
        last = np.asarray(min(most, int(jnp.iinfo(dtype).max)), dtype)[()]
        zero = np.zeros((), dtype)[()]
        near = self.both(lax.min_p, dtype, self.both(lax.max_p, dtype, number, zero), last)
        own = self.both(lax.eq_p, dtype, near, number)
        place = self.converted(Numbers(_object([near], ()), dtype), _INDEX)
        return place[()], own

    def at(self, value: Value, starts: Sequence[Number], offsets: Sequence[int]) -> Number:
        """The number of an array at ``starts + offsets``, all in range."""
        if isinstance(value, Table):
            sizes = [math.prod(value.shape[axis + 1 :]) for axis in range(len(starts))]
            flat: Number = np.int32(0)
            for start, offset, size in zip(starts, offsets, sizes, strict=True):
                place = self.both(lax.add_p, _INDEX, start, np.int32(offset))
                place = self.both(lax.mul_p, _INDEX, place, np.int32(size))
                flat = self.both(lax.add_p, _INDEX, flat, place)
            return self.read(value, flat)
        rest = as_numbers(self, value).each
        for start, offset in zip(starts, offsets, strict=True):
            if is_known(start):
                rest = rest[int(start) + offset]
                continue
            rows = rest[offset:]
            here = [self.both(lax.eq_p, _INDEX, start, np.int32(row)) for row in range(len(rows))]
            flat_rows = rows.reshape(len(rows), -1)
            chosen = []
            for column in flat_rows.T:
                found = column[-1]
                for row in reversed(range(len(rows) - 1)):
                    found = self.choose(here[row], value_dtype(value), column[row], found)
                chosen.append(found)
            rest = _object(chosen, rows.shape[1:])
            rest = rest if rest.ndim else rest[()]
        return rest


def is_known(number: Number) -> bool:
    """Whether a number is a NumPy scalar."""
    return isinstance(number, np.generic | bool | int | float)


def value_shape(value: Value) -> tuple[int, ...]:
    """Of one instance."""
    return value.each.shape if isinstance(value, Numbers) else value.shape


def value_dtype(value: Value) -> np.dtype:
    """Of its numbers."""
    return np.dtype(value.dtype)


def as_numbers(writer: Writer, value: Value) -> Numbers:
    """A value number by number; of a table, what is read from its places."""
    if isinstance(value, Numbers):
        return value
    size = math.prod(value.shape)
    if isinstance(value, Table):
        each = [writer.read(value, np.int32(place)) for place in range(size)]
    else:
        each = [number for number in value.reshape(-1)]
    return Numbers(_object(each, value.shape), np.dtype(value.dtype))


def _object(items: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(items), object)
    for at, item in enumerate(items):  # one by one: NumPy would take vectors apart
        found[at] = item
    return found.reshape(shape)


# Programs without calls.

_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "remat2": "jaxpr",
}
"""Primitives that call a program, and the parameter that it is in."""


class _Flat:
    """Equations of a program and of all that it calls, one after the other."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[int, Value] = {}
        self._numbers = itertools.count()

    def variable(self) -> int:
        return next(self._numbers)

    def write(self, closed: Any, inputs: Sequence[int | np.ndarray]) -> list[int | np.ndarray]:
        """Append a program's equations; its outputs."""
        found: dict[Any, int | np.ndarray] = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            found[variable] = number = self.variable()
            known = isinstance(constant, np.ndarray | np.generic)
            self.constants[number] = np.asarray(constant) if known else constant

        def read(variable: Any) -> int | np.ndarray:
            if isinstance(variable, core.Literal):
                aval: Any = variable.aval
                return np.asarray(variable.val, aval.dtype)
            return found[variable]

        for equation in closed.jaxpr.eqns:
            given = [read(each) for each in equation.invars]
            called = _CALLS.get(equation.primitive.name)
            if called is not None:
                inner = equation.params[called]
                inner = inner if hasattr(inner, "consts") else core.ClosedJaxpr(inner, ())
                outputs = self.write(inner, given)
            else:
                fresh = [self.variable() for _ in equation.outvars]
                avals = [each.aval for each in equation.outvars]
                shapes = [each.aval.shape for each in equation.invars]
                self.equations.append(
                    Equation(equation.primitive, equation.params, given, fresh, avals, shapes)
                )
                outputs = [*fresh]
            found.update(zip(equation.outvars, outputs, strict=True))
        return [read(each) for each in closed.jaxpr.outvars]


def _needed(equations: Sequence[Equation], outputs: Sequence[int | np.ndarray]) -> list[Equation]:
    """The equations that outputs depend on."""
    wanted = {each for each in outputs if isinstance(each, int)}
    kept = []
    for equation in reversed(equations):
        if wanted.isdisjoint(equation.outputs):
            continue
        kept.append(equation)
        wanted.update(each for each in equation.inputs if isinstance(each, int))
    return kept[::-1]


def _check(equation: Equation) -> None:
    """Refuse what no rule covers.

    Raises:
      JaxschedError: one line that names the primitive.
    """
    name, params = equation.primitive.name, equation.params
    refused = name not in RULES
    what = f"the primitive {name!r}"
    if name == "pad":
        refused = any(
            min(before, after, 0) or between for before, after, between in params["padding_config"]
        )
        what = "'pad' that cuts off or goes between"
    if name == "dot_general":
        refused = any(params["dimension_numbers"][1]) or equation.results[0].dtype == np.bool_
        what = "'dot_general' of several products side by side, or of flags"
    if name == "bitcast_convert_type":
        refused = equation.results[0].shape != equation.shapes[0]
        what = "'bitcast_convert_type' to another width"
    if not all(map(math.prod, equation.shapes)):
        refused, what = True, f"{name!r} of arrays without numbers"
    if refused:
        raise JaxschedError(f"lanes: no rule for {what}; use jax.vmap for this function")


def _read(values: dict[int, Value], item: int | np.ndarray) -> Any:
    return values.get(item) if isinstance(item, int) else item


def _whole(equation: Equation, values: Sequence[Any]) -> list[Value]:
    """An equation of known or shared arrays, as it is written."""
    primitive = equation.primitive
    if all(isinstance(value, np.ndarray) for value in values):
        with jax.ensure_compile_time_eval():
            found = primitive.bind(*map(jnp.asarray, values), **equation.params)
            found = found if primitive.multiple_results else [found]
            if not any(jnp.issubdtype(each.dtype, jax.dtypes.prng_key) for each in found):
                return [np.asarray(each) for each in found]
            return [*found]
    found = primitive.bind(*map(jnp.asarray, values), **equation.params)
    return [*found] if primitive.multiple_results else [found]


# Rules: ``(writer, equation, inputs) -> object arrays``, for equations with a value of the lanes.

_COMMUTE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}


def _without(name: str, numbers: Sequence[Number], dtypes: Sequence[np.dtype]) -> Number | None:
    """The result of an operation that need not be written; None: it must be."""
    if name == "select_n" and dtypes[0] == _FLAG:
        which, *cases = numbers
        if is_known(which):
            return cases[int(which)]
        if len(cases) == 2 and all(map(is_known, cases)):
            off, on = (np.asarray(case, dtypes[1]) for case in cases)
            if dtypes[1] == _FLAG and not off and on:
                return which
            return off[()] if off.tobytes() == on.tobytes() else None
        return cases[0] if all(case is cases[0] for case in cases) else None
    if len(numbers) != 2:
        return None
    if numbers[0] is numbers[1] and name in ("and", "or", "max", "min"):
        return numbers[0]
    dtype, exact = dtypes[0], not jnp.issubdtype(dtypes[0], jnp.floating)
    for (one, other), left in ((numbers, True), (numbers[::-1], False)):
        if not is_known(other):
            continue
        if dtype == _FLAG and name in ("and", "or"):
            return one if bool(other) == (name == "and") else np.bool_(name == "or")
        neutral = name in ("add", "or", "xor") or (
            left and name in ("sub", "shift_left", "shift_right_logical", "shift_right_arithmetic")
        )
        if exact and dtype != _FLAG and other == 0 and neutral:
            return one
        if exact and other == 0 and name in ("mul", "and"):
            return np.zeros((), dtype)[()]
        if other == 1 and (name == "mul" or (left and name == "div")):
            return one
        if exact and dtype != _FLAG and name in ("min", "max"):
            info = jnp.iinfo(dtype)
            if other == (info.max if name == "min" else info.min):
                return one
    return None


def _elementwise(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
    name, params = equation.primitive.name, equation.params
    numbers = [as_numbers(writer, value) for value in inputs]
    if name in ("copy", "stop_gradient"):
        return [numbers[0].each]
    dtypes = [each.dtype for each in numbers]
    if name == "convert_element_type" and dtypes[0] == equation.results[0].dtype:
        return [numbers[0].each]
    shape = equation.results[0].shape
    spread = [np.broadcast_to(each.each, shape) for each in numbers]
    found = [
        writer.do(equation.primitive, dtypes, *(each[place] for each in spread), **params)
        for place in np.ndindex(*shape)
    ]
    return [_object(found, shape)]


def _reduce(primitive: Any) -> Callable[..., list[np.ndarray]]:
    def rule(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
        numbers, axes = as_numbers(writer, inputs[0]), equation.params["axes"]
        each = numbers.each
        kept = [axis for axis in range(each.ndim) if axis not in axes]
        rows = np.transpose(each, [*kept, *axes]).reshape(
            math.prod(each.shape[axis] for axis in kept), -1
        )
        found = [writer.combine(primitive, numbers.dtype, row) for row in rows]
        return [_object(found, equation.results[0].shape)]

    return rule


def _running(primitive: Any) -> Callable[..., list[np.ndarray]]:
    def rule(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
        numbers, axis = as_numbers(writer, inputs[0]), equation.params["axis"]
        rows = np.moveaxis(numbers.each, axis, -1)
        rows = np.flip(rows, -1) if equation.params["reverse"] else rows
        add = partial(writer.both, primitive, numbers.dtype)
        found = [list(itertools.accumulate(row, add)) for row in rows.reshape(-1, rows.shape[-1])]
        result = _object([each for row in found for each in row], rows.shape)
        result = np.flip(result, -1) if equation.params["reverse"] else result
        return [np.moveaxis(result, -1, axis)]

    return rule


def _shape(change: Callable[..., np.ndarray]) -> Callable[..., list[np.ndarray]]:
    """Of an operation that only moves numbers: ``change(object arrays, params, shape)``."""

    def rule(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
        each = [as_numbers(writer, value).each for value in inputs]
        return [change(each, equation.params, equation.results[0].shape)]

    return rule


def _broadcast(each: list[np.ndarray], params: dict[str, Any], shape: tuple) -> np.ndarray:
    sizes = [1] * len(shape)
    for axis, place in enumerate(params["broadcast_dimensions"]):
        sizes[place] = each[0].shape[axis]
    return np.broadcast_to(each[0].reshape(sizes), shape)


def _slice(each: list[np.ndarray], params: dict[str, Any], shape: tuple) -> np.ndarray:
    del shape
    steps = params["strides"] or (1,) * each[0].ndim
    ranges = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return each[0][tuple(itertools.starmap(slice, ranges))]


def _pad(each: list[np.ndarray], params: dict[str, Any], shape: tuple) -> np.ndarray:
    found = _object([each[1][()]] * math.prod(shape), shape)
    inside = []
    for (before, _, _), size in zip(params["padding_config"], each[0].shape, strict=True):
        inside.append(slice(before, before + size))
    found[tuple(inside)] = each[0]
    return found


def _dynamic_slice(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
    value, *starts = inputs
    sizes = equation.params["slice_sizes"]
    found_starts = []
    for start, total, size in zip(starts, value_shape(value), sizes, strict=True):
        number = as_numbers(writer, start).each[()]
        found_starts.append(writer.index(number, value_dtype(start), total - size)[0])
    found = [writer.at(value, found_starts, place) for place in np.ndindex(*sizes)]
    return [_object(found, equation.results[0].shape)]


def _gather(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
    value, indices = inputs[0], as_numbers(writer, inputs[1])
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    mode, result = equation.params["mode"], equation.results[0]
    modes = lax.GatherScatterMode
    axes = range(len(value_shape(value)))
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [axis for axis in axes if axis not in removed]
    outer = [axis for axis in range(len(result.shape)) if axis not in numbers.offset_dims]
    known: dict[tuple[int, ...], tuple[list[Number], Number]] = {}

    def begin(where: tuple[int, ...]) -> tuple[list[Number], Number]:
        starts: list[Number] = [np.int32(0) for _ in axes]
        inside: Number = np.bool_(True)
        batching = zip(
            numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
        )
        for axis, place in batching:
            starts[axis] = np.int32(where[place])
        for at, axis in enumerate(numbers.start_index_map):
            most = value_shape(value)[axis] - sizes[axis]
            # Also of indices that are promised to be in range: a wrong promise reads the nearest.
            place = indices.each[(*where, at)]
            starts[axis], own = writer.index(place, indices.dtype, most)
            if mode == modes.FILL_OR_DROP:
                inside = writer.both(lax.and_p, _FLAG, inside, own)
        return starts, inside

    found = []
    for place in np.ndindex(*result.shape):
        where = tuple(place[axis] for axis in outer)
        if where not in known:
            known[where] = begin(where)
        starts, inside = known[where]
        offsets = [0 for _ in axes]
        for axis, at in zip(kept, numbers.offset_dims, strict=True):
            offsets[axis] = place[at]
        number = writer.at(value, starts, offsets)
        fill = equation.params["fill_value"]
        fill = _outside(np.dtype(result.dtype)) if fill is None else fill
        found.append(writer.choose(inside, np.dtype(result.dtype), number, fill))
    return [_object(found, result.shape)]


def _outside(dtype: np.dtype) -> Number:
    """What JAX reads beyond an array's end."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.asarray(np.nan, dtype)[()]
    if dtype == _FLAG:
        return np.bool_(True)
    info = jnp.iinfo(dtype)
    return np.asarray(info.max if info.min == 0 else info.min, dtype)[()]


def _arg(primitive: Any) -> Callable[..., list[np.ndarray]]:
    def rule(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
        numbers, [axis] = as_numbers(writer, inputs[0]), equation.params["axes"]
        dtype = np.dtype(equation.results[0].dtype)
        rows = np.moveaxis(numbers.each, axis, -1)
        found = []
        for row in rows.reshape(-1, rows.shape[-1]):
            best, where = row[0], np.zeros((), dtype)[()]
            for at, number in enumerate(row[1:], 1):
                better = writer.both(primitive, numbers.dtype, number, best)
                if jnp.issubdtype(numbers.dtype, jnp.floating):  # the first that is none wins
                    none = writer.both(lax.ne_p, numbers.dtype, number, number)
                    held = writer.both(lax.eq_p, numbers.dtype, best, best)
                    none = writer.both(lax.and_p, _FLAG, none, held)
                    better = writer.both(lax.or_p, _FLAG, better, none)
                best = writer.choose(better, numbers.dtype, number, best)
                where = writer.choose(better, dtype, np.asarray(at, dtype)[()], where)
            found.append(where)
        return [_object(found, equation.results[0].shape)]

    return rule


def _dot(writer: Writer, equation: Equation, inputs: Sequence[Value]) -> list[np.ndarray]:
    (summed, batched), result = equation.params["dimension_numbers"], equation.results[0]
    del batched  # none: ``_check``
    dtype, rows = np.dtype(result.dtype), []
    for value, axes in zip(inputs, summed, strict=True):
        numbers = as_numbers(writer, value)
        each = writer.converted(numbers, dtype)
        kept = [axis for axis in range(each.ndim) if axis not in axes]
        length = math.prod(each.shape[axis] for axis in axes)
        rows.append(np.transpose(each, [*kept, *axes]).reshape(-1, length))
    multiply = partial(writer.both, lax.mul_p, dtype)
    sums = partial(writer.combine, lax.add_p, dtype)
    found = [sums(map(multiply, a, b)) for a, b in itertools.product(*rows)]
    return [_object(found, result.shape)]


def _elementwise_names() -> Iterator[str]:
    yield from ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "integer_pow", "atan2")
    yield from ("and", "or", "xor", "not", "neg", "sign", "abs", "floor", "ceil", "round")
    yield from ("shift_left", "shift_right_logical", "shift_right_arithmetic", "square")
    yield from ("population_count", "clz", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt")
    yield from ("sin", "cos", "tanh", "logistic", "erf", "is_finite", "nextafter", "clamp")
    yield from ("eq", "ne", "lt", "le", "gt", "ge", "select_n", "copy", "stop_gradient")
    yield from ("convert_element_type", "bitcast_convert_type")


Rule = Callable[[Writer, Equation, Sequence[Value]], list[np.ndarray]]
RULES: dict[str, Rule] = {
    **dict.fromkeys(_elementwise_names(), _elementwise),
    "reduce_sum": _reduce(lax.add_p),
    "reduce_prod": _reduce(lax.mul_p),
    "reduce_max": _reduce(lax.max_p),
    "reduce_min": _reduce(lax.min_p),
    "reduce_or": _reduce(lax.or_p),
    "reduce_and": _reduce(lax.and_p),
    "cumsum": _running(lax.add_p),
    "cumprod": _running(lax.mul_p),
    "cummax": _running(lax.max_p),
    "cummin": _running(lax.min_p),
    "argmax": _arg(lax.gt_p),
    "argmin": _arg(lax.lt_p),
    "reshape": _shape(lambda each, _, shape: each[0].reshape(shape)),
    "squeeze": _shape(lambda each, _, shape: each[0].reshape(shape)),
    "broadcast_in_dim": _shape(_broadcast),
    "transpose": _shape(lambda each, params, _: np.transpose(each[0], params["permutation"])),
    "rev": _shape(lambda each, params, _: np.flip(each[0], params["dimensions"])),
    "slice": _shape(_slice),
    "concatenate": _shape(lambda each, params, _: np.concatenate(each, params["dimension"])),
    "stack": _shape(lambda each, params, _: np.stack(each, params["axis"])),
    "pad": _shape(_pad),
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "dot_general": _dot,
}
"""What each primitive becomes; beside calls, which are written out."""
