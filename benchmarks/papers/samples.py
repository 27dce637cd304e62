"""Metrics of one policy on the test tables, and statistics of two of them.

Axes: ``S`` seeds (one for heuristics), ``E`` job tables, the same for all policies of a row.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxsched.results.statistics import (
    Floats,
    Interval,
    paired_difference,
    ratio_interval,
    seeds_episodes_interval,
)
from jaxsched.systems.parts import Played

Sample = dict[str, Floats]  # metric -> float64 [S, E]


def sample_of(runs: Sequence[Played]) -> Sample:
    """The metrics of one play per seed."""
    return {
        name: np.stack([np.asarray(run.metrics[name], np.float64) for run in runs])
        for name in runs[0].metrics
    }


def mean_of(sample: Sample, metric: str) -> Interval:
    """Mean over seeds and tables with its 95 % interval."""
    return seeds_episodes_interval(sample[metric])


def spread_of(sample: Sample, metric: str) -> float:
    """Standard deviation over the tables (n - 1) of the means over the seeds; 0 for one table."""
    values = sample[metric].mean(axis=0)
    return float(values.std(ddof=1)) if values.size > 1 else 0.0


def change(sample: Sample, base: Sample, metric: str) -> Interval:
    """Mean over the base's mean, less 1; the same tables are resampled for both."""
    ratio = ratio_interval(sample[metric], base[metric])
    return Interval(ratio.estimate - 1, ratio.low - 1, ratio.high - 1, ratio.level)


def below(sample: Sample, base: Sample, metric: str) -> Interval:
    """By which share the mean is below the base's."""
    found = change(sample, base, metric)
    return Interval(-found.estimate, -found.high, -found.low, found.level)


def difference(sample: Sample, other: Sample, metric: str) -> Interval:
    """Difference of the means over the same tables."""
    return paired_difference(sample[metric], other[metric])


def ratio(sample: Sample, base: Sample, metric: str) -> Interval | None:
    """Mean over the base's mean on the same tables; None where the base is 0 on one of them."""
    if not np.all(base[metric].mean(axis=0) > 0):
        return None
    return ratio_interval(sample[metric], base[metric])


def scaled(interval: Interval, factor: float) -> Interval:
    """An interval in another unit."""
    estimate, low, high = (factor * x for x in (interval.estimate, interval.low, interval.high))
    return Interval(estimate, low, high, interval.level)


def hundred(interval: Interval) -> Interval:
    """The same in per cent."""
    return scaled(interval, 100.0)


def plain(sample: Sample) -> dict[str, list[list[float]]]:
    """JSON-able."""
    return {name: values.tolist() for name, values in sample.items()}


def moving_mean(values: ArrayLike, width: int) -> Floats:
    """Means over windows of ``width``, shorter at the ends, so that the length is kept."""
    data = np.asarray(values, np.float64)
    half = width // 2
    return np.array([data[max(i - half, 0) : i + half + 1].mean() for i in range(data.size)])


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's; nan where one of them does not vary."""
    from scipy import stats

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(stats.spearmanr(a, b).statistic)


def first_at_most(points: Sequence[tuple[float, float]], bound: float) -> float | None:
    """The first step of a curve whose value is at most the bound."""
    for step, value in points:
        if value <= bound:
            return float(step)
    return None
