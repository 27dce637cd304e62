import numpy as np
import pytest
from scipy import stats

from jaxsched.errors import JaxschedError
from jaxsched.results.statistics import (
    Interval,
    bootstrap_interval,
    interquartile_interval,
    interquartile_mean,
    paired_difference,
    ratio_interval,
    seeds_episodes_interval,
)

VALUES = np.random.default_rng(7).normal(10.0, 2.0, size=40)


def test_interquartile_mean_drops_a_quarter_at_each_end():
    assert interquartile_mean([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -50.0]) == 3.5
    assert interquartile_mean([1.0, 2.0, 9.0]) == 4.0  # floor(3 / 4) = 0: nothing to drop
    np.testing.assert_array_equal(
        interquartile_mean([[0.0, 1.0, 3.0, 50.0], [4.0, 4.0, 6.0, 9.0]], axis=1), [2.0, 5.0]
    )


def test_interval_of_two_values_has_the_known_ends():
    # The mean of two draws from {0, 1} is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4.
    assert bootstrap_interval([0.0, 1.0]) == Interval(0.5, 0.0, 1.0, 0.95)
    assert bootstrap_interval([0.0, 1.0], level=0.4) == Interval(0.5, 0.5, 0.5, 0.4)


def test_interval_of_a_constant_is_a_point():
    result = bootstrap_interval([3.0, 3.0, 3.0])
    assert result == Interval(3.0, 3.0, 3.0, 0.95)
    assert result.half_width == 0.0


@pytest.mark.parametrize("statistic", [np.mean, np.median, interquartile_mean])
def test_interval_agrees_with_scipy(statistic):
    ours = bootstrap_interval(VALUES, statistic=statistic, seed=1)
    theirs = stats.bootstrap(
        (VALUES,),
        lambda x, axis: statistic(x, axis=axis),
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert ours.estimate == pytest.approx(float(statistic(VALUES, axis=0)))
    assert ours.low == pytest.approx(theirs.low, abs=0.05)
    assert ours.high == pytest.approx(theirs.high, abs=0.05)


def test_interval_of_a_large_sample_is_the_normal_one():
    sample = np.random.default_rng(3).normal(size=4000)
    result = bootstrap_interval(sample, resamples=2000)
    error = 1.96 * sample.std() / np.sqrt(sample.size)
    assert result.low == pytest.approx(sample.mean() - error, rel=0.05, abs=0.1 * error)
    assert result.high == pytest.approx(sample.mean() + error, rel=0.05, abs=0.1 * error)


def test_same_seed_gives_the_same_interval_and_another_seed_another():
    assert bootstrap_interval(VALUES, seed=5) == bootstrap_interval(VALUES, seed=5)
    assert bootstrap_interval(VALUES, seed=5) != bootstrap_interval(VALUES, seed=6)


def test_paired_difference_removes_the_common_part():
    shifted = VALUES + 0.25
    result = paired_difference(shifted, VALUES)
    assert result.estimate == pytest.approx(0.25)
    assert result.low == pytest.approx(0.25)
    assert result.high == pytest.approx(0.25)
    assert result.excludes(0.0)
    shuffled = paired_difference(shifted, VALUES[::-1])
    assert not shuffled.excludes(0.0)


def test_ratio_is_of_means_and_is_paired():
    result = ratio_interval(2.0 * VALUES, VALUES)
    assert (result.estimate, result.low, result.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio_interval([1.0, 9.0], [1.0, 3.0]).estimate == 2.5  # mean of the ratios: 2.0


def test_ratio_agrees_with_scipy():
    other = VALUES * np.random.default_rng(4).uniform(0.5, 1.5, VALUES.size)
    ours = ratio_interval(other, VALUES)
    theirs = stats.bootstrap(
        (other, VALUES),
        lambda a, b, axis: a.mean(axis=axis) / b.mean(axis=axis),
        paired=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.01)


def test_ratio_refuses_a_zero_denominator():
    with pytest.raises(JaxschedError, match="mean is 0"):
        ratio_interval([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(JaxschedError, match="in some resample"):
        ratio_interval([1.0, 2.0], [0.0, 1.0])


def test_one_seed_is_the_plain_interval():
    plain = bootstrap_interval(VALUES)
    for over in ("both", "episodes"):
        result = seeds_episodes_interval(VALUES[None], over=over)
        assert (result.estimate, result.low, result.high) == pytest.approx(
            (plain.estimate, plain.low, plain.high)
        )


def test_seed_and_episode_variation_are_told_apart():
    episode = np.linspace(-3.0, 3.0, 12)
    same_seeds = np.tile(episode, (4, 1))
    assert seeds_episodes_interval(same_seeds, over="seeds").half_width == 0.0
    assert seeds_episodes_interval(same_seeds, over="episodes").half_width > 0.5
    same_episodes = np.tile(np.array([[0.0], [1.0], [2.0], [3.0]]), (1, 12))
    assert seeds_episodes_interval(same_episodes, over="episodes").half_width == 0.0
    both = seeds_episodes_interval(same_episodes, over="both")
    assert both.estimate == 1.5
    assert (both.low, both.high) == (0.5, 2.5)
    # Stratified by episode: twelve independent draws, so twelve times less variance.
    assert seeds_episodes_interval(same_episodes, over="seeds").half_width == pytest.approx(
        1.96 * np.sqrt(1.25 / 4 / 12), rel=0.05
    )


def test_pairing_accepts_different_numbers_of_seeds():
    several = np.stack([VALUES + 0.9, VALUES + 1.1])
    result = paired_difference(several, VALUES)
    assert result.estimate == pytest.approx(1.0)
    assert (result.low, result.high) == pytest.approx((0.9, 1.1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval([]), "values: is empty"),
        (lambda: bootstrap_interval([1.0, float("nan")]), "NaN or infinity"),
        (lambda: bootstrap_interval([[1.0, 2.0]]), "expected one dimension"),
        (lambda: bootstrap_interval([1.0], level=95), "outside"),
        (lambda: bootstrap_interval([1.0], resamples=0), "resamples: 0"),
        (lambda: seeds_episodes_interval([1.0, 2.0]), r"expected \[seeds, episodes\]"),
        (lambda: paired_difference([1.0, 2.0], [1.0]), "2 and 1 episodes"),
        (lambda: bootstrap_interval([[1.0], [1.0, 2.0]]), "equal rows"),
    ],
)
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises(JaxschedError, match=message):
        call()


def test_interquartile_interval_is_stratified():
    # One seed: the bootstrap over episodes. Several: within each episode the seeds are drawn.
    one = interquartile_interval(VALUES[None], resamples=500)
    assert one == bootstrap_interval(VALUES, statistic=interquartile_mean, resamples=500)
    alike = np.stack([VALUES, VALUES])
    fixed = interquartile_interval(alike, resamples=50)
    assert fixed.low == fixed.high == fixed.estimate == interquartile_mean(alike)
    apart = interquartile_interval(np.stack([VALUES - 1, VALUES + 1]), resamples=500)
    assert apart.low < apart.estimate < apart.high
    with pytest.raises(JaxschedError, match="expected"):
        interquartile_interval(VALUES)
