"""Weights by readable names, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from jaxsched.errors import JaxschedError
from jaxsched.types import PyTree

Arrays = dict[str, np.ndarray]
_COLLECTION = "params."


def named_weights(params: PyTree) -> Arrays:
    """Weights by names such as ``head_0.kernel``; of flax variables those of ``params``.

    Raises:
      JaxschedError: a weight is not float32, or not finite.
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    weights = {_name(path): np.asarray(jax.device_get(leaf), order="C") for path, leaf in leaves}
    for name, weight in weights.items():
        if weight.dtype != np.float32:
            raise JaxschedError(f"weight {name} is {weight.dtype}; an export takes float32")
        if not np.isfinite(weight).all():
            raise JaxschedError(f"weight {name} is not finite: the training has diverged")
    return weights


def unnamed(like: PyTree, weights: Mapping[str, Any]) -> PyTree:
    """The tree whose weights have these names.

    Args:
      like: a tree of the structure and shapes.
      weights: by name; others are passed over.

    Raises:
      JaxschedError: one is absent or of another shape or dtype.
    """
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(like):
        weight = weights.get(_name(path))
        if weight is None or weight.shape != leaf.shape or weight.dtype != leaf.dtype:
            raise JaxschedError(f"weight {_name(path)} is absent or does not fit")
        found.append(weight)
    return jax.tree.unflatten(jax.tree.structure(like), found)


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A safetensors file."""
    in_order = {name: np.asarray(x, order="C") for name, x in arrays.items()}
    data: bytes = safetensors.numpy.save(in_order)
    return data


def from_bytes(data: bytes, where: object) -> Arrays:
    """The arrays of a safetensors file.

    Args:
      data: its content.
      where: for the message.

    Raises:
      JaxschedError: it is damaged.
    """
    try:
        arrays: Arrays = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise JaxschedError(f"{where}: damaged: {error}") from error
    return arrays


def _name(path: Any) -> str:
    return str(jax.tree_util.keystr(path, simple=True, separator=".")).removeprefix(_COLLECTION)
