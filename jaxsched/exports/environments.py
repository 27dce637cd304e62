"""The hand-over of an environment: ``reset`` and ``step`` as StableHLO, for programs without us.

    folder/
      environment.json      what goes in and comes out, and where it comes from
      reset.stablehlo       a batch of episodes begins
      step.stablehlo        a batch of states takes a step
      params.safetensors    the environment's parameters: job tables, scales, weights
      golden.safetensors    a few steps of a few copies, to check a reader with

Both functions are ``jax.export`` files for CPU and CUDA with a batch axis of any length; they take
and give one dictionary of arrays, whose names tell the layout of states and observations.
``examples/play_environment.py`` plays with JAX alone.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.exports.folder import check_free, read_file, sha256, write_folder
from jaxsched.exports.forms import PLATFORMS, check_rows
from jaxsched.exports.manifest import provenance, to_json
from jaxsched.exports.schema import check_document, read_json
from jaxsched.exports.weights import from_bytes, to_bytes
from jaxsched.systems.functions import environment_options
from jaxsched.systems.system import System
from jaxsched.types import Array, DiscreteSpec, PyTree

FORMAT, FORMAT_VERSION = "jaxsched-environment", 1
MANIFEST, PARAMS, GOLDEN = "environment.json", "params.safetensors", "golden.safetensors"
BATCH = "batch"
COPIES, STEPS = 3, 12  # of the golden steps
TOLERANCE = 1e-5  # of golden rewards and observations, relative to the largest, at least 1

STATE, ACTION, PARAM = "state", "action", "params"
WORDS = {
    "key": "two uint32 numbers of which random keys are made; other numbers, other draws",
    "episode": "number of the episode to begin, below num_episodes",
    "state": "as reset or step gave it; a finished state stays as it is, with reward 0",
    "params": "the arrays of params.safetensors, without a batch axis",
    "mask": "true where an action is legal; at least one entry is",
    "elapsed": "simulated seconds that passed during the step",
}

Arrays = Mapping[str, Any]
Calls = Mapping[str, Callable[[Arrays], dict[str, Any]]]


def named_leaves(prefix: str, tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their paths; a random key is two numbers."""
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in _by_path(prefix, tree)
    }


class Functions(NamedTuple):
    """An environment as functions of dictionaries of arrays, without batch axes.

    Attributes:
      reset: ``(params, {key, episode}) -> {state..., observation..., mask..., ...}``.
      step: ``(params, {key, state..., action...}) -> the same``.
      given: specs of what each takes beside the parameters, by function.
    """

    reset: Callable[[Arrays, Arrays], dict[str, Any]]
    step: Callable[[Arrays, Arrays], dict[str, Any]]
    given: Mapping[str, Arrays]


def functions_of(env: Environment, params: PyTree) -> Functions:
    """The environment's functions of dictionaries."""
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0), params, jnp.int32(0))[0])
    spec = env.action_spec(params)
    action = jax.tree.map(
        lambda s: (
            jax.ShapeDtypeStruct((), jnp.int32)
            if isinstance(s, DiscreteSpec)
            else jax.ShapeDtypeStruct(s.shape, s.dtype)
        ),
        spec,
        is_leaf=lambda s: hasattr(s, "minimum"),
    )

    def reported(state: PyTree, timestep: Any) -> dict[str, Any]:
        mask = named_leaves("mask", timestep.action_mask)
        rest = {name: getattr(timestep, name) for name in _SCALARS}
        seen = named_leaves("observation", timestep.observation)
        metrics = named_leaves("metrics", timestep.metrics)
        return {**named_leaves(STATE, state), **seen, **mask, **rest, **metrics}

    def reset(flat: Arrays, inputs: Arrays) -> dict[str, Any]:
        key = jax.random.wrap_key_data(inputs["key"])
        return reported(*env.reset(key, _tree(PARAM, params, flat), inputs["episode"]))

    def step(flat: Arrays, inputs: Arrays) -> dict[str, Any]:
        key = jax.random.wrap_key_data(inputs["key"])
        now, chosen = _tree(STATE, state, inputs), _tree(ACTION, action, inputs)
        return reported(*env.step(key, now, chosen, _tree(PARAM, params, flat)))

    key = {"key": jax.ShapeDtypeStruct((2,), jnp.uint32)}
    numbers = jax.eval_shape(lambda x: named_leaves(STATE, x), state)
    given = {
        "reset": {**key, "episode": jax.ShapeDtypeStruct((), jnp.int32)},
        "step": {**key, **numbers, **named_leaves(ACTION, action)},
    }
    return Functions(reset, step, given)


def export_environment(
    system: System, env: Environment, params: PyTree, directory: str | Path, overwrite: bool = False
) -> Path:
    """Write an environment with its parameters, whole or not at all.

    Args:
      system: whose environment it is.
      env: the environment.
      params: its parameters.
      directory: the folder; parents are created.
      overwrite: replace an exported environment that is there; never something else.

    Raises:
      JaxschedError: the exported functions differ from the environment, the folder exists, or it
        cannot be written.
    """
    path = Path(directory).absolute()
    check_free(path, overwrite, read_environment)
    functions = functions_of(env, params)
    arrays = {name: np.asarray(x) for name, x in named_leaves(PARAM, params).items()}
    exported = {name: exported_function(functions, name, arrays) for name in functions.given}
    files = {f"{name}.stablehlo": bytes(e.serialize()) for name, e in exported.items()}
    golden = golden_steps(env, params, functions, arrays)
    calls = {name: _call(files[f"{name}.stablehlo"], arrays) for name in exported}
    check_steps(calls, golden)
    files |= {PARAMS: to_bytes(arrays), GOLDEN: to_bytes(golden)}
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "system": system.name,
        "behaviour_version": system.environment.behaviour_version,
        "environment": environment_options(system, env),
        "provenance": provenance(),
        "jax": jax.__version__,
        "platforms": PLATFORMS,
        "words": WORDS,
        "num_episodes": env.num_episodes(params),
        "max_steps": env.max_steps(params),
        "actions": _actions(env, params),
        "files": {n: {"bytes": len(d), "sha256": sha256(d)} for n, d in files.items()},
        "functions": {
            name: {
                "file": f"{name}.stablehlo",
                "inputs": _described(functions.given[name]),
                "outputs": _described(_outputs(functions, name, arrays)),
            }
            for name in exported
        },
        "params": {name: _entry(x.shape, x.dtype) for name, x in arrays.items()},
        "golden": {"tolerance": TOLERANCE, "copies": COPIES, "steps": STEPS},
    }
    write_folder(path, {**files, MANIFEST: to_json(manifest).encode()})
    return path


def read_environment(directory: str | Path) -> dict[str, Any]:
    """The manifest of an exported environment, whose files are as it says.

    Raises:
      JaxschedError: there is none, or it is damaged.
    """
    path = Path(directory)
    manifest = read_json(path / MANIFEST)
    try:
        check_document(manifest, "environment_1")
    except JaxschedError as error:
        raise JaxschedError(f"{path}: not a complete environment: {error}") from error
    for name, facts in manifest["files"].items():
        read_file(path / name, facts["bytes"], facts["sha256"])
    return manifest


def load_environment(directory: str | Path) -> tuple[dict[str, Any], Calls]:
    """The manifest of an exported environment and its two functions of batches.

    Raises:
      JaxschedError: there is none, or it is damaged.
    """
    path = Path(directory)
    manifest = read_environment(path)
    arrays = from_bytes(read_file(path / PARAMS), path / PARAMS)
    files = {name: read_file(path / f"{name}.stablehlo") for name in manifest["functions"]}
    return manifest, {name: _call(data, arrays) for name, data in files.items()}


def golden_steps(
    env: Environment, params: PyTree, functions: Functions, arrays: Arrays
) -> dict[str, np.ndarray]:
    """What a few copies do under random legal actions, ``[STEPS, COPIES, ...]`` by name.

    Names are those of the functions' inputs and outputs; ``first.`` stands before those of the
    reset, whose leaves are ``[COPIES, ...]``.
    """
    random = np.random.default_rng(0)
    native = {
        name: jax.jit(jax.vmap(function, (None, 0)))
        for name, function in (("reset", functions.reset), ("step", functions.step))
    }

    def keys() -> np.ndarray:
        return random.integers(0, 2**32, (COPIES, 2), dtype=np.uint32)

    begun = {
        "key": keys(),
        "episode": (np.arange(COPIES) % env.num_episodes(params)).astype(np.int32),
    }
    found = native["reset"](arrays, begun)
    shown = ("observation", "mask", "reward", "terminated")
    golden = {f"first.{k}": np.asarray(x) for k, x in {**begun, **_some(found, shown)}.items()}
    rows: list[dict[str, np.ndarray]] = []
    for _ in range(STEPS):
        actions = _random_actions(random, functions.given["step"], found)
        given = {"key": keys(), **actions}
        found = native["step"](arrays, {**given, **_some(found, (STATE,))})
        rows.append({k: np.asarray(x) for k, x in {**given, **_some(found, shown)}.items()})
    return {**golden, **{name: np.stack([row[name] for row in rows]) for name in rows[0]}}


def check_steps(calls: Calls, golden: Mapping[str, np.ndarray]) -> None:
    """Play golden steps again.

    Raises:
      JaxschedError: something differs.
    """
    first = {k.removeprefix("first."): x for k, x in golden.items() if k.startswith("first.")}
    begun = {name: first.pop(name) for name in ("key", "episode")}
    found = calls["reset"](begun)
    check_rows("reset.stablehlo", _plain(found), first, TOLERANCE)
    steps = {name: x for name, x in golden.items() if not name.startswith("first.")}
    for t in range(len(steps["key"])):
        row = {name: x[t] for name, x in steps.items()}
        given = {name: row.pop(name) for name in list(row) if _is_given(name)}
        found = calls["step"]({**given, **_some(found, (STATE,))})
        check_rows("step.stablehlo", _plain(found), row, TOLERANCE)


_SCALARS = ("reward", "terminated", "truncated", "elapsed")


def _is_given(name: str) -> bool:
    return name == "key" or name.partition(".")[0] == ACTION


def _some(found: Arrays, kinds: tuple[str, ...]) -> dict[str, Any]:
    """The arrays whose names begin with one of these words."""
    return {name: x for name, x in found.items() if name.partition(".")[0] in kinds}


def _plain(found: Arrays) -> dict[str, np.ndarray]:
    return {name: np.asarray(x) for name, x in found.items()}


def _random_actions(random: np.random.Generator, given: Arrays, found: Arrays) -> dict[str, Any]:
    """Uniform legal ones, or numbers from -1 to 1."""
    if ACTION in given and not given[ACTION].shape:
        mask = np.asarray(found["mask"])
        return {ACTION: np.array([random.choice(row.nonzero()[0]) for row in mask], np.int32)}
    return {
        name: random.uniform(-1, 1, (COPIES, *spec.shape)).astype(np.float32)
        for name, spec in _some(given, (ACTION,)).items()
    }


def _tree(prefix: str, like: PyTree, arrays: Arrays) -> PyTree:
    """The tree of arrays by name."""
    found = [
        jax.random.wrap_key_data(arrays[name]) if _is_key(leaf) else arrays[name]
        for name, leaf in _by_path(prefix, like)
    ]
    return jax.tree.unflatten(jax.tree.structure(like), found)


def _by_path(prefix: str, tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    ends = [(jax.tree_util.keystr(p, simple=True, separator="."), leaf) for p, leaf in leaves]
    return [(f"{prefix}.{end}" if end else prefix, leaf) for end, leaf in ends]


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def exported_function(functions: Functions, name: str, arrays: Arrays) -> jax_export.Exported:
    """``reset`` or ``step`` for a batch of any size; ``arrays`` are the parameters by name."""
    (batch,) = jax_export.symbolic_shape(BATCH)
    params = {k: jax.ShapeDtypeStruct(x.shape, x.dtype) for k, x in arrays.items()}
    inputs = {
        k: jax.ShapeDtypeStruct((batch, *x.shape), x.dtype)
        for k, x in functions.given[name].items()
    }
    function = jax.jit(jax.vmap(getattr(functions, name), (None, 0)))
    return jax_export.export(function, platforms=PLATFORMS)(params, inputs)


def _call(data: bytes, arrays: Arrays) -> Callable[[Arrays], dict[str, Any]]:
    exported = jax_export.deserialize(bytearray(data))
    call = jax.jit(exported.call)

    def run(inputs: Arrays) -> dict[str, Any]:
        found: dict[str, Array] = call(dict(arrays), dict(inputs))
        return dict(found)

    return run


def _outputs(functions: Functions, name: str, arrays: Arrays) -> dict[str, Any]:
    found: dict[str, Any] = jax.eval_shape(
        getattr(functions, name), dict(arrays), dict(functions.given[name])
    )
    return found


def _entry(shape: Any, dtype: Any) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": np.dtype(dtype).name}


def _described(specs: Arrays) -> dict[str, Any]:
    return {name: _entry((BATCH, *x.shape), x.dtype) for name, x in specs.items()}


def _actions(env: Environment, params: PyTree) -> dict[str, Any]:
    spec = env.action_spec(params)
    if isinstance(spec, DiscreteSpec):
        return {"kind": "one of several", "number": spec.num_actions}
    return {"kind": "numbers", "minimum": -1.0, "maximum": 1.0}
