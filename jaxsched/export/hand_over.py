"""The hand-over of a trained policy: a folder that can be read without JAX.

    folder/
      manifest.json         what the policy sees, chooses and computes, and where it comes from
      policy.safetensors    the weights, float32, named as in the network description

The manifest ends with golden rows (observation and mask -> scores and action), so that anyone can
check a re-implementation; ``examples/read_policy.py`` is one, in NumPy. An export is verified when
it is written: following its own description has to give the golden rows.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from jaxsched.core.environment import (
    Current,
    Environment,
    Seen,
    look,
    start,
    step_and_look,
)
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.runs import directory as runs
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree

FORMAT = "jaxsched-policy"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
WEIGHTS = "policy.safetensors"

FILE_FORMATS = ("safetensors",)
PLANNED_FORMATS = ("onnx", "stablehlo")

MIN_GOLDEN_ROWS = 8

_CHECKED = ("system", "behaviour_version", "environment")
_PROVENANCE = ("date", "code", "python", "versions", "device")

_GROUPS = (
    "each asterisk of a pattern stands for a number i, j, ... counted from 0; that entry is at "
    "first + i * strides[0] + j * strides[1] + ...; quantity = entry * divisor, in the unit given"
)
_MASK = (
    "mask[i] is true where action i is legal; at least one is. Scores of illegal actions mean "
    "nothing."
)
_CHOICE = "the legal action of the highest score; of equal ones the lowest index"
_ORIENTATION = "y = x @ W + b: W is [inputs, outputs], row-major, b is [outputs]"


@dataclass(frozen=True)
class ExportFacts:
    """Where a policy comes from and what it was made for; anything here has to fit into JSON.

    Attributes:
      system: name of the system.
      behaviour_version: of the environment that it was trained in.
      environment: static options of that environment.
      seed: of the training run.
      trace_digests: trace name -> digest, of the job tables it was trained on.
      metrics: evaluation results by name, as the caller structures them.
      preset: name of the recipe, if it had one.
      variants: what differs from the paper's recipe, one line each.
    """

    system: str
    behaviour_version: int
    environment: Mapping[str, Any]
    seed: int
    trace_digests: Mapping[str, str]
    metrics: Mapping[str, Any]
    preset: str | None = None
    variants: Sequence[str] = ()


class Feature(NamedTuple):
    """What the entries of one kind mean: ``quantity = entry * divisor``, in ``unit``."""

    meaning: str
    unit: str
    divisor: float = 1.0


class Export(NamedTuple):
    """What ``load_export`` returns: the manifest and the flax variables (NumPy leaves)."""

    manifest: dict[str, Any]
    params: dict[str, Any]


def export_policy(
    directory: str | Path,
    *,
    facts: ExportFacts,
    observation_spec: ArraySpec,
    features: Mapping[str, Feature],
    actions: Sequence[str],
    network: Sequence[nd.Step],
    params: PyTree,
    golden: nd.GoldenRows,
    format: str = "safetensors",
    overwrite: bool = False,
) -> Path:
    """Write a hand-over folder, whole or not at all.

    Args:
      directory: the folder; parents are created.
      facts: where the policy comes from.
      observation_spec: a flat vector with a name for each entry.
      features: what the entries mean, by name with every number replaced by an asterisk
        (``slot*.demand``); more than needed is fine.
      actions: a name for each action, in order.
      network: the steps from observation to scores.
      params: flax variables, float32: ``{"params": {layer: {"kernel": ..., "bias": ...}}}``.
      golden: at least 8 rows, see ``golden_rows``.
      format: which form of the weights; for now ``safetensors`` only.
      overwrite: replace an export that is there; never a folder that holds something else.

    Returns:
      The folder.

    Raises:
      JaxschedError: what was handed in does not fit together, the description does not give the
        golden scores, the folder exists, or it cannot be written.
    """
    _check_format(format)
    path = Path(directory).absolute()
    _check_free(path, overwrite)
    weights = _named_weights(params)
    _check_parts(observation_spec, actions, network, weights, golden)
    tolerance = nd.check_parity(network, weights, golden)
    data = safetensors.numpy.save(weights)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **{name: getattr(facts, name) for name in facts.__dataclass_fields__},
        "provenance": {name: fact for name, fact in runs.facts().items() if name in _PROVENANCE},
        "observation": {
            "dtype": "float32",
            "shape": observation_spec.shape,
            "layout": _GROUPS,
            "groups": feature_groups(observation_spec.names, features),
            "names": observation_spec.names,
        },
        "actions": {"names": list(actions), "mask": _MASK, "choice": _CHOICE},
        "network": {
            "input": nd.OBSERVATION,
            "output": nd.SCORES,
            "dtype": "float32",
            "orientation": _ORIENTATION,
            "operations": nd.OPERATIONS,
            "steps": list(network),
        },
        "weights": {
            "file": WEIGHTS,
            "sha256": hashlib.sha256(data).hexdigest(),
            "tensors": {
                name: {"shape": w.shape, "dtype": str(w.dtype)} for name, w in weights.items()
            },
        },
        "golden": {
            "tolerance": tolerance,
            "rows": [
                dict(zip(nd.GoldenRows._fields, row, strict=True))
                for row in zip(*golden, strict=True)
            ],
        },
    }
    _write_folder(path, {WEIGHTS: data, MANIFEST: _to_json(manifest).encode()})
    return path


def load_export(directory: str | Path, *, expected: Mapping[str, Any] | None = None) -> Export:
    """Read a hand-over folder.

    Args:
      directory: the folder.
      expected: facts to compare with the manifest's: ``system``, ``behaviour_version``,
        ``environment``.

    Returns:
      Manifest and flax variables, bit for bit as exported.

    Raises:
      JaxschedError: there is no export, it is damaged, or it is of another format, system,
        behaviour version or environment.
    """
    path = Path(directory)
    manifest = _read_manifest(path)
    for name in _CHECKED:
        if expected and name in expected:
            found, wanted = manifest.get(name), runs.to_plain(expected[name])
            if found != wanted:
                raise JaxschedError(
                    f"{path}: the policy has {name.replace('_', ' ')} {found!r}, "
                    f"expected {wanted!r}"
                )
    try:
        data = (path / WEIGHTS).read_bytes()
    except OSError as error:
        raise JaxschedError(f"{path / WEIGHTS}: cannot be read: {_reason(error)}") from error
    try:
        if hashlib.sha256(data).hexdigest() != manifest["weights"]["sha256"]:
            raise JaxschedError(f"{path / WEIGHTS}: damaged: its SHA-256 is not the manifest's")
        weights = safetensors.numpy.load(data)
    except (KeyError, TypeError, safetensors.SafetensorError) as error:
        raise JaxschedError(f"{path}: not a complete export: {error!r}") from error
    return Export(manifest, {"params": flax.traverse_util.unflatten_dict(weights, sep=".")})


def golden_rows(
    env: Environment,
    params: Any,
    score_fn: Callable[[PyTree, Array], Array],
    weights: PyTree,
    key: PRNGKey,
    count: int = MIN_GOLDEN_ROWS,
) -> nd.GoldenRows:
    """States met in random legal play, with as many different masks as there are.

    States in which the two best legal scores are nearly equal are avoided, since another order of
    summation could change the action there.

    Args:
      env: an environment with a flat observation and one discrete action.
      params: its parameters.
      score_fn: ``score_fn(weights, observation) -> scores [A]``.
      weights: the policy's parameters.
      key: for episodes and actions.
      count: number of rows.

    Raises:
      JaxschedError: fewer than ``count`` different states were met.
    """
    seen = _random_states(env, params, key)
    with jax.default_matmul_precision("highest"):  # accelerators round inputs by default
        scored = jax.jit(jax.vmap(score_fn, (None, 0)))(weights, seen[0])
    observation, mask, scores = (np.asarray(leaf) for leaf in (*seen, scored))
    rows = _varied(observation, mask, scores, count)
    return nd.GoldenRows(
        observation[rows], mask[rows], scores[rows], nd.greedy(scores[rows], mask[rows])
    )


def feature_groups(names: Sequence[str], features: Mapping[str, Feature]) -> list[dict[str, Any]]:
    """The observation layout in short: one group per pattern of names.

    Raises:
      JaxschedError: a pattern that ``features`` does not describe.
    """
    found: dict[str, list[tuple[list[int], int]]] = {}
    for position, name in enumerate(names):
        # A last word that is described as it is, such as ``resnet50``, holds no index.
        owner, dot, last = name.rpartition(".")
        word = dot + last if re.sub(r"\d+", "*", owner) + dot + last in features else ""
        indexed = name.removesuffix(word)
        numbers = [int(digits) for digits in re.findall(r"\d+", indexed)]
        found.setdefault(re.sub(r"\d+", "*", indexed) + word, []).append((numbers, position))
    groups = []
    for pattern, entries in found.items():
        if pattern not in features:
            raise JaxschedError(f"the observation entries {pattern!r} are not described")
        place = _lattice(*(np.array(part, int) for part in zip(*entries, strict=True)))
        groups.append({"pattern": pattern, **features[pattern]._asdict(), **place})
    return groups


@partial(jax.jit, static_argnames=("env", "num_envs", "num_steps"))
def _random_states(
    env: Environment, params: Any, key: PRNGKey, num_envs: int = 16, num_steps: int = 256
) -> tuple[Array, Array]:
    """Observations and masks met in random legal play, ``[num_steps * num_envs, ...]``."""

    def play(key: PRNGKey) -> tuple[Array, Array]:
        def step(carry: tuple[Current, Seen], key: PRNGKey) -> tuple[tuple[Current, Seen], Seen]:
            act_key, step_key = jax.random.split(key)
            current, seen = carry
            action = jax.random.categorical(act_key, jnp.where(seen.mask, 0.0, -jnp.inf))
            action = action.astype(jnp.int32)
            current, following, _ = step_and_look(env, step_key, current, action, params)
            return (current, following), seen

        start_key, loop_key = jax.random.split(key)
        current = start(env, start_key, params)
        first = current, look(env, current, params)
        return jax.lax.scan(step, first, jax.random.split(loop_key, num_steps))[1]

    observation, mask = jax.vmap(play)(jax.random.split(key, num_envs))
    return observation.reshape(-1, observation.shape[-1]), mask.reshape(-1, mask.shape[-1])


def _varied(
    observation: np.ndarray, mask: np.ndarray, scores: np.ndarray, count: int
) -> np.ndarray:
    """Indices of ``count`` different states, clear ones of different masks first."""
    rows = np.sort(np.unique(observation, axis=0, return_index=True)[1])
    if len(rows) < count:
        raise JaxschedError(
            f"random play met {len(rows)} different states, too few for {count} golden rows"
        )
    legal = np.sort(np.where(mask, scores, -np.inf), axis=1)
    margin = legal[:, -1] - legal[:, -2] if legal.shape[1] > 1 else np.full(len(legal), np.inf)
    clear = margin > 2 * nd.TOLERANCE * np.maximum(1, np.abs(scores).max(axis=1))
    rows = rows[np.argsort(~clear[rows], kind="stable")]
    distinct = rows[np.unique(mask[rows], axis=0, return_index=True)[1]]
    distinct = distinct[clear[distinct]]
    distinct = distinct[np.argsort(mask[distinct].sum(axis=1), kind="stable")]
    chosen = _spread(distinct, min(count, len(distinct)))
    rest = rows[~np.isin(rows, chosen)]
    if clear[rest].sum() >= count - len(chosen):
        rest = rest[clear[rest]]
    return np.concatenate([chosen, _spread(rest, count - len(chosen))])


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    """``count`` of the rows, at even distances."""
    return rows[np.linspace(0, len(rows) - 1, count).astype(int)]


def _lattice(numbers: np.ndarray, positions: np.ndarray) -> dict[str, Any]:
    """``first``, ``shape`` and ``strides`` where positions are linear in the numbers of a name."""
    shape = numbers.max(axis=0) + 1
    single = (numbers == 0).sum(axis=1) >= numbers.shape[1] - 1  # at most one number is not 0
    at = {
        tuple(row): place
        for row, place in zip(numbers[single].tolist(), positions[single], strict=True)
    }
    first = at.get((0,) * len(shape), positions[0])
    unit = np.eye(len(shape), dtype=int).tolist()
    strides = np.array([at.get(tuple(row), first) - first for row in unit], int)
    regular = np.array_equal(first + numbers @ strides, positions)
    if not regular or len(positions) != shape.prod():
        return {"positions": positions}
    return {"first": first, "shape": shape, "strides": strides}


def _named_weights(params: PyTree) -> dict[str, nd.Floats]:
    """Weights by readable names such as ``head_0.kernel``."""
    if not isinstance(params, Mapping) or set(params) != {"params"}:
        raise JaxschedError("an export takes flax variables with the one collection 'params'")
    flat = flax.traverse_util.flatten_dict(params["params"], sep=".")
    weights = {name: np.ascontiguousarray(jax.device_get(leaf)) for name, leaf in flat.items()}
    for name, weight in weights.items():
        if weight.dtype != np.float32:
            raise JaxschedError(f"weight {name} is {weight.dtype}; an export takes float32")
        if not np.isfinite(weight).all():
            raise JaxschedError(f"weight {name} is not finite: the training has diverged")
    return weights


def _check_format(format: str) -> None:
    accepted = f"accepted: {', '.join(FILE_FORMATS)}"
    if format in PLANNED_FORMATS:
        raise JaxschedError(f"export format {format!r} is not there yet; {accepted}")
    if format not in FILE_FORMATS:
        raise JaxschedError(f"unknown export format {format!r}; {accepted}")


def _check_free(path: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it is an export (or empty) that may be replaced."""
    if not path.exists():
        return
    if not overwrite:
        raise JaxschedError(f"{path}: exists already; choose another folder or ask to overwrite it")
    if not path.is_dir() or any(path.iterdir()):
        try:
            _read_manifest(path)
        except JaxschedError as error:
            raise JaxschedError(f"{path}: not an export, so it is not overwritten") from error


def _check_parts(
    spec: ArraySpec,
    actions: Sequence[str],
    network: Sequence[nd.Step],
    weights: Mapping[str, nd.Floats],
    golden: nd.GoldenRows,
) -> None:
    if spec.shape != (len(spec.names),) or len(set(spec.names)) != len(spec.names):
        raise JaxschedError("an export takes a flat observation with a different name per entry")
    described = set(nd.weight_names(network))
    if described != set(weights):
        raise JaxschedError(
            "the network description and the weights differ in "
            f"{', '.join(sorted(described ^ set(weights)))}"
        )
    num_rows, num_actions = len(golden.action), len(actions)
    if num_rows < MIN_GOLDEN_ROWS:
        raise JaxschedError(f"{num_rows} golden rows; an export takes {MIN_GOLDEN_ROWS} or more")
    shapes = [spec.shape, (num_actions,), (num_actions,), ()]
    for name, value, shape in zip(nd.GoldenRows._fields, golden, shapes, strict=True):
        if value.shape != (num_rows, *shape):
            raise JaxschedError(
                f"golden rows: {name} is {list(value.shape)}, expected {[num_rows, *shape]}"
            )
    if not golden.mask.any(axis=1).all():
        raise JaxschedError("golden rows: a mask without a legal action")


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise JaxschedError(f"{path}: no such export folder")
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        manifest = None
    except (OSError, ValueError) as error:
        raise JaxschedError(f"{file}: cannot be read: {_reason(error)}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise JaxschedError(f"{path}: not an exported policy (no {MANIFEST} of {FORMAT})")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise JaxschedError(
            f"{path}: export format version {manifest.get('format_version')}, "
            f"this version of jaxsched reads {FORMAT_VERSION}"
        )
    return manifest


def _to_json(document: Any) -> str:
    """JSON with each list of plain values on one line."""
    text = json.dumps(runs.to_plain(document), indent=2, allow_nan=False)
    # Strings hold no raw line break, so this only ever touches the space between values.
    return re.sub(r"\[\n *([^][{}]*)\n *\]", _on_one_line, text) + "\n"


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\n *", " ", match[1]) + "]"


def _write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder beside its place and rename it, so that nobody sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    replaced = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # of a killed process with this number
        temporary.mkdir()
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        if path.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            path.rename(replaced)
        temporary.rename(path)
    except OSError as error:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        raise JaxschedError(f"{path}: cannot be written: {_reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
