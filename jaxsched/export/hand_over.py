"""The hand-over of a trained policy: a folder that can be read without JAX.

    folder/
      manifest.json         what the policy sees, chooses and computes, and where it comes from
      policy.safetensors    the weights, float32, named as in the network description

The manifest ends with golden rows (observation and mask -> scores and action), so that anyone can
check a re-implementation; ``examples/read_policy.py`` is one, in NumPy. An export is verified when
it is written: following its own description has to give the golden rows.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flax.traverse_util
import jax
import numpy as np
import safetensors
import safetensors.numpy

from jaxsched.errors import JaxschedError
from jaxsched.export.manifest import (
    MANIFEST,
    WEIGHTS,
    ExportFacts,
    check_parts,
    manifest_of,
    read_manifest,
    reason_of,
    to_json,
)
from jaxsched.networks import description as nd
from jaxsched.runs import directory as runs
from jaxsched.types import ArraySpec, Feature, PyTree

FILE_FORMATS = ("safetensors",)
PLANNED_FORMATS = ("onnx", "stablehlo")

_CHECKED = ("system", "behaviour_version", "environment")


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
        (``position*.demand``); more than needed is fine.
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
    check_parts(observation_spec, actions, network, weights, golden)
    tolerance = nd.check_parity(network, weights, golden)
    data = safetensors.numpy.save(weights)
    manifest = manifest_of(
        facts=facts,
        observation_spec=observation_spec,
        features=features,
        actions=actions,
        network=network,
        weights=weights,
        digest=hashlib.sha256(data).hexdigest(),
        golden=golden,
        tolerance=tolerance,
    )
    _write_folder(path, {WEIGHTS: data, MANIFEST: to_json(manifest).encode()})
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
            found, wanted = manifest.get(name), runs.to_plain(expected[name])
            if found != wanted:
                raise JaxschedError(
                    f"{path}: the policy has {name.replace('_', ' ')} {found!r}, "
                    f"expected {wanted!r}"
                )
    try:
        data = (path / WEIGHTS).read_bytes()
    except OSError as error:
        raise JaxschedError(f"{path / WEIGHTS}: cannot be read: {reason_of(error)}") from error
    try:
        if hashlib.sha256(data).hexdigest() != manifest["weights"]["sha256"]:
            raise JaxschedError(f"{path / WEIGHTS}: damaged: its SHA-256 is not the manifest's")
        weights = safetensors.numpy.load(data)
    except (KeyError, TypeError, safetensors.SafetensorError) as error:
        raise JaxschedError(f"{path}: not a complete export: {error!r}") from error
    return Export(manifest, {"params": flax.traverse_util.unflatten_dict(weights, sep=".")})


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
            read_manifest(path)
        except JaxschedError as error:
            raise JaxschedError(f"{path}: not an export, so it is not overwritten") from error


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
        raise JaxschedError(f"{path}: cannot be written: {reason_of(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
