"""Lower bounds on the average JCT of rigid jobs from prices of GPU time (Lagrangian duality).

A price ``prices(t) >= 0`` per GPU-second is charged for occupied capacity and refunded for all of
it. No feasible schedule is worse off by that, since it never occupies more than there is, and
without the capacity limit every job can be planned alone. The sum of what the jobs pay at best,
less the refund, is a lower bound **for any prices**; a search only makes it large. Two plans of one
job are used:

- `start_time_dual`: it runs from a start to its end. For non-preemptive schedules.
- `busy_time_dual`: it buys any seconds and pays for their mean instead of its completion. For both
  kinds of schedules, and never above the first at the same prices.

Prices are constant on bins of equal length that begin at the first submission, and zero after the
last bin. Axes: ``n`` jobs, ``K`` bins, ``R`` jobs of one block, ``W`` bins of a window. Times are
whole seconds since the first submission (int64), money is seconds of JCT (float64): values are
exact up to rounding of float64, below 1e-9 of the value.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX_BINS = 4096
"""Bins of the finest grid. On 82,247 jobs twice as many raised the bounds by 0.6 %."""

COARSEST_BINS = 64
"""The search begins on about so many bins and splits all of them in two again and again."""

_BLOCK_ELEMENTS = 1 << 19  # jobs x bins handled at once: a few megabytes per array
_LEVEL_STEPS = 12  # of the search for a job's price level; any level gives a valid bound
_FIRST_REACH, _PATIENCE, _MOMENTUM = 0.05, 4, 0.5


class PlanningProblem(NamedTuple):
    """Jobs that share one capacity.

    Attributes:
      submit_time: int64 ``[n]``, seconds since the first submission.
      width: int64 ``[n]``, capacity occupied while running, at least 0.
      duration: int64 ``[n]``, seconds, at least 1.
      capacity: what all running jobs may occupy together.
    """

    submit_time: Integers
    width: Integers
    duration: Integers
    capacity: int


class DualValue(NamedTuple):
    """A lower bound and how to raise it.

    Attributes:
      avg_jct_s: the bound on the average JCT, seconds.
      gradient: float64 ``[K]``, a supergradient of the bound in the prices: occupied less available
        capacity-seconds of each bin, over the number of jobs.
    """

    avg_jct_s: float
    gradient: Floats


Dual = Callable[[PlanningProblem, Floats, int], DualValue]


class _Prices(NamedTuple):
    """Prices on a grid, with one more bin of price zero."""

    per_bin: Floats  # [K + 1]
    paid: Floats  # [K + 1], integral from 0 to the beginning of each bin
    bin_s: int

    @classmethod
    def on_grid(cls, prices: Floats, bin_s: int) -> "_Prices":
        total = np.concatenate([[0.0], np.cumsum(prices)]) * bin_s
        return cls(np.append(prices, 0.0), total, bin_s)

    @property
    def num_bins(self) -> int:
        return len(self.per_bin) - 1

    def until(self, time: Integers) -> Floats:
        """Integral of the price from 0 to ``time``."""
        index = np.minimum(time // self.bin_s, self.num_bins)
        return self.paid[index] + (time - index * self.bin_s) * self.per_bin[index]


def start_time_dual(problem: PlanningProblem, prices: Floats, bin_s: int) -> DualValue:
    """Bound for **non-preemptive** schedules at given prices (time-indexed relaxation).

    Proof. Let jobs start at ``s_j`` and let ``P`` be the integral of the prices. At every instant
    the widths of the running jobs add up to at most the capacity ``G``; multiplied by the price and
    integrated: ``sum_j w_j (P(s_j + d_j) - P(s_j)) <= G P(end)``. Hence

    ``sum_j (s_j + d_j - r_j) >= sum_j [s_j + d_j - r_j + w_j (P(s_j + d_j) - P(s_j))] - G P(end)``,

    and each bracket is at least its minimum over ``s >= r_j``. The bracket is continuous and linear
    in ``s`` except where ``s`` or ``s + d_j`` is the edge of a bin, and rises after the last edge:
    its minimum is at such a breakpoint or at ``r_j``. Starting later than ``r_j`` by more than the
    payment at ``r_j`` costs more than starting there, so that later breakpoints are left out.

    Args:
      problem: the jobs and the capacity.
      prices: float64 ``[K]``, at least 0, seconds of JCT per second of one unit of capacity.
      bin_s: length of a bin in seconds.

    Source: Lagrangian relaxation of the time-indexed formulation (Dyer and Wolsey 1990).
    """
    grid = _Prices.on_grid(prices, bin_s)
    submit, width, duration, capacity = problem
    extra = width * (grid.until(submit + duration) - grid.until(submit))  # over the run time
    start = submit.copy()
    paying = np.flatnonzero(extra > 0)
    window = np.minimum(extra[paying] // bin_s + 2, grid.num_bins + 1).astype(np.int64)
    for block, size in _blocks(paying, window):
        r, w, d = (column[block][:, None] for column in (submit, width, duration))
        ahead = np.arange(1, size + 1)
        edge = r // bin_s + ahead
        at_edge = edge * bin_s
        cost = at_edge - r + w * (grid.until(at_edge + d) - _paid_at(grid, edge))
        _keep_cheapest(block, cost, at_edge, extra, start)
        edge = (r + d) // bin_s + ahead
        to_edge = edge * bin_s - d
        cost = to_edge - r + w * (_paid_at(grid, edge) - grid.until(to_edge))
        _keep_cheapest(block, cost, to_edge, extra, start)
    used = _occupied(start, width, duration, grid)
    value = np.mean(duration + extra) - capacity * grid.paid[-1] / len(submit)
    return DualValue(float(value), (used - capacity * bin_s) / len(submit))


def busy_time_dual(problem: PlanningProblem, prices: Floats, bin_s: int) -> DualValue:
    """Bound for **both** kinds of schedules at given prices (mean busy times).

    Proof. Let ``x_j(t)`` be 1 while job ``j`` runs and 0 otherwise, ``M_j`` its mean busy time, the
    integral of ``t x_j(t) / d_j``. Of all sets of measure ``d_j`` before its completion ``C_j`` the
    last ``d_j`` seconds have the largest mean, so ``M_j <= C_j - d_j / 2``. With the prices as in
    `start_time_dual` (the widths of running jobs add up to at most ``G`` whether or not they are
    suspended later),

    ``sum_j (C_j - r_j) >= sum_j [d_j / 2 - r_j + integral of (t / d_j + w_j price(t)) x_j(t)]``
    ``- G P(end)``.

    Write ``c_j(t)`` for the cost in parentheses. For any number ``v``, since ``x_j`` is within 0
    and 1 and has integral ``d_j``, the integral of ``c_j x_j`` is
    ``v d_j - integral of (v - c_j) x_j >= v d_j - integral of max(v - c_j, 0)`` over ``t >= r_j``.
    Every ``v`` is valid; the best is where ``c_j < v`` for just ``d_j`` seconds, which a few steps
    of Newton's method approach. Taking the price as zero after some time, as is done beyond each
    job's window, lowers ``c_j`` and keeps the bound valid.

    A job that runs in one piece from ``s`` has ``M_j + d_j / 2 = s + d_j``, hence this bound is at
    most that of `start_time_dual` at the same prices. With the best prices on ever finer bins it
    is at least ``jaxsched.trace_replay.bounds.mean_busy_bound``, which forgets that a job's speed
    is limited.

    Args:
      problem: the jobs and the capacity.
      prices: float64 ``[K]``, at least 0, seconds of JCT per second of one unit of capacity.
      bin_s: length of a bin in seconds.

    Source: mean busy dates of Goemans, Queyranne, Schulz, Skutella and Wang (2002), section 2, with
    limited speeds.
    """
    grid = _Prices.on_grid(prices, bin_s)
    submit, width, duration, capacity = problem
    payment = width * (grid.until(submit + duration) - grid.until(submit))
    jct = duration.astype(np.float64)
    free = payment <= 0
    used = _occupied(submit[free], width[free], duration[free], grid)
    paying = np.flatnonzero(~free)
    left = np.maximum(grid.num_bins - submit[paying] // bin_s, 1)
    wanted = (2 * payment[paying] + duration[paying]) // bin_s + 2
    for block, size in _blocks(paying, np.minimum(wanted, left).astype(np.int64)):
        r, w, d = (column[block][:, None] for column in (submit, width, duration))
        index = r // bin_s + np.arange(size)
        begin = np.maximum(index * bin_s - r, 0)  # seconds after submission, as all below
        length = (index + 1) * bin_s - r - begin
        index = np.minimum(index, grid.num_bins)
        # Costs times d_j: from `entry` to `entry + length` in a bin, from `tail` on after all.
        entry = begin + d * w * grid.per_bin[index]
        tail = begin[:, -1] + length[:, -1]
        level = _price_level(entry, length, tail, duration[block], 2 * payment[block])
        above = level[:, None] - entry
        bought = np.clip(above, 0, length)
        in_tail = np.maximum(level - tail, 0)
        saved = np.sum(bought * (above - bought / 2), axis=1) + in_tail**2 / 2
        jct[block] = level - saved / duration[block] + duration[block] / 2
        used += np.bincount(index.ravel(), (w * bought).ravel(), grid.num_bins + 1)[:-1]
    value = np.mean(jct) - capacity * grid.paid[-1] / len(submit)
    return DualValue(float(value), (used - capacity * bin_s) / len(submit))


def best_bound(
    problem: PlanningProblem,
    dual: Dual,
    *,
    horizon_s: int,
    iterations: int,
    max_bins: int = MAX_BINS,
) -> float:
    """The largest bound on the average JCT met by a search over prices, in seconds.

    Projected supergradient ascent with Polyak's steps: towards a value a little above the best so
    far, closer after each few steps without much progress. Grids are refined from coarse to fine,
    and the finer one begins at the best prices of the coarser one, which have the same value on it.

    Args:
      problem: the jobs and the capacity.
      dual: `start_time_dual` or `busy_time_dual`.
      horizon_s: end of the last bin, about, in seconds since the first submission.
      iterations: prices tried on every grid; 0 gives the mean run time.
      max_bins: bins of the finest grid, at most.

    Source: step size of Polyak 1969; direction with memory of Camerini, Fratta and Maffioli 1975.
    """
    finest = max(1, -(-horizon_s // max_bins))
    splits = 0
    while horizon_s > COARSEST_BINS * (finest << splits):
        splits += 1
    best, prices = float(np.mean(problem.duration)), np.zeros(0)
    for split in range(splits, -1, -1):
        bin_s = finest << split
        num_bins = max(1, -(-horizon_s // bin_s))
        prices = np.repeat(prices, 2)[:num_bins] if prices.size else np.zeros(num_bins)
        best, prices = _ascend(problem, dual, prices, bin_s, best, iterations)
    return best


def _ascend(
    problem: PlanningProblem,
    dual: Dual,
    prices: Floats,
    bin_s: int,
    best: float,
    iterations: int,
) -> tuple[float, Floats]:
    """The best value and prices among ``best`` at ``prices`` and ``iterations`` further ones."""
    best_prices, current = prices, prices
    reach, fruitless, memory = _FIRST_REACH, 0, np.zeros_like(prices)
    for _ in range(iterations):
        value, gradient = dual(problem, current, bin_s)
        fruitless = 0 if value > best * (1 + reach / 100) else fruitless + 1
        if value > best:
            best, best_prices = value, current
        if fruitless == _PATIENCE:
            reach, fruitless = reach / 2, 0
        gradient = np.where((current <= 0) & (gradient < 0), 0.0, gradient)
        if not gradient.any():
            break
        memory = _MOMENTUM * memory + gradient
        rise = float(gradient @ memory)
        if rise <= 0:
            memory, rise = gradient, float(gradient @ gradient)
        current = np.maximum(current + (best * (1 + reach) - value) / rise * memory, 0.0)
    return best, best_prices


def _blocks(jobs: Integers, window: Integers) -> Iterator[tuple[Integers, int]]:
    """Jobs of similar windows, few enough for memory, with a power of two that covers them."""
    order = np.argsort(window, kind="stable")
    sizes = 1 << np.ceil(np.log2(window[order])).astype(np.int64)
    for size in np.unique(sizes):
        members = jobs[order[sizes == size]]
        rows = max(1, _BLOCK_ELEMENTS // int(size))
        for first in range(0, len(members), rows):
            yield members[first : first + rows], int(size)


def _paid_at(grid: _Prices, edge: Integers) -> Floats:
    """Integral of the price until edges of bins, given by their numbers."""
    return grid.paid[np.minimum(edge, grid.num_bins)]


def _keep_cheapest(
    block: Integers, cost: Floats, begin: Integers, extra: Floats, start: Integers
) -> None:
    """Write the cheapest of the candidates ``[R, W]`` where it beats what the jobs have."""
    choice = np.argmin(cost, axis=1)[:, None]
    cheapest = np.take_along_axis(cost, choice, axis=1)[:, 0]
    better = cheapest < extra[block]
    extra[block[better]] = cheapest[better]
    start[block[better]] = np.take_along_axis(begin, choice, axis=1)[better, 0]


def _price_level(
    entry: Floats, length: Integers, tail: Integers, duration: Integers, guess: Floats
) -> Floats:
    """The level below which about ``duration`` seconds are for sale, times that, ``[R]``."""
    low, high = duration.astype(np.float64), (tail + duration).astype(np.float64)
    level = np.minimum(low + guess, high)
    for _ in range(_LEVEL_STEPS):
        above = level[:, None] - entry
        missing = duration - np.sum(np.clip(above, 0, length), axis=1) - np.maximum(level - tail, 0)
        slope = np.sum((above > 0) & (above < length), axis=1) + (level > tail)
        low, high = np.where(missing < 0, low, level), np.where(missing < 0, level, high)
        newton = level + missing / np.maximum(slope, 1)
        inside = (slope > 0) & (newton >= low) & (newton <= high)
        level = np.where(missing == 0, level, np.where(inside, newton, (low + high) / 2))
    return level


def _occupied(start: Integers, width: Integers, duration: Integers, grid: _Prices) -> Floats:
    """Capacity-seconds in each bin, ``[K]``, of jobs that run in one piece from ``start``."""
    used = np.zeros(grid.num_bins + 1)
    for time, sign in ((start, 1), (start + duration, -1)):
        index = np.minimum(time // grid.bin_s, grid.num_bins)
        begun = np.bincount(index, width, grid.num_bins + 1)
        rest = (index + 1) * grid.bin_s - time
        partial = np.bincount(index, width * rest, grid.num_bins + 1)
        used += sign * (partial + grid.bin_s * (np.cumsum(begun) - begun))
    return used[:-1]
