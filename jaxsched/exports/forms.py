"""The other forms of a policy in a hand-over folder: ``policy.onnx`` and ``policy.stablehlo``.

Both hold the weights and take a batch of any size. Each is run on the golden rows before it is
kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export as jax_export

from jaxsched.errors import JaxschedError
from jaxsched.exports.folder import sha256
from jaxsched.exports.onnx_graph import BATCH, OPSET, onnx_model, onnx_runner
from jaxsched.exports.steps import Program
from jaxsched.exports.tracing import trace
from jaxsched.types import Array, ArraySpec

ONNX, STABLEHLO = "onnx", "stablehlo"
FORMATS = ("safetensors", ONNX, STABLEHLO)
PLATFORMS = ("cpu", "cuda")

Arrays = Mapping[str, np.ndarray]


class Computation(NamedTuple):
    """What a form has to compute.

    Attributes:
      function: ``(weights, inputs) -> outputs`` of one decision, dictionaries of arrays.
      weights: by name.
      inputs: by name, without a batch axis.
      given: inputs of golden rows ``[R, ...]``.
      wanted: their outputs ``[R, ...]``.
      tolerance: of an output, relative to its largest entry, at least 1.
      program: the function as a program, if it has been traced already.
    """

    function: Callable[[Any, Mapping[str, Array]], Mapping[str, Array]]
    weights: Arrays
    inputs: Mapping[str, ArraySpec]
    given: Arrays
    wanted: Arrays
    tolerance: float
    program: Program | None = None


class Form(NamedTuple):
    """A file and what the manifest says of it."""

    data: bytes
    facts: dict[str, Any]


def formats_of(words: str | Iterable[str]) -> tuple[str, ...]:
    """Names of formats, from one with commas or several; the weights are always among them.

    Raises:
      JaxschedError: no such format.
    """
    several = [words] if isinstance(words, str) else list(words)
    chosen = [name.strip() for word in several for name in word.split(",")]
    for name in chosen:
        if name not in FORMATS:
            raise JaxschedError(f"unknown export format {name!r}; accepted: {', '.join(FORMATS)}")
    return tuple(name for name in FORMATS if name == FORMATS[0] or name in chosen)


def forms_of(
    formats: Sequence[str],
    computation: Computation,
    facts: Mapping[str, str],
    name: str = "policy",
) -> dict[str, Form]:
    """The files of these formats beside that of the weights.

    Args:
      formats: some of ``FORMATS``.
      computation: what they compute.
      facts: for the metadata of a form that has any.
      name: of the files, before the dot.

    Raises:
      JaxschedError: a package is missing, or a form does not give the golden rows.
    """
    makers = {ONNX: _onnx_form, STABLEHLO: _stablehlo_form}
    chosen = {f"{name}.{kind}": make for kind, make in makers.items() if kind in formats}
    return {file: make(file, computation, facts) for file, make in chosen.items()}


def check_rows(name: str, found: Arrays, wanted: Arrays, tolerance: float) -> None:
    """Refuse what does not give the golden rows.

    Args:
      name: of what was run, for the message.
      found: its outputs.
      wanted: those of the golden rows.
      tolerance: relative, see ``Computation``.

    Raises:
      JaxschedError: an output is absent, or differs.
    """
    for output, values in wanted.items():
        there = np.asarray(found[output]) if output in found else None
        if there is None or there.shape != values.shape or there.dtype != values.dtype:
            shape = None if there is None else [*there.shape]
            raise JaxschedError(
                f"{name}: {output} is {shape}, expected {values.dtype} {[*values.shape]}"
            )
        if values.dtype != np.float32:
            if not np.array_equal(there, values):
                raise JaxschedError(f"{name}: gives another {output} than the golden rows")
            continue
        accepted = tolerance * max(1.0, float(np.abs(values).max(initial=0.0)))
        worst = float(np.abs(there - values).max(initial=0.0))
        if not worst <= accepted:
            raise JaxschedError(
                f"{name}: misses the golden {output} by {worst:.3g}; accepted: {accepted:.3g}"
            )


def _facts(data: bytes, computation: Computation, **own: Any) -> dict[str, Any]:
    def described(specs: Mapping[str, Any], lead: int) -> dict[str, Any]:
        return {
            name: {"shape": [BATCH, *spec.shape[lead:]], "dtype": np.dtype(spec.dtype).name}
            for name, spec in specs.items()
        }

    return {
        "sha256": sha256(data),
        **own,
        "inputs": described(computation.inputs, 0),
        "outputs": described(computation.wanted, 1),
        "tolerance": computation.tolerance,
    }


def _onnx_form(file: str, computation: Computation, facts: Mapping[str, str]) -> Form:
    program = computation.program
    if program is None:
        program = trace(computation.function, computation.weights, computation.inputs)
    data = onnx_model(program, computation.weights, computation.inputs, facts)
    found = onnx_runner(data)(computation.given)
    check_rows(file, found, computation.wanted, computation.tolerance)
    return Form(data, _facts(data, computation, opset=OPSET))


def _stablehlo_form(file: str, computation: Computation, facts: Mapping[str, str]) -> Form:
    del facts
    weights = {name: np.asarray(x) for name, x in computation.weights.items()}
    exported = batched_export(
        lambda inputs: computation.function(weights, inputs), computation.inputs
    )
    data = bytes(exported.serialize())
    found = jax_export.deserialize(bytearray(data)).call(
        {name: np.asarray(x) for name, x in computation.given.items()}
    )
    found = {name: np.asarray(x) for name, x in found.items()}
    check_rows(file, found, computation.wanted, computation.tolerance)
    version = int(exported.calling_convention_version)
    own = {"jax": jax.__version__, "platforms": list(PLATFORMS), "calling_convention": version}
    return Form(data, _facts(data, computation, **own))


def batched_export(
    function: Callable[[Any], Any], inputs: Mapping[str, Any]
) -> jax_export.Exported:
    """A function of one dictionary of arrays, exported for a batch of any size.

    Args:
      function: ``inputs -> outputs`` without a batch axis.
      inputs: specs by name.
    """
    (batch,) = jax_export.symbolic_shape(BATCH)
    shapes = {
        name: jax.ShapeDtypeStruct((batch, *spec.shape), spec.dtype)
        for name, spec in inputs.items()
    }
    with jax.default_matmul_precision("highest"):  # accelerators round inputs by default
        return jax_export.export(jax.jit(jax.vmap(function)), platforms=PLATFORMS)(shapes)
