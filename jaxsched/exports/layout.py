"""What the entries of a flat observation mean, in short.

Entries are described by the pattern of their names; one group of a pattern says where its entries
stand and how they are scaled.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.types import Feature

GROUPS = (
    "each asterisk of a pattern stands for a number i, j, ... counted from 0; that entry is at "
    "first + i * strides[0] + j * strides[1] + ...; quantity = entry * divisor, in the unit given"
)
"""How to read :func:`feature_groups`; it travels in every manifest."""


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
