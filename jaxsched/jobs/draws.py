"""Reproducible draws: every random number of a trace comes from a seed and a place in a tree."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import Integers


def generator(seed: int, *branch: int) -> np.random.Generator:
    """A PCG64 generator for one branch of the tree that ``seed`` (a whole number >= 0) roots."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise JaxschedError(f"seed is {seed!r}; accepted: a whole number from 0 on")
    sequence = np.random.SeedSequence(int(seed), spawn_key=branch)
    return np.random.Generator(np.random.PCG64(sequence))


def pick(uniform: npt.NDArray[np.float64], shares: Sequence[float]) -> Integers:
    """Turn uniform numbers in [0, 1) into indices with probabilities proportional to ``shares``."""
    weights = np.asarray(shares, np.float64)
    valid = weights.ndim == 1 and np.all(np.isfinite(weights)) and np.all(weights >= 0)
    if not (valid and weights.sum() > 0):
        raise JaxschedError(
            f"shares are {tuple(shares)}; accepted: numbers from 0 on, not all of them 0"
        )
    edges = np.cumsum(weights) / weights.sum()
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(edges, uniform, side="right"), last).astype(np.int64)
