"""The demand of the jobs of the largest priority, and what is forecast of it.

The demand is the GPUs that these jobs hold, as a cluster's usage shows it. Time is cut into windows
of equal length, a day of ``PER_DAY`` of them. A window's rise is from the demand just before it to
the peak in it and the next one.

The forecast is the demand now plus a quantile (nearest rank) of up to ``DAYS + 1`` rises: that of
the window before the present one, and those of the windows of the same time of the day on the
``DAYS`` days before. Days before the replay's beginning do not count. Rises, since levels move from
day to day by more than what comes within an hour.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array

PER_DAY, DAYS = 24, 7
KEPT = PER_DAY * DAYS + 1


class Forecast(NamedTuple):
    """How demand is forecast, int32 scalars.

    Attributes:
      percent: of the quantile.
      window_s: length of a window (s), from 1 on.
    """

    percent: Array
    window_s: Array


class Demand(NamedTuple):
    """Demand up to a moment, int32, in GPUs.

    Attributes:
      held: now.
      before: ``[KEPT]``, just before each window; that of window ``v`` is at ``v mod KEPT``.
      peaks: ``[KEPT]``, the peak of each window.
    """

    held: Array
    before: Array
    peaks: Array


def nothing_yet() -> Demand:
    """No demand, at time 0."""
    windows = jnp.zeros(KEPT, jnp.int32)
    return Demand(jnp.int32(0), windows, windows)


def followed(demand: Demand, how: Forecast, before: Array, now: Array, held: Array) -> Demand:
    """The demand after a step.

    Args:
      demand: up to ``before``; it has not changed since.
      how: gives the windows.
      before: time of the last step (s), int32 scalar.
      now: the time (s).
      held: GPUs of the running jobs now.
    """
    last, window = before // how.window_s, now // how.window_s
    at = _windows_kept(window)
    is_new = at > last
    lasts = at <= (now - 1) // how.window_s  # until just before now
    peaks = jnp.where(is_new, jnp.where(lasts, demand.held, 0), demand.peaks)
    peaks = jnp.where(at == window, jnp.maximum(peaks, held), peaks)
    return Demand(held, jnp.where(is_new, demand.held, demand.before), peaks)


def to_come(demand: Demand, how: Forecast, now: Array) -> Array:
    """GPUs that are forecast to be held beside those that are, int32 scalar."""
    window = now // how.window_s
    same = window - PER_DAY * jnp.arange(DAYS + 1)
    same = same.at[0].add(-1)  # of today, the window before
    at, after = same % KEPT, (same + 1) % KEPT
    rises = jnp.maximum(demand.peaks[at], demand.peaks[after]) - demand.before[at]
    known = (same >= 0).at[0].set(True)
    ordered = jnp.sort(jnp.where(known, jnp.maximum(rises, 0), NONE))
    rank = (jnp.sum(known) * how.percent + 99) // 100
    return ordered[jnp.maximum(rank, 1) - 1]


def _windows_kept(window: Array) -> Array:
    """The window of each place while the given one is the last, int32 ``[KEPT]``."""
    return window - (window - jnp.arange(KEPT)) % KEPT
