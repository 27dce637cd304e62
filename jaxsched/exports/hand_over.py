"""The hand-over of a trained policy: a folder that can be read without JAX.

    folder/
      manifest.json         what the policy sees, chooses and computes, and where it comes from
      policy.safetensors    the weights, float32, named as in the network description
      policy.onnx           on request: the same for onnxruntime and others
      policy.stablehlo      on request: the same for ``jax.export``

The manifest ends with golden rows (observation and mask -> scores and action), so that anyone can
check a re-implementation; ``examples/read_policy.py`` is one, in NumPy. An export is verified when
it is written: following its own description has to give the golden rows, and so has every form.

Policies that are more than scores of actions are handed over by ``programs.py``.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flax.traverse_util
import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.exports.cluster import OBSERVE, cluster_facts, of_cluster
from jaxsched.exports.folder import check_free, read_file, sha256, write_folder
from jaxsched.exports.forms import Computation, Form, formats_of, forms_of
from jaxsched.exports.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    WEIGHTS,
    ExportFacts,
    check_parts,
    head_words,
    manifest_of,
    read_manifest,
    to_json,
)
from jaxsched.exports.weights import from_bytes, named_weights, to_bytes
from jaxsched.json_values import json_value
from jaxsched.networks import description as nd
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.types import Array, ArraySpec, Feature, PyTree

_CHECKED = ("system", "behaviour_version", "environment")


FORM_TOLERANCE = 1e-5  # of scores, relative to the largest one, at least 1


class Export(NamedTuple):
    """What ``load_export`` returns: the manifest and the weights (NumPy leaves).

    ``params`` are the flax variables; of a program (format version 2) the weights by name.
    """

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
    format: str | Sequence[str] = "safetensors",
    overwrite: bool = False,
    cluster: ClusterArrays | None = None,
) -> Path:
    """Write a hand-over folder, whole or not at all.

    Args:
      directory: the folder; parents are created.
      facts: where the policy comes from.
      observation_spec: a flat vector with a name for each entry.
      features: what the entries mean, by name with every number replaced by an asterisk
        (``position*.demand``); more than needed is fine.
      actions: a name for each action, in order.
      network: the steps from observation to scores.
      params: flax variables, float32: ``{"params": {layer: {"kernel": ..., "bias": ...}}}``.
      golden: at least 8 rows, see ``golden_rows``.
      format: names of ``forms.FORMATS``, with commas between them or several; ``safetensors`` is
        always written.
      overwrite: replace an export that is there; never a folder that holds something else.
      cluster: how a cluster is told in plain arrays; with it each other form has a companion
        ``observe.*`` that takes those.

    Raises:
      JaxschedError: what was handed in does not fit together, the description does not give the
        golden scores, the folder exists, or it cannot be written.
    """
    formats = formats_of(format)
    path = Path(directory).absolute()
    check_free(path, overwrite, read_manifest)
    if not isinstance(params, Mapping) or set(params) != {"params"}:
        raise JaxschedError("an export takes flax variables with the one collection 'params'")
    weights = named_weights(params)
    check_parts(observation_spec, actions, network, weights, golden)
    tolerance = nd.check_parity(network, weights, golden)
    computation = _computation(network, weights, golden, observation_spec, facts.action == "one")
    forms = _forms(formats, computation, facts, cluster)
    data = to_bytes(weights)
    manifest = manifest_of(
        facts=facts,
        observation_spec=observation_spec,
        features=features,
        actions=actions,
        network=network,
        weights=weights,
        digest=sha256(data),
        golden=golden,
        tolerance=tolerance,
        files={name: form.facts for name, form in forms.items()},
        cluster={} if cluster is None else cluster_facts(cluster),
    )
    others = {name: form.data for name, form in forms.items()}
    write_folder(path, {WEIGHTS: data, **others, MANIFEST: to_json(manifest).encode()})
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
    manifest = read_manifest(path)
    for name in _CHECKED:
        if expected and name in expected:
            found, wanted = manifest.get(name), json_value(expected[name])
            if found != wanted:
                raise JaxschedError(
                    f"{path}: the policy has {name.replace('_', ' ')} {found!r}, "
                    f"expected {wanted!r}"
                )
    weights = read_weights(path, manifest)
    if manifest["format_version"] != FORMAT_VERSION:
        constants = set(manifest["weights"]["constants"])
        return Export(manifest, {k: x for k, x in weights.items() if k not in constants})
    return Export(manifest, {"params": flax.traverse_util.unflatten_dict(weights, sep=".")})


def read_weights(path: Path, manifest: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a folder's file of weights, as its manifest describes them.

    Raises:
      JaxschedError: the file is absent, too long, damaged or another one.
    """
    described = manifest["weights"]["tensors"]
    file = path / WEIGHTS
    # Entries take at most four bytes; the rest is the header.
    room = sum(4 * math.prod(entry["shape"]) + 1024 for entry in described.values()) + 2**16
    data = read_file(file, room, manifest["weights"]["sha256"])
    weights = from_bytes(data, file)
    found = {name: (list(x.shape), str(x.dtype)) for name, x in weights.items()}
    expected = {name: (entry["shape"], entry["dtype"]) for name, entry in described.items()}
    if found != expected:
        raise JaxschedError(f"{file}: damaged: its tensors are not those of the manifest")
    return weights


def _forms(
    formats: Sequence[str],
    computation: Computation,
    facts: ExportFacts,
    cluster: ClusterArrays | None,
) -> dict[str, Form]:
    """The other forms, from an observation and, where one can be told, from a cluster."""
    words = head_words(facts, FORMAT_VERSION)
    forms = forms_of(formats, computation, words)
    if cluster is not None and len(formats) > 1:
        forms |= forms_of(formats, of_cluster(computation, cluster), words, OBSERVE)
    return forms


def _computation(
    network: Sequence[nd.Step],
    weights: Mapping[str, nd.Floats],
    golden: nd.GoldenRows,
    spec: ArraySpec,
    chooses: bool,
) -> Computation:
    """Scores of a batch of observations and, if one action is chosen, the best legal one."""

    def function(weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array]:
        def layer(step: nd.Step, x: Array) -> Array:
            if step["op"] == "affine":
                return x * weights[step["scale"]] + weights[step["offset"]]
            y = x @ weights[step["kernel"]] + weights[step["bias"]]
            return jnp.maximum(y, 0) if step["activation"] == "relu" else y

        scores = nd.follow(network, inputs[nd.OBSERVATION], layer, jnp)
        if not chooses:
            return {nd.SCORES: scores}
        legal = jnp.where(inputs["mask"], scores, -jnp.inf)
        return {nd.SCORES: scores, "action": jnp.argmax(legal).astype(jnp.int32)}

    inputs = {nd.OBSERVATION: ArraySpec(spec.shape)}
    given: dict[str, np.ndarray] = {nd.OBSERVATION: golden.observation}
    wanted: dict[str, np.ndarray] = {nd.SCORES: golden.scores}
    if chooses:
        inputs["mask"] = ArraySpec(golden.mask.shape[1:], jnp.bool_)
        given["mask"], wanted["action"] = golden.mask, golden.action
    return Computation(function, weights, inputs, given, wanted, FORM_TOLERANCE)
