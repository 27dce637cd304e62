"""From a JAX function of named arrays to a program of the operations in ``operations.py``.

The function is traced for one decision, without a batch axis. Loops of known length are unrolled,
what depends on no input is computed here, equal steps are written once, and steps whose results are
unused are left out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.extend import core as jex

from jaxsched.errors import JaxschedError
from jaxsched.exports.primitives import RULES
from jaxsched.exports.steps import (
    LARGEST_REPEATED,
    Program,
    Steps,
    Value,
    reshaped,
    row_of,
    sliced_axis,
    stacked,
)


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


class _Writer(Steps):
    """Steps of the equations of traced functions."""

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
        if name == "unstack":
            return self._unstacked(given[0], equation)
        rule = RULES.get(name)
        if rule is None:
            raise JaxschedError(
                f"the policy computes {name!r}, which the vocabulary of exports does not have"
            )
        return [rule(self, equation, *given)]

    def _split(self, value: Value, equation: Any) -> list[Value]:
        axis, shape = equation.params["axis"], equation.invars[0].aval.shape
        stops = np.cumsum(equation.params["sizes"]).tolist()
        return [
            sliced_axis(self, value, shape, axis, start, stop)
            for start, stop in zip([0, *stops], stops, strict=False)
        ]

    def _unstacked(self, value: Value, equation: Any) -> list[Value]:
        axis, shape = equation.params["axis"], equation.invars[0].aval.shape
        rest = (*shape[:axis], *shape[axis + 1 :])
        return [
            reshaped(self, sliced_axis(self, value, shape, axis, i, i + 1), rest)
            for i in range(shape[axis])
        ]

    def _unrolled(self, equation: Any, given: list[Value]) -> list[Value]:
        """A loop of known length, iteration by iteration."""
        p = equation.params
        num_fixed, num_state = _scan_counts(p)
        inner, carried = p["jaxpr"], num_fixed + num_state
        fixed, state = given[:num_fixed], given[num_fixed:carried]
        shapes = [variable.aval.shape for variable in equation.invars[carried:]]
        over = list(zip(given[carried:], shapes, strict=True))
        turns = range(p["length"])
        rows: dict[int, list[Value]] = {}
        for turn in reversed(turns) if p["reverse"] else turns:
            here = [row_of(self, value, shape, turn) for value, shape in over]
            found = self.follow(inner.jaxpr, inner.consts, [*fixed, *state, *here])
            state, rows[turn] = found[: len(state)], found[len(state) :]
        gathered = [
            stacked(self, [rows[turn][i] for turn in turns], variable.aval.shape[1:])
            for i, variable in enumerate(equation.outvars[len(state) :])
        ]
        return [*state, *gathered]


def _scan_counts(settings: Mapping[str, Any]) -> tuple[int, int]:
    """How many of a loop's inputs are constants, and how many are carried."""
    if "num_consts" in settings:
        return settings["num_consts"], settings["num_carry"]
    constants, carried, _ = settings["ft_in"].unpack()  # from jax 0.12 on
    return len(constants), len(carried)


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
