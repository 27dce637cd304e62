"""Specs as the spaces of Gymnasium, which PettingZoo and Stable-Baselines3 take as well."""

from typing import Any

import numpy as np

from jaxsched.adapters.plain import bounds, plain
from jaxsched.errors import needed
from jaxsched.types import ArraySpec, DiscreteSpec, PyTree

spaces = needed("gymnasium.spaces", "adapters")


def space_of(spec: PyTree) -> Any:
    """The space of a tree of specs: ``Dict`` and ``Tuple`` of ``Discrete`` and ``Box``.

    A row of truth values is ``MultiBinary`` (int8).
    """
    return plain(spec, _leaf, _node)


def _node(parts: Any) -> Any:
    return spaces.Dict(parts) if isinstance(parts, dict) else spaces.Tuple(parts)


def _leaf(spec: ArraySpec | DiscreteSpec) -> Any:
    if isinstance(spec, DiscreteSpec):
        return spaces.Discrete(spec.num_actions)
    dtype = np.dtype(spec.dtype)
    if dtype == np.int8 and (spec.minimum, spec.maximum) == (0, 1) and len(spec.shape) == 1:
        return spaces.MultiBinary(*spec.shape)  # a number: TorchRL knows no shapes of it
    low, high = bounds(spec)
    return spaces.Box(low, high, spec.shape, dtype)
