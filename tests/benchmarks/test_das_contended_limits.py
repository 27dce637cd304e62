"""Estimates of run times from the jobs ended before, by hand."""

import pytest

from benchmarks.das_contended_limits import Informed, Plain, errors
from jaxsched import traces


def test_plain_draws_each_mean_to_the_wider_one():
    plain = Plain(10.0)
    assert plain.estimate(1, 1) == 10.0
    plain.learn(1, 1, 16.0)
    everyone = (10.0 + 16.0) / 2
    user = (16.0 + everyone) / 2
    assert plain.estimate(1, 1) == (16.0 + user) / 2
    assert plain.estimate(2, 1) == user
    assert plain.estimate(2, 2) == everyone


def test_informed_is_the_posterior_mean_of_normal_laws():
    """One ended job: its group's mean given it, and another group's of the same user."""
    informed = Informed(10.0, user=2.0, group=1.0, job=0.5)
    informed.learn(1, 1, 16.0)
    everyone = 13.0
    gain = 4.0 / (4.0 + 1.0 + 0.25)  # of the user's mean from the job
    user = everyone + gain * (16.0 - everyone)
    assert informed.estimate(2, 1) == pytest.approx(user)
    assert informed.estimate(1, 1) == pytest.approx((user / 1.0 + 16.0 / 0.25) / (1.0 + 4.0))
    assert informed.estimate(3, 3) == everyone


def test_who_knows_the_spreads_is_nearer():
    found = errors(traces.get("das-contended", seed=3, num_traces=4, num_jobs=400))
    shown, informed, least = found.values()
    assert least < informed < shown
