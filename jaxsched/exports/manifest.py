"""The manifest of a hand-over folder: what a policy sees, chooses and computes, and its origin."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.exports.golden import MIN_GOLDEN_ROWS
from jaxsched.exports.layout import GROUPS, feature_groups
from jaxsched.exports.schema import check_document, read_json
from jaxsched.json_values import json_value
from jaxsched.networks import description as nd
from jaxsched.provenance import facts
from jaxsched.types import ArraySpec, Feature

FORMAT = "jaxsched-policy"
FORMAT_VERSION = 1  # a flat observation to a score for each action
PROGRAM_VERSION = 2  # named arrays to named arrays
MANIFEST = "manifest.json"
WEIGHTS = "policy.safetensors"

_PROVENANCE = ("date", "code", "python", "versions", "device")
_MASK = (
    "mask[i] is true where action i is legal; at least one is. Scores of illegal actions mean "
    "nothing."
)
_CHOICE = "the legal action of the highest score; of equal ones the lowest index"
CHOICES = {"one": _CHOICE, "all": "the scores are the action, a number for each name"}
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
      network_kind: what the system calls the network; such folders can be played by name or path.
      play: whether the policy takes the best action or draws one.
      action: ``one`` of the names, or ``all``: a number for each.
    """

    system: str
    behaviour_version: int
    environment: Mapping[str, Any]
    seed: int
    trace_digests: Mapping[str, str]
    metrics: Mapping[str, Any]
    preset: str | None = None
    variants: Sequence[str] = ()
    network_kind: str | None = None
    play: str = "greedy"
    action: str = "one"


def manifest_of(
    *,
    facts: ExportFacts,
    observation_spec: ArraySpec,
    features: Mapping[str, Feature],
    actions: Sequence[str],
    network: Sequence[nd.Step],
    weights: Mapping[str, nd.Floats],
    digest: str,
    golden: nd.GoldenRows,
    tolerance: float,
    files: Mapping[str, Any],
    cluster: Mapping[str, Any],
) -> dict[str, Any]:
    """The manifest as a document, before it is JSON.

    Args:
      facts: where the policy comes from.
      observation_spec: a flat vector with a name for each entry.
      features: what the entries mean, by pattern.
      actions: a name for each action.
      network: the steps from observation to scores.
      weights: by name.
      digest: SHA-256 of the file of weights.
      golden: rows to check a re-implementation with.
      tolerance: of their scores.
      files: facts of the other forms, by file name.
      cluster: the arrays in which a cluster is told, by name; empty if it cannot be.
    """
    return {
        **head(facts, FORMAT_VERSION),
        "observation": {
            "dtype": "float32",
            "shape": observation_spec.shape,
            "layout": GROUPS,
            "groups": feature_groups(observation_spec.names, features),
            "names": observation_spec.names,
        },
        "actions": {"names": list(actions), "mask": _MASK, "choice": CHOICES[facts.action]},
        "network": {
            "input": nd.OBSERVATION,
            "output": nd.SCORES,
            "dtype": "float32",
            "orientation": _ORIENTATION,
            "operations": nd.OPERATIONS,
            "steps": list(network),
        },
        "weights": {"file": WEIGHTS, "sha256": digest, "tensors": tensors_of(weights)},
        "files": files,
        **({"cluster": cluster} if cluster else {}),
        "golden": {
            "tolerance": tolerance,
            "rows": [
                dict(zip(nd.GoldenRows._fields, row, strict=True))
                for row in zip(*golden, strict=True)
            ],
        },
    }


def head(facts: ExportFacts, version: int) -> dict[str, Any]:
    """How every manifest begins."""
    return {
        "format": FORMAT,
        "format_version": version,
        **{name: getattr(facts, name) for name in facts.__dataclass_fields__ if name != "action"},
        "provenance": provenance(),
    }


def provenance() -> dict[str, Any]:
    """When, with what and on what an export was written."""
    return {name: fact for name, fact in facts().items() if name in _PROVENANCE}


def head_words(facts: ExportFacts, version: int) -> dict[str, str]:
    """The same in a few words, for the metadata of a model."""
    return {
        "format": f"{FORMAT} {version}",
        "system": facts.system,
        "behaviour_version": str(facts.behaviour_version),
        "seed": str(facts.seed),
        "play": facts.play,
    }


def tensors_of(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Shapes and dtypes by name."""
    return {name: {"shape": w.shape, "dtype": str(w.dtype)} for name, w in weights.items()}


def check_parts(
    spec: ArraySpec,
    actions: Sequence[str],
    network: Sequence[nd.Step],
    weights: Mapping[str, nd.Floats],
    golden: nd.GoldenRows,
) -> None:
    """Refuse parts that do not fit together.

    Raises:
      JaxschedError: observation, actions, network, weights or golden rows do not fit.
    """
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


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in an export folder.

    Raises:
      JaxschedError: there is none, it is damaged, or of another format.
    """
    if not path.is_dir():
        raise JaxschedError(f"{path}: no such export folder")
    manifest = read_json(path / MANIFEST) if (path / MANIFEST).exists() else None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise JaxschedError(f"{path}: not an exported policy (no {MANIFEST} of {FORMAT})")
    if manifest.get("format_version") not in (FORMAT_VERSION, PROGRAM_VERSION):
        raise JaxschedError(
            f"{path}: export format version {manifest.get('format_version')}, "
            f"this version of jaxsched reads {FORMAT_VERSION} and {PROGRAM_VERSION}"
        )
    try:
        check_document(manifest, f"policy_{int(manifest['format_version'])}")
    except JaxschedError as error:
        raise JaxschedError(f"{path}: not a complete export: {error}") from error
    return manifest


def to_json(document: Any) -> str:
    """JSON with each list of plain values on one line."""
    text = json.dumps(json_value(document), indent=2, allow_nan=False)
    # Strings hold no raw line break, so this only ever touches the space between values.
    return re.sub(r"\[\n *([^][{}]*)\n *\]", _on_one_line, text) + "\n"


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\n *", " ", match[1]) + "]"
