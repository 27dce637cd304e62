"""Times in readable units."""

import math

import pytest

from jaxsched.units import duration, three_figures, time_unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (45, "45 s"),
        (119, "119 s"),
        (120, "2 min"),
        (750, "12.5 min"),
        (7200, "2 h"),
        (10_800, "3 h"),
        (2.678e6, "31 days"),
        (1e9, "11,574 days"),
        (-750, "-12.5 min"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_a_time_stands_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text


def test_a_column_has_one_unit():
    unit = time_unit(2.678e6)
    assert unit.name == "days"
    assert three_figures(86_400 / unit.seconds) == "1"


def test_the_gap_is_the_callers():
    assert duration(750, "\u202f") == "12.5\u202fmin"
