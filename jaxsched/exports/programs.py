"""The hand-over of policies that are more than scores of actions: format version 2.

    folder/
      manifest.json         inputs, outputs, the program between them, where it comes from
      policy.safetensors    weights and constants by the names that the program uses
      policy.onnx, policy.stablehlo    on request, as in format version 1

What the policy remembers is an input and an output, and so is its randomness: standard normal
numbers draw an action, zeros give the mean. The manifest ends with golden decisions, several in a
row, whose memory is carried from one to the next. ``examples/read_program.py`` reads such a folder
with NumPy alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.array_policy import NEXT, ArrayPolicy
from jaxsched.core.environment import Environment, look, start, step_and_look
from jaxsched.core.policies import View, uniform_reals
from jaxsched.exports.folder import check_free, sha256, write_folder
from jaxsched.exports.forms import Computation, check_rows, formats_of, forms_of
from jaxsched.exports.layout import GROUPS, feature_groups
from jaxsched.exports.manifest import (
    MANIFEST,
    PROGRAM_VERSION,
    WEIGHTS,
    ExportFacts,
    head,
    head_words,
    read_manifest,
    tensors_of,
    to_json,
)
from jaxsched.exports.operations import OPERATIONS, run
from jaxsched.exports.steps import Program
from jaxsched.exports.tracing import trace
from jaxsched.exports.weights import named_weights, to_bytes, unnamed
from jaxsched.types import Array, ArraySpec, Feature, PRNGKey, PyTree

TOLERANCE = 1e-4
"""Of golden outputs, relative to the largest entry of each, at least 1: float32 itself is that far
from float64 where a process over past decisions is solved for."""
SEQUENCES, DECISIONS = 4, 4
WARM_UP = 32  # decisions of random play before the golden ones

MEMORY = (
    "zero before the first decision of an episode; then the output next_<name> of the decision "
    "before"
)
NOISE = "standard normal numbers draw an action, zeros give the mean action"
DRAWS = {"greedy": "the policy plays the mean action", "sampled": "the policy draws its actions"}


class GoldenDecisions(NamedTuple):
    """Decisions in a row; leaves ``[S, T, ...]``, S sequences of T decisions.

    Attributes:
      inputs: by name, memory included; it is zero at the first decision of each sequence.
      outputs: by name.
    """

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def golden_decisions(
    env: Environment,
    params: Any,
    policy: ArrayPolicy,
    weights: PyTree,
    key: PRNGKey,
) -> GoldenDecisions:
    """Decisions that the policy takes after a random start; every second sequence is drawn.

    Args:
      env: the environment.
      params: its parameters.
      policy: what decides.
      weights: its weights.
      key: for episodes, the start and the draws.
    """
    with jax.default_matmul_precision("highest"):  # accelerators round inputs by default
        found = _play(env, policy.decide, tuple(policy.observation), _Zeros(policy), params,
                      weights, jax.random.split(key, SEQUENCES))  # fmt: skip
    return GoldenDecisions(*jax.tree.map(np.asarray, found))


class _Zeros:
    """Shapes of memory and noise as a static argument."""

    def __init__(self, policy: ArrayPolicy) -> None:
        self.memory, self.noise = policy.memory, policy.noise


@partial(jax.jit, static_argnames=("env", "decide", "seen_names", "zeros"))
def _play(
    env: Environment,
    decide: Callable[[PyTree, Mapping[str, Array]], dict[str, Array]],
    seen_names: Sequence[str],
    zeros: _Zeros,
    params: Any,
    weights: PyTree,
    keys: PRNGKey,
) -> tuple[dict[str, Array], dict[str, Array]]:
    rules = uniform_reals("random", env.action_spec(params))

    def step(carry: Any, given: Any) -> Any:
        """One step, random ones at first: these and the policy's share one program."""
        (current, memory), (key, warm, draws) = carry, given
        act_key, noise_key, step_key = jax.random.split(key, 3)
        view = View(*look(env, current, params), None, None)
        seen = named_parts(view.observation)
        noise = {
            name: draws * jax.random.normal(jax.random.fold_in(noise_key, i), spec.shape)
            for i, (name, spec) in enumerate(zeros.noise.items())
        }
        inputs = {**{name: seen[name] for name in seen_names}, **memory, **noise}
        outputs = decide(weights, inputs)
        randomly, _ = rules.act((), (), view, act_key)
        action = {name: jnp.where(warm, x, outputs[name]) for name, x in randomly.items()}
        current, _, _ = step_and_look(env, step_key, current, action, params)
        after = {name: outputs[f"{NEXT}{name}"] for name in memory}
        memory = jax.tree.map(lambda x: jnp.where(warm, jnp.zeros_like(x), x), after)
        return (current, memory), (inputs, outputs)

    def sequence(key: PRNGKey, draws: Array) -> Any:
        start_key, key = jax.random.split(key)
        current = start(env, start_key, params)
        memory = {name: spec.zeros() for name, spec in zeros.memory.items()}
        steps = WARM_UP + DECISIONS
        warm = jnp.arange(steps) < WARM_UP
        turns = jax.random.split(key, steps), warm, jnp.full(steps, draws)
        found = jax.lax.scan(step, (current, memory), turns)[1]
        return jax.tree.map(lambda x: x[WARM_UP:], found)

    draws = jnp.arange(keys.shape[0]) % 2
    found: tuple[dict[str, Array], dict[str, Array]] = jax.vmap(sequence)(
        keys, draws.astype(jnp.float32)
    )
    return found


def named_parts(observation: PyTree) -> dict[str, Array]:
    """The leaves of an observation by the names of their fields."""
    parts = observation._asdict() if hasattr(observation, "_asdict") else dict(observation)
    return {name: part for name, part in parts.items() if part is not None}


def export_program(
    directory: str | Path,
    *,
    facts: ExportFacts,
    policy: ArrayPolicy,
    features: Mapping[str, Feature],
    actions: Sequence[str],
    weights: PyTree,
    golden: GoldenDecisions,
    format: str | Sequence[str] = "safetensors",
    overwrite: bool = False,
) -> Path:
    """Write a hand-over folder of format version 2, whole or not at all.

    Args:
      directory: the folder; parents are created.
      facts: where the policy comes from.
      policy: what it computes; the parts of its observation have names for their entries.
      features: what the entries mean, by name with every number replaced by an asterisk.
      actions: names of the action's entries, those of its parts one after the other.
      weights: of the policy, float32.
      golden: see :func:`golden_decisions`.
      format: see ``hand_over.export_policy``.
      overwrite: replace an export that is there; never a folder that holds something else.

    Raises:
      JaxschedError: the policy cannot be written as a program, a form does not give the golden
        decisions, the folder exists, or it cannot be written.
    """
    formats = formats_of(format)
    path = Path(directory).absolute()
    check_free(path, overwrite, read_manifest)
    named = named_weights(weights)

    def function(flat: Mapping[str, Any], inputs: Mapping[str, Array]) -> dict[str, Array]:
        return policy.decide(unnamed(weights, flat), inputs)

    program = trace(function, named, policy.inputs)
    follow_golden(program.steps, {**named, **program.constants}, program.outputs, golden)
    given, wanted = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tuple(golden))
    computation = Computation(function, named, policy.inputs, given, wanted, TOLERANCE, program)
    forms = forms_of(formats, computation, head_words(facts, PROGRAM_VERSION))
    tensors = {**named, **program.constants}
    data = to_bytes(tensors)
    manifest = {
        **head(facts, PROGRAM_VERSION),
        **_interface(policy, program, features),
        "actions": {"names": list(actions), "choice": DRAWS[facts.play]},
        "program": {"operations": _used(program), "steps": program.steps},
        "weights": {
            "file": WEIGHTS,
            "sha256": sha256(data),
            "tensors": tensors_of(tensors),
            "constants": list(program.constants),
        },
        "files": {name: form.facts for name, form in forms.items()},
        "golden": {"tolerance": TOLERANCE, "sequences": _written(policy, golden)},
    }
    files = {WEIGHTS: data, **{name: form.data for name, form in forms.items()}}
    write_folder(path, {**files, MANIFEST: to_json(manifest).encode()})
    return path


def follow_golden(
    steps: Sequence[Mapping[str, Any]],
    tensors: Mapping[str, np.ndarray],
    outputs: Mapping[str, str],
    golden: GoldenDecisions,
) -> None:
    """Follow a program on golden decisions, carrying its memory.

    Raises:
      JaxschedError: it does not give their outputs.
    """
    memory_names = [name for name in golden.inputs if f"{NEXT}{name}" in outputs]
    for s in range(len(next(iter(golden.inputs.values())))):
        memory = {name: golden.inputs[name][s, 0] for name in memory_names}
        found = []
        for t in range(next(iter(golden.inputs.values())).shape[1]):
            inputs = {name: x[s, t] for name, x in golden.inputs.items()} | memory
            values = run([dict(step) for step in steps], {**tensors, **inputs})
            found.append({name: values[value] for name, value in outputs.items()})
            memory = {name: found[-1][f"{NEXT}{name}"] for name in memory_names}
        rows = {name: np.stack([row[name] for row in found]) for name in outputs}
        wanted = {name: x[s] for name, x in golden.outputs.items()}
        check_rows("the program", rows, wanted, TOLERANCE)


def _used(program: Program) -> dict[str, str]:
    """The part of the vocabulary that the program speaks."""
    spoken = {step["op"] for step in program.steps}
    return {op: text for op, text in OPERATIONS.items() if op in spoken}


def _interface(
    policy: ArrayPolicy, program: Program, features: Mapping[str, Feature]
) -> dict[str, Any]:
    """Inputs and outputs as the manifest describes them."""

    def described(name: str, role: str, spec: ArraySpec, **more: Any) -> dict[str, Any]:
        dtype = np.dtype(spec.dtype).name
        return {"name": name, "role": role, "shape": spec.shape, "dtype": dtype, **more}

    inputs = []
    for name, spec in policy.observation.items():
        entries = {"groups": feature_groups(spec.names, features), "names": spec.names}
        inputs.append(described(name, "observation", spec, **entries))
    inputs += [described(name, "memory", spec) for name, spec in policy.memory.items()]
    inputs += [described(name, "noise", spec) for name, spec in policy.noise.items()]
    outputs = [
        described(name, "action", spec, value=program.outputs[name])
        for name, spec in policy.action.items()
    ]
    outputs += [
        described(f"{NEXT}{name}", "memory", spec, value=program.outputs[f"{NEXT}{name}"])
        for name, spec in policy.memory.items()
    ]
    words = {"layout": GROUPS, "memory": MEMORY, "noise": NOISE}
    return {"roles": words, "inputs": inputs, "outputs": outputs}


def _written(policy: ArrayPolicy, golden: GoldenDecisions) -> list[list[dict[str, Any]]]:
    """Golden decisions as they stand in the manifest: without the memory, which is carried."""
    num, length = next(iter(golden.inputs.values())).shape[:2]
    seen = (*policy.observation, *policy.noise)
    return [
        [
            {
                "inputs": {name: golden.inputs[name][s, t] for name in seen},
                "outputs": {name: golden.outputs[name][s, t] for name in policy.action},
            }
            for t in range(length)
        ]
        for s in range(num)
    ]
