"""ONNX models of programs (``operations.py``), with a batch axis of any length in front.

Only values that depend on an input have the batch axis. Logarithms of one more are taken in double
precision, for which ONNX has no single operation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxsched import __version__
from jaxsched.errors import needed
from jaxsched.exports.operations import ELEMENTWISE, Step, run
from jaxsched.exports.steps import Program
from jaxsched.types import ArraySpec

OPSET = 17
IR_VERSION = 8  # of the file, the one that goes with the opset
BATCH = "batch"

_NODES = {
    "negative": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
    "sigmoid": "Sigmoid", "abs": "Abs", "sign": "Sign", "floor": "Floor", "round": "Round",
    "not": "Not", "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div",
    "remainder": "Mod", "power": "Pow", "maximum": "Max", "minimum": "Min", "less": "Less",
    "less_equal": "LessOrEqual", "equal": "Equal", "and": "And", "or": "Or", "where": "Where",
}  # fmt: skip


def onnx_model(
    program: Program,
    weights: Mapping[str, np.ndarray],
    inputs: Mapping[str, ArraySpec],
    facts: Mapping[str, str],
) -> bytes:
    """A model of opset 17 whose inputs and outputs have a first axis ``batch``.

    Args:
      program: what it computes.
      weights: by name.
      inputs: without the batch axis.
      facts: written into the model's metadata.

    Raises:
      JaxschedError: the package ``onnx`` is missing.
    """
    onnx = needed("onnx", "onnx")
    helper = onnx.helper
    graph = _Graph(helper, program, weights, inputs)
    for step in program.steps:
        graph.add(step)
    results = graph.outputs(program.outputs)
    specs = {name: graph.shapes[value] for name, value in program.outputs.items()}

    def described(name: str, dtype: Any, shape: Sequence[int]) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, [BATCH, *shape])

    given = [described(name, spec.dtype, spec.shape) for name, spec in inputs.items()]
    wanted = [described(name, *specs[name]) for name in results]
    tensors = [onnx.numpy_helper.from_array(x, name) for name, x in graph.tensors.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", given, wanted, tensors),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="jaxsched",
        producer_version=__version__,
    )
    helper.set_model_props(model, dict(facts))
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


class _Graph:
    """Nodes and tensors as they are added; names are those of the program's values."""

    def __init__(
        self,
        helper: Any,
        program: Program,
        weights: Mapping[str, np.ndarray],
        inputs: Mapping[str, ArraySpec],
    ) -> None:
        self._helper = helper
        self.nodes: list[Any] = []
        known = {**weights, **program.constants}
        used = {name for step in program.steps for name in step["inputs"]}
        used |= set(program.outputs.values())
        self.tensors = {name: np.asarray(x) for name, x in known.items() if name in used}
        self.batched = set(inputs)
        self._inputs = list(inputs)
        zeros = {name: np.zeros(spec.shape, spec.dtype) for name, spec in inputs.items()}
        values = run(program.steps, {**known, **zeros})
        self.shapes = {name: (x.dtype, x.shape) for name, x in values.items()}
        self._count = 0

    def add(self, step: Step) -> None:
        """The nodes of one step."""
        op, names = step["op"], step["inputs"]
        if any(name in self.batched for name in names):
            self.batched.add(step["output"])
        if op in ELEMENTWISE:
            self._elementwise(step)
        else:
            getattr(self, f"_{op}")(step, *names)

    def outputs(self, outputs: Mapping[str, str]) -> list[str]:
        """The program's outputs under their own names, all with a batch axis."""
        for name, value in outputs.items():
            self._node("Identity", [self._with_batch(value)], name)
        return list(outputs)

    def _node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        self._count += 1
        output = output or f"n{self._count}"
        self.nodes.append(
            self._helper.make_node(op, list(inputs), [output], f"{op}_{self._count}", **attributes)
        )
        return output

    def _whole(self, *numbers: int) -> str:
        """A tensor of int64 numbers."""
        name = f"int64{list(numbers)}"
        self.tensors[name] = np.asarray(numbers, np.int64)
        return name

    def _lead(self, name: str) -> int:
        return int(name in self.batched)

    def _with_batch(self, name: str) -> str:
        """A value as one with a batch axis."""
        if name in self.batched:
            return name
        shape = self.shapes[name][1]
        size = self._node("Shape", [self._inputs[0]], start=0, end=1)
        whole = self._node("Concat", [size, self._whole(*shape)], axis=0) if shape else size
        return self._node("Expand", [name, whole])

    def _elementwise(self, step: Step) -> None:
        op, output = step["op"], step["output"]
        rank = len(self.shapes[output][1])
        names = []
        for name in step["inputs"]:
            if name in self.batched and not self.shapes[name][1] and rank:
                name = self._node("Reshape", [name, self._whole(0, *[1] * rank)])
            names.append(name)
        if op == "log1p":
            double = self._cast_to(names[0], np.float64)
            one = self._constant("double(1)", np.float64(1))
            logarithm = self._node("Log", [self._node("Add", [double, one])])
            self._cast_to(logarithm, np.float32, output)
            return
        if op == "where" and self.shapes[output][0] == np.bool_:  # runtimes have none of bool
            condition, x, y = names
            other = self._node("And", [self._node("Not", [condition]), y])
            self._node("Or", [self._node("And", [condition, x]), other], output)
            return
        attributes = {"fmod": 1} if op == "remainder" else {}
        self._node(_NODES[op], names, output, **attributes)

    def _constant(self, name: str, value: Any) -> str:
        self.tensors[name] = np.asarray(value)
        return name

    def _cast_to(self, name: str, dtype: Any, output: str = "") -> str:
        kind = self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._node("Cast", [name], output, to=kind)

    def _cast(self, step: Step, x: str) -> None:
        self._cast_to(x, step["dtype"], step["output"])

    def _reshape(self, step: Step, x: str) -> None:
        shape = self._whole(*[0] * self._lead(x), *step["shape"])
        self._node("Reshape", [x, shape], step["output"])

    def _transpose(self, step: Step, x: str) -> None:
        lead = self._lead(x)
        order = [*range(lead), *(axis + lead for axis in step["order"])]
        self._node("Transpose", [x], step["output"], perm=order)

    def _broadcast(self, step: Step, x: str) -> None:
        shape = self._whole(*[1] * self._lead(x), *step["shape"])
        self._node("Expand", [x, shape], step["output"])

    def _slice(self, step: Step, x: str) -> None:
        lead, shape = self._lead(x), self.shapes[x][1]
        ranges = zip(step["starts"], step["stops"], step["strides"], strict=True)
        cut = {axis: r for axis, r in enumerate(ranges) if r != (0, shape[axis], 1)}
        if not cut:
            self._node("Identity", [x], step["output"])
            return
        starts, stops, strides = (self._whole(*part) for part in zip(*cut.values(), strict=True))
        axes = self._whole(*(axis + lead for axis in cut))
        self._node("Slice", [x, starts, stops, axes, strides], step["output"])

    def _concat(self, step: Step, *parts: str) -> None:
        lead = self._lead(step["output"])
        names = [self._with_batch(part) for part in parts] if lead else list(parts)
        self._node("Concat", names, step["output"], axis=step["axis"] + lead)

    def _sum(self, step: Step, x: str) -> None:
        axes = self._whole(*(axis + self._lead(x) for axis in step["axes"]))
        self._node("ReduceSum", [x, axes], step["output"], keepdims=0)

    def _largest(self, step: Step, x: str, op: str = "ReduceMax") -> None:
        axes = [axis + self._lead(x) for axis in step["axes"]]
        self._node(op, [x], step["output"], axes=axes, keepdims=0)

    def _smallest(self, step: Step, x: str) -> None:
        self._largest(step, x, "ReduceMin")

    def _first_largest(self, step: Step, x: str) -> None:
        found = self._node("ArgMax", [x], axis=step["axis"] + self._lead(x), keepdims=0)
        self._cast_to(found, np.int32, step["output"])

    def _cumulative_sum(self, step: Step, x: str) -> None:
        axis = self._constant(f"axis {step['axis']}", np.int64(step["axis"] + self._lead(x)))
        self._node("CumSum", [x, axis], step["output"])

    def _take(self, step: Step, x: str, index: str) -> None:
        if x in self.batched and index in self.batched:
            lead = [0] * (1 + len(self.shapes[index][1]))
            places = self._node("Reshape", [index, self._whole(*lead, 1)])
            places = self._cast_to(places, np.int64)
            self._node("GatherND", [x, places], step["output"], batch_dims=1)
        else:
            self._node("Gather", [x, index], step["output"], axis=self._lead(x))

    def _take_along(self, step: Step, x: str, index: str) -> None:
        lead = self._lead(step["output"])
        names = [self._with_batch(name) for name in (x, index)] if lead else [x, index]
        self._node("GatherElements", names, step["output"], axis=step["axis"] + lead)

    def _einsum(self, step: Step, *parts: str) -> None:
        given, _, result = step["equation"].partition("->")
        letters = [
            "z" * self._lead(part) + axes
            for part, axes in zip(parts, given.split(","), strict=True)
        ]
        result = "z" * self._lead(step["output"]) + result
        self._node("Einsum", parts, step["output"], equation=f"{','.join(letters)}->{result}")


Runner = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def onnx_runner(model: bytes) -> Runner:
    """What a model computes of a batch: by onnxruntime if it is installed, else by onnx itself.

    Args:
      model: the file's content.
    """
    try:
        import onnxruntime
    except ImportError:
        evaluator = needed("onnx.reference", "onnx").ReferenceEvaluator(model)
    else:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        evaluator = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def outputs(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if hasattr(evaluator, "get_outputs"):
            names = [output.name for output in evaluator.get_outputs()]
        else:
            names = list(evaluator.output_names)
        return dict(zip(names, evaluator.run(names, dict(inputs)), strict=True))

    return outputs
