"""What is said of a policy against another: means, intervals, shares of episodes, tenths.

Axes: ``S`` seeds, ``E`` episodes.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.by_congestion import by_rank
from benchmarks.evidence.sources import Plays
from jaxsched.results.statistics import (
    Floats,
    Interval,
    interquartile_interval,
    paired_difference,
    ratio_interval,
    seeds_episodes_interval,
)

GROUPS = 10
COMPLETION = ("avg_jct", "avg_jct_min")
"""Metrics that say how congested an episode is; the first that a system has."""


class Verdict(NamedTuple):
    """A policy against another by one metric.

    Attributes:
      metric: which.
      means: of the policy, of the other.
      difference: paired, of the means.
      change: ratio of the means less 1.
      typical: interquartile mean of the ratios episode by episode, less 1; None where an episode of
        the other is 0.
      improvement: share of episodes (and seeds) in which the policy is better, ties by half.
    """

    metric: str
    means: tuple[float, float]
    difference: Interval
    change: Interval
    typical: Interval | None
    improvement: Interval


@cache
def verdict(plays: Plays, policy: str, other: str, metric: str) -> Verdict:
    """All that is said by one metric."""
    left, right = plays.of(policy, metric), plays.of(other, metric)
    return _verdict(metric, left, right, plays.sign(metric))


def _verdict(metric: str, left: Floats, right: Floats, sign: int) -> Verdict:
    base = right.mean(axis=0, keepdims=True)
    ratio = None if np.any(base == 0) else interquartile_interval(left / np.where(base, base, 1))
    return Verdict(
        metric=metric,
        means=(float(left.mean()), float(right.mean())),
        difference=paired_difference(left, right),
        change=less_one(ratio_interval(left, right)),
        typical=None if ratio is None else less_one(ratio),
        improvement=seeds_episodes_interval(better_share(left, right, sign)),
    )


def better_share(left: Floats, right: Floats, sign: int) -> Floats:
    """``[S, E]``: share of the other's seeds that a seed is better than, ties by half."""
    gain = sign * (left[:, None] - right[None])
    share: Floats = ((gain > 0) + 0.5 * (gain == 0)).mean(axis=1)
    return share


def less_one(ratio: Interval) -> Interval:
    """A ratio as a change."""
    return Interval(ratio.estimate - 1, ratio.low - 1, ratio.high - 1, ratio.level)


@cache
def by_tenth(
    plays: Plays, policy: str, other: str, ranked_by: str, metric: str
) -> list[tuple[int, Verdict]]:
    """Verdicts from the quietest to the most congested tenth of the episodes, with their number.

    Episodes are ranked by the mean completion time of a third policy.
    """
    completion = next(name for name in COMPLETION if name in plays.metrics)
    left, right, sign = plays.of(policy, metric), plays.of(other, metric), plays.sign(metric)
    return [
        (len(part), _verdict(metric, left[:, part], right[:, part], sign))
        for part in by_rank(plays.of(ranked_by, completion), GROUPS)
    ]
