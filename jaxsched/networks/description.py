"""A network as data, for readers without JAX: the steps from an observation to scores.

Each step is a plain dictionary: ``op``, what it reads (``input`` or ``inputs``), the name of its
``output``, and the op's own settings. Steps run in order; the last one's output is ``scores``.
Weights are named ``layer.kernel`` and ``layer.bias``, those of an affine step ``layer.scale`` and
``layer.offset``. ``OPERATIONS`` is the whole vocabulary; it
travels in every exported manifest.

Golden rows are states of the system with what the policy makes of them; following the description
has to give the same.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError

Step: TypeAlias = dict[str, Any]
Floats: TypeAlias = npt.NDArray[np.float32]
Activation = Literal["relu", "linear"]

OBSERVATION = "observation"
SCORES = "scores"
TOLERANCE = 1e-4  # of golden scores, relative to the largest of them (float32, any sum order)

OPERATIONS = {
    "log1p": "output = log1p(multiply * input) / divide, elementwise",
    "slice": "output = input[..., start:stop]; a stop of null means to the end",
    "reshape": "output = input in the given shape, row-major (the last axis varies fastest)",
    "dense": "output = activation(input @ kernel + bias) over the last axis, kernel [in, size], "
    "the same weights for every leading index; activation relu is max(0, y), linear is y",
    "affine": "output = input * scale + offset, elementwise over the last axis",
    "concat": "output = inputs one after the other along the last axis",
    "repeat": "output = count copies of input along a new first axis",
    "mean": "output = mean of input over its first axis",
    "add": "output = sum of the two inputs; an input of length 1 is added to every entry",
}


class GoldenRows(NamedTuple):
    """States of the system and what the policy makes of them."""

    observation: Floats  # [R, D]
    mask: npt.NDArray[np.bool_]  # [R, A]
    scores: Floats  # [R, A]
    action: npt.NDArray[np.int32]  # [R]


def log1p(source: str, output: str, *, multiply: float, divide: float) -> Step:
    """``log1p(multiply * x) / divide``."""
    return {
        "op": "log1p",
        "input": source,
        "output": output,
        "multiply": multiply,
        "divide": divide,
    }


def take(source: str, output: str, *, start: int = 0, stop: int | None = None) -> Step:
    """Entries ``start .. stop - 1`` of the last axis; to the end if ``stop`` is None."""
    return {"op": "slice", "input": source, "output": output, "start": start, "stop": stop}


def reshape(source: str, output: str, shape: Sequence[int]) -> Step:
    """The same numbers in another shape, row-major."""
    return {"op": "reshape", "input": source, "output": output, "shape": list(shape)}


def dense(
    source: str,
    layer: str,
    size: int,
    *,
    activation: Activation = "relu",
    output: str | None = None,
) -> Step:
    """``activation(x @ kernel + bias)``, ``size`` numbers; called as the layer by default."""
    return {
        "op": "dense",
        "input": source,
        "output": output or layer,
        "kernel": f"{layer}.kernel",
        "bias": f"{layer}.bias",
        "size": size,
        "activation": activation,
    }


def affine(source: str, layer: str) -> Step:
    """``x * scale + offset``, entry by entry; called as the layer."""
    weights = {part: f"{layer}.{part}" for part in _WEIGHTS["affine"]}
    return {"op": "affine", "input": source, "output": layer, **weights}


def layer_of(step: Step) -> str:
    """The layer whose weights a dense or affine step reads."""
    first = _WEIGHTS[step["op"]][0]
    layer: str = step[first].removesuffix(f".{first}")
    return layer


def dense_stack(
    source: str, name: str, sizes: Sequence[int], *, affines: bool = False
) -> list[Step]:
    """Dense layers ``name_0``, ``name_1``, ... with ReLU, one after the other.

    With ``affines`` each is followed by an affine step, ``name_0_affine``, ...
    """
    if affines:
        last, steps = source, []
        for i, size in enumerate(sizes):
            layer, after = f"{name}_{i}", f"{name}_{i}_affine"
            steps += [dense(last, layer, size), affine(layer, after)]
            last = after
        return steps
    names = [source, *(f"{name}_{i}" for i in range(len(sizes)))]
    return [
        dense(before, layer, size)
        for (before, layer), size in zip(pairwise(names), sizes, strict=True)
    ]


def last_of(source: str, name: str, sizes: Sequence[int], *, affines: bool = False) -> str:
    """The output of ``dense_stack``."""
    suffix = "_affine" if affines else ""
    return f"{name}_{len(sizes) - 1}{suffix}" if sizes else source


def concat(sources: Sequence[str], output: str) -> Step:
    """Joins along the last axis."""
    return {"op": "concat", "inputs": list(sources), "output": output}


def repeat(source: str, output: str, count: int) -> Step:
    """``count`` copies along a new first axis."""
    return {"op": "repeat", "input": source, "output": output, "count": count}


def mean(source: str, output: str) -> Step:
    """Mean over the first axis."""
    return {"op": "mean", "input": source, "output": output}


def add(sources: Sequence[str], output: str) -> Step:
    """Sum of two inputs; one of length 1 is added to every entry."""
    return {"op": "add", "inputs": list(sources), "output": output}


def weight_names(steps: Sequence[Step]) -> tuple[str, ...]:
    """Names of the weights that the steps read."""
    return tuple(step[part] for step in steps for part in _WEIGHTS.get(step["op"], ()))


def evaluate(
    steps: Sequence[Step], weights: Mapping[str, Floats], observation: npt.ArrayLike
) -> Floats:
    """Follow the steps with NumPy alone.

    Args:
      steps: the description.
      weights: name -> array.
      observation: one observation, float32 ``[D]``.

    Returns:
      The scores, float32 ``[A]``.

    Raises:
      JaxschedError: a step that is unknown, or that does not fit the weights or its input.
    """

    def layer(step: Step, x: Floats) -> Floats:
        if step["op"] == "affine":
            return x * weights[step["scale"]] + weights[step["offset"]]
        # Some builds of BLAS read beyond small arrays and raise the flag for what they find there.
        with np.errstate(invalid="ignore"):
            y = x @ weights[step["kernel"]] + weights[step["bias"]]
        return np.maximum(y, 0) if step["activation"] == "relu" else y

    scores: Floats = follow(steps, np.asarray(observation, np.float32), layer, np)
    return scores


def follow(
    steps: Sequence[Step],
    observation: Any,
    layer: Callable[[Step, Any], Any],
    arrays: Any,
    lead: int = 0,
) -> Any:
    """Follow the steps.

    Args:
      steps: the description.
      observation: float32 ``[..., D]``.
      layer: ``(step, input) -> output``, a step with weights: dense or affine.
      arrays: the module whose functions compute: NumPy's or JAX's.
      lead: number of axes before D, which no step knows of.

    Returns:
      The scores, float32 ``[..., A]``.

    Raises:
      JaxschedError: a step that is unknown, or that does not fit the weights or its input.
    """
    values = {OBSERVATION: observation}
    for number, step in enumerate(steps):
        try:
            values[step["output"]] = _apply(step, values, layer, arrays, lead)
        except KeyError as error:
            raise JaxschedError(f"network step {number} needs {error}, which is absent") from error
        except ValueError as error:
            raise JaxschedError(f"network step {number} ({step['op']}): {error}") from error
    if SCORES not in values:
        raise JaxschedError(f"no step of the network has the output {SCORES!r}")
    return values[SCORES]


def greedy(scores: np.ndarray, mask: np.ndarray) -> npt.NDArray[np.int32]:
    """The legal action of the highest score, of equal ones the lowest index; leads with rows."""
    return np.argmax(np.where(mask, scores, -np.inf), axis=-1).astype(np.int32)


def check_parity(
    network: Sequence[Step], weights: Mapping[str, Floats], golden: GoldenRows
) -> float:
    """Follow the description on the golden rows; returns the tolerance for their scores.

    Raises:
      JaxschedError: scores or actions differ.
    """
    tolerance = TOLERANCE * max(1.0, float(np.abs(golden.scores).max()))
    found = np.stack([evaluate(network, weights, row) for row in golden.observation])
    if found.shape != golden.scores.shape:
        raise JaxschedError(
            f"the network description gives {found.shape[1:]} scores, "
            f"expected {golden.scores.shape[1:]}"
        )
    worst = float(np.abs(found - golden.scores).max())
    if not worst <= tolerance:
        raise JaxschedError(
            f"the network description misses the golden scores by {worst:.3g}; "
            f"accepted: {tolerance:.3g}"
        )
    if not np.array_equal(greedy(found, golden.mask), golden.action):
        raise JaxschedError(
            "the network description gives other actions than the golden rows; if scores are "
            "nearly tied there, draw the rows with another key"
        )
    return tolerance


_WEIGHTS = {"dense": ("kernel", "bias"), "affine": ("scale", "offset")}


def _apply(
    step: Step,
    values: Mapping[str, Any],
    layer: Callable[[Step, Any], Any],
    arrays: Any,
    lead: int,
) -> Any:
    op = step["op"]
    if op not in OPERATIONS:
        raise JaxschedError(f"unknown operation {op!r}; known are {', '.join(OPERATIONS)}")
    if op == "concat":
        return arrays.concatenate([values[name] for name in step["inputs"]], axis=-1)
    if op == "add":
        first, second = (values[name] for name in step["inputs"])
        return first + second
    x = values[step["input"]]
    batch, rest = x.shape[:lead], x.shape[lead:]
    if op == "repeat":
        return arrays.broadcast_to(arrays.expand_dims(x, lead), (*batch, step["count"], *rest))
    if op == "mean":
        return arrays.mean(x, axis=lead)
    if op == "log1p":
        return arrays.log1p(np.float32(step["multiply"]) * x) / np.float32(step["divide"])
    if op == "slice":
        return x[..., step["start"] : step["stop"]]
    if op == "reshape":
        return x.reshape(*batch, *step["shape"])
    return layer(step, x)
