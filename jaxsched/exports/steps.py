"""Programs of array operations as they are written.

Equal steps are written once, and what is known already is kept as a constant.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.exports.operations import ELEMENTWISE, Step

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


class Steps:
    """Steps as they are written; results of all methods are names or known arrays."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, np.ndarray] = {}
        self._known: dict[Any, str] = {}

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
        if value.dtype == np.uint32 and value.max(initial=0) < 2**31:
            value = value.astype(np.int32)  # bit sets of less than 32 entries
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


def sliced(writer: Steps, value: Value, starts: Any, stops: Any, strides: Any = None) -> Value:
    """Entries ``starts .. stops - 1`` of each axis, in strides of 1 unless they are given."""
    strides = [1] * len(starts) if strides is None else strides
    if isinstance(value, np.ndarray):
        return value[tuple(map(slice, starts, stops, strides))]
    ranges = {"starts": starts, "stops": stops, "strides": strides}
    return writer.step("slice", value, **{k: [int(x) for x in v] for k, v in ranges.items()})


def sliced_axis(
    writer: Steps, value: Value, shape: Sequence[int], axis: int, start: int, stop: int
) -> Value:
    """Entries ``start .. stop - 1`` of one axis of a value of that shape."""
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = start, stop
    return sliced(writer, value, starts, stops)


def reshaped(writer: Steps, value: Value, shape: Sequence[int]) -> Value:
    """The same numbers in another shape, row-major."""
    if isinstance(value, np.ndarray):
        return value.reshape(shape)
    return writer.step("reshape", value, shape=[int(n) for n in shape])


def row_of(writer: Steps, value: Value, shape: Sequence[int], index: int) -> Value:
    """One entry of the first axis of a value of that shape."""
    return reshaped(writer, sliced_axis(writer, value, shape, 0, index, index + 1), shape[1:])


def stacked(writer: Steps, rows: Sequence[Value], shape: Sequence[int]) -> Value:
    """Values of one shape on a new first axis."""
    if all(isinstance(row, np.ndarray) for row in rows):
        return np.stack(cast(list[np.ndarray], list(rows)))
    rows = [reshaped(writer, row, (1, *shape)) for row in rows]
    return writer.step("concat", *rows, axis=0)
