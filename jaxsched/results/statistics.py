"""Intervals for results measured over the same episodes (and, for learners, over several seeds).

Everything here runs on the host in float64 numpy. All intervals are percentile bootstraps: draw
``resamples`` samples with replacement, recompute the statistic on each, and report the
``(1 - level) / 2`` and ``(1 + level) / 2`` quantiles. The same ``seed`` gives the same interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from jaxsched.errors import JaxschedError

Floats = NDArray[np.float64]

_CHUNK_ELEMENTS = 1 << 21  # bounds the memory of one block of resamples to about 16 MB


class Statistic(Protocol):
    """A numpy-style reduction: ``statistic(values, axis=...)``."""

    def __call__(self, values: Floats, /, *, axis: int) -> ArrayLike:
        """Reduce ``values`` along ``axis``."""
        ...


@dataclass(frozen=True)
class Interval:
    """A point estimate and the confidence interval around it."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @property
    def half_width(self) -> float:
        """The larger of the two distances from the estimate to an end of the interval."""
        return max(self.estimate - self.low, self.high - self.estimate)

    def excludes(self, value: float) -> bool:
        """Whether ``value`` lies outside the interval."""
        return value < self.low or value > self.high


def mean(values: Floats, /, *, axis: int) -> Floats:
    """Arithmetic mean along ``axis``."""
    return np.asarray(np.mean(values, axis=axis), np.float64)


def interquartile_mean(values: ArrayLike, /, *, axis: int | None = None) -> Floats:
    """Mean of the middle half: the lowest and highest ``floor(n / 4)`` values are dropped.

    With ``axis=None`` all values are pooled. Less sensitive to one outlying seed than the mean and
    less wasteful than the median (Agarwal et al., "Deep Reinforcement Learning at the Edge of the
    Statistical Precipice").
    """
    return np.asarray(stats.trim_mean(_finite(values, "values"), 0.25, axis=axis), np.float64)


def bootstrap_interval(
    values: ArrayLike,
    *,
    statistic: Statistic = mean,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic of independent values.

    Args:
        values: one value per episode (or per seed), shape ``[n]``.
        statistic: reduction along an axis, such as `mean` or `interquartile_mean`.
        level: confidence level, in (0, 1).
        resamples: number of bootstrap samples.
        seed: seed of the resampling.

    Raises:
        JaxschedError: when ``values`` is empty, not one-dimensional or not finite.
    """
    data = _vector(values, "values")
    _check_options(level, resamples)
    blocks = [
        np.asarray(statistic(data[index], axis=1), np.float64)
        for index in _resample(data.size, resamples, np.random.default_rng(seed))
    ]
    return _percentiles(float(np.asarray(statistic(data, axis=0))), np.concatenate(blocks), level)


def seeds_episodes_interval(
    values: ArrayLike,
    *,
    over: Literal["both", "seeds", "episodes"] = "both",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of the grand mean of ``values[seed, episode]``.

    Every seed is evaluated on the same episodes, so the two axes are crossed. ``over`` says which
    of them counts as a sample of something larger:

    - ``"both"``: seeds and episodes are resampled independently of each other; the interval
      covers a new training run met with new episodes.
    - ``"seeds"``: stratified by episode, that is within each episode the seeds are resampled
      separately; the interval covers training noise on these very episodes.
    - ``"episodes"``: the seeds are kept and whole columns are resampled.

    With a single seed, ``"both"`` and ``"episodes"`` are `bootstrap_interval` of the mean.

    Raises:
        JaxschedError: when ``values`` is empty, not two-dimensional or not finite.
    """
    data = _matrix(values, "values")
    _check_options(level, resamples)
    rng = np.random.default_rng(seed)
    if over == "seeds":
        means = _means_within_episodes(data, resamples, rng)
    else:
        means = _crossed_means([data], resamples, rng, resample_seeds=over == "both")[0]
    return _percentiles(float(data.mean()), means, level)


def interquartile_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 2_000, seed: int = 0
) -> Interval:
    """Stratified bootstrap interval of the interquartile mean of ``values[seed, episode]``.

    The mean of the middle half of all values. Within each episode the seeds are resampled
    separately, as far as there are several; with a single seed the episodes are.

    Raises:
        JaxschedError: when ``values`` is empty, not two-dimensional or not finite.

    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice,
    2021.
    """
    data = _matrix(values, "values")
    _check_options(level, resamples)
    seeds, episodes = data.shape
    if seeds == 1:
        return bootstrap_interval(
            data[0], statistic=interquartile_mean, level=level, resamples=resamples, seed=seed
        )
    rng, columns, blocks = np.random.default_rng(seed), np.arange(episodes), []
    block = max(1, _CHUNK_ELEMENTS // data.size)
    for start in range(0, resamples, block):
        drawn = rng.integers(0, seeds, size=(min(block, resamples - start), *data.shape))
        alike = data[drawn, columns].reshape(len(drawn), -1)
        blocks.append(interquartile_mean(alike, axis=1))
    return _percentiles(float(interquartile_mean(data)), np.concatenate(blocks), level)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of ``mean(a) - mean(b)`` where both saw the same episodes.

    Args:
        a: shape ``[episodes]`` or ``[seeds, episodes]``.
        b: likewise, with the same episodes in the same order; the seeds may differ in number.
        level: confidence level.
        resamples: number of bootstrap samples.
        seed: seed of the resampling.

    Raises:
        JaxschedError: when the numbers of episodes differ.
    """
    left, right = _pair(a, b)
    _check_options(level, resamples)
    means = _crossed_means([left, right], resamples, np.random.default_rng(seed))
    return _percentiles(float(left.mean() - right.mean()), means[0] - means[1], level)


def ratio_interval(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of ``mean(numerator) / mean(denominator)`` over the same episodes.

    A ratio of means, not a mean of ratios: one congested episode weighs as much as it does in the
    two means themselves. Shapes as in `paired_difference`.

    Raises:
        JaxschedError: when the numbers of episodes differ, or when the mean of the denominator is
            zero, in the data or in a resample.
    """
    upper, lower = _pair(numerator, denominator)
    _check_options(level, resamples)
    tops, bottoms = _crossed_means([upper, lower], resamples, np.random.default_rng(seed))
    if lower.mean() == 0 or not np.all(bottoms):
        raise JaxschedError("denominator: its mean is 0 in some resample, so no ratio is defined")
    return _percentiles(float(upper.mean() / lower.mean()), tops / bottoms, level)


def _crossed_means(
    samples: list[Floats],
    resamples: int,
    rng: np.random.Generator,
    *,
    resample_seeds: bool = True,
) -> list[Floats]:
    """Resampled grand means of ``[seeds, episodes]`` matrices that share their episodes."""
    episodes = samples[0].shape[1]
    weights = [_seed_weights(s.shape[0], resamples, rng, resample_seeds) for s in samples]
    means: list[list[Floats]] = [[] for _ in samples]
    done = 0
    for index in _resample(episodes, resamples, rng):
        rows = slice(done, done + len(index))
        done += len(index)
        for out, data, weight in zip(means, samples, weights, strict=True):
            per_seed = np.stack([row[index].mean(axis=1) for row in data], axis=1)
            out.append((per_seed * weight[rows]).sum(axis=1))
    return [np.concatenate(blocks) for blocks in means]


def _seed_weights(seeds: int, resamples: int, rng: np.random.Generator, resample: bool) -> Floats:
    if seeds == 1 or not resample:
        return np.full((resamples, seeds), 1 / seeds)
    return rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds


def _means_within_episodes(data: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    seeds, episodes = data.shape
    columns = np.arange(episodes)
    block = max(1, _CHUNK_ELEMENTS // data.size)
    means = []
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        index = rng.integers(0, seeds, size=(count, seeds, episodes))
        means.append(data[index, columns].mean(axis=(1, 2)))
    return np.concatenate(means)


def _resample(size: int, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Blocks of index rows, ``resamples`` rows of ``size`` in all."""
    block = max(1, _CHUNK_ELEMENTS // size)
    for start in range(0, resamples, block):
        yield rng.integers(0, size, size=(min(block, resamples - start), size))


def _percentiles(estimate: float, means: Floats, level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), level)


def _finite(values: ArrayLike, name: str) -> Floats:
    try:
        data = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise JaxschedError(f"{name}: expected numbers in equal rows ({error})") from None
    if data.size == 0:
        raise JaxschedError(f"{name}: is empty, expected at least one value")
    if not np.all(np.isfinite(data)):
        raise JaxschedError(f"{name}: holds NaN or infinity, expected finite numbers")
    return data


def _vector(values: ArrayLike, name: str) -> Floats:
    data = _finite(values, name)
    if data.ndim != 1:
        raise JaxschedError(f"{name}: has shape {data.shape}, expected one dimension")
    return data


def _matrix(values: ArrayLike, name: str) -> Floats:
    data = _finite(values, name)
    if data.ndim != 2:
        raise JaxschedError(f"{name}: has shape {data.shape}, expected [seeds, episodes]")
    return data


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    left, right = _finite(a, "first sample"), _finite(b, "second sample")
    if left.ndim not in (1, 2) or right.ndim not in (1, 2):
        raise JaxschedError("paired samples: expected shape [episodes] or [seeds, episodes]")
    left, right = np.atleast_2d(left), np.atleast_2d(right)
    if left.shape[1] != right.shape[1]:
        raise JaxschedError(
            f"paired samples: {left.shape[1]} and {right.shape[1]} episodes, "
            "expected the same episodes in both"
        )
    return left, right


def _check_options(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise JaxschedError(f"level: {level} is outside (0, 1)")
    if resamples < 1:
        raise JaxschedError(f"resamples: {resamples}, expected at least 1")
