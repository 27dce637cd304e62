"""Spot jobs in traces whose source has none."""

import math
from dataclasses import replace

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.draws import generator
from jaxsched.traces.trace import Trace

_SPOT_BRANCH = 0


def with_spot_jobs(trace: Trace, share: float, *, seed: int = 0) -> Trace:
    """The trace with priorities: spot jobs have 0, others 1, as in Alibaba's spot-GPU trace.

    Every job is a spot job with the same probability, on its own; how many GPUs spot jobs ask for
    and when is therefore as for all jobs, which is an assumption.

    Args:
      trace: any trace; priorities that it has are replaced.
      share: probability of a spot job, in [0, 1].
      seed: whole number from 0 on.

    Raises:
      JaxschedError: the share is no such number.
    """
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if not number or not math.isfinite(share) or not 0 <= share <= 1:
        raise JaxschedError(f"share is {describe_value(share)}; accepted: a number from 0 to 1")
    spot = generator(seed, _SPOT_BRANCH).random(len(trace)) < share
    note = f"{int(spot.sum())} of {len(trace)} jobs drawn to be spot jobs (priority 0)"
    return replace(
        trace,
        columns={**trace.columns, "priority": np.where(spot, 0.0, 1.0)},
        notes=(*trace.notes, note),
    )
