"""Gittins' index of jobs by what they have attained, for run times that are known as a spread only.

The index of a job that has attained ``a`` is the best rate at which it may end: the largest, over
spans ``d``, of ``P(S <= a + d | S > a) / E[min(S - a, d) | S > a]``. Serving the largest index
first is optimal for the mean on one server (Gittins 1979; Aalto, Ayesta and Righter 2009). Here
spans end at thresholds, as in Tiresias' discretised 2D-Gittins (Gu et al., NSDI'19, section 3.2).

Axes: ``Q`` thresholds, ``Q + 1`` intervals between them.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.jobs import Integers
from jaxsched.types import Array

Floats = npt.NDArray[np.floating[Any]]


def sample_levels(services: Integers, thresholds: Sequence[int]) -> Integers:
    """The level of each interval for services like a sample: 0 for the largest index, and so on.

    Intervals beyond all of the sample have the last level.

    Args:
      services: GPU-seconds ``[m]``.
      thresholds: increasing, GPU-seconds ``[Q]``.

    Returns:
      int64 ``[Q + 1]``; equal indices have equal levels.
    """
    begins = [0, *thresholds]
    ends = [*thresholds, max(int(services.max()), begins[-1] + 1)]
    index = []
    for begin in begins:
        left = services[services > begin] - begin
        rates = [
            np.sum(left <= end - begin) / np.sum(np.minimum(left, end - begin))
            for end in ends
            if end > begin and left.size
        ]
        index.append(max(rates, default=0.0))
    return np.unique(-np.array(index), return_inverse=True)[1].reshape(-1)


def intervals(edges: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Beginning, end and mean of run times in each interval but the last, seconds, ``[Q]``.

    Run times are spread evenly over their logarithm; the first interval begins at a second.
    """
    begin = np.array([0, *edges[:-1]], np.float32)
    end = np.array(edges, np.float32)
    return begin, end, (end - np.maximum(begin, 1)) / np.log(end / np.maximum(begin, 1))


def chance_to_reach(ends: Array) -> Array:
    """Of each interval, from the chances to end within those before; float32 ``[Q + 1]``."""
    return jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - ends)])


def index_of_hazards(ends: Array, edges: Sequence[int], tail_s: float) -> Array:
    """The index at the beginning of each interval, 1/s, float32 ``[Q + 1]``.

    Within an interval, run times are spread as in ``intervals``; those beyond the last edge have
    ``tail_s`` seconds left on average.

    Args:
      ends: float32 ``[Q]``, the chance to end within each interval of those that get there.
      edges: increasing, seconds ``[Q]``.
      tail_s: seconds.
    """
    begin, end, mean = intervals(edges)
    reach = chance_to_reach(ends)
    within = jnp.append(reach[:-1] * ends, reach[-1])
    spent = jnp.append(
        reach[:-1] * (ends * (mean - begin) + (1 - ends) * (end - begin)), reach[-1] * tail_s
    )
    count = len(edges) + 1
    from_here = jnp.triu(jnp.ones((count, count)))
    done = jnp.cumsum(within * from_here, axis=1)
    used = jnp.cumsum(spent * from_here, axis=1)
    rates = jnp.where(from_here > 0, done / jnp.maximum(used, 1e-30), 0.0)
    return jnp.max(rates, axis=1)
