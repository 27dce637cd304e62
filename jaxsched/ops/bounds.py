"""Bounds of what environments show, read off their parameters."""

from typing import Any

import jax
import numpy as np

ROUNDING = 1e-6  # relative, of sums and quotients in single precision


def known_largest(*values: Any) -> float:
    """The largest entry of these numbers and arrays, rounded up for single precision.

    Infinity where one of them is not known yet because a program is being traced over it.
    """
    if any(isinstance(value, jax.core.Tracer) for value in values):
        return float("inf")
    return float(max(np.max(np.asarray(value)) for value in values)) * (1 + ROUNDING)
