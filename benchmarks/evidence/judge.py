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
    """A policy against another by the means of one metric.

    Attributes:
      metric: which.
      means: of the policy, of the other.
      difference: paired, of the means.
      change: ratio of the means less 1.
    """

    metric: str
    means: tuple[float, float]
    difference: Interval
    change: Interval


class Single(NamedTuple):
    """A policy against another episode by episode.

    Attributes:
      typical: interquartile mean of the ratios less 1; None where an episode of the other is 0.
      improvement: share of episodes (and seeds) in which the policy is better, ties by half.
    """

    typical: Interval | None
    improvement: Interval


@cache
def verdict(plays: Plays, policy: str, other: str, metric: str) -> Verdict:
    """What the means of one metric say."""
    return _verdict(metric, plays.of(policy, metric), plays.of(other, metric))


def _verdict(metric: str, left: Floats, right: Floats) -> Verdict:
    return Verdict(
        metric=metric,
        means=(float(left.mean()), float(right.mean())),
        difference=paired_difference(left, right),
        change=less_one(ratio_interval(left, right)),
    )


@cache
def single(plays: Plays, policy: str, other: str, metric: str) -> Single:
    """What single episodes say."""
    left, right = plays.of(policy, metric), plays.of(other, metric)
    base = right.mean(axis=0, keepdims=True)
    better = seeds_episodes_interval(better_share(left, right, plays.sign(metric)))
    if np.any(base == 0):
        return Single(None, better)
    return Single(less_one(interquartile_interval(left / base)), better)


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
    left, right = plays.of(policy, metric), plays.of(other, metric)
    return [
        (len(part), _verdict(metric, left[:, part], right[:, part]))
        for part in by_rank(plays.of(ranked_by, completion), GROUPS)
    ]
