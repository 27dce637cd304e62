"""Times in readable units."""

import math

import pytest

from jaxsched.units import readable_time, three_figures, unit_of


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
        (8676, "2.41 h"),
        (2.678e6, "31 days"),
        (1e9, "11,574 days"),
        (-750, "-12.5 min"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_a_time_stands_in_the_unit_that_suits_it(seconds, text):
    assert readable_time(seconds) == text


def test_a_column_has_the_unit_of_its_median():
    unit = unit_of([336.0, 17_816.0, 42_900.0, math.inf])
    assert (unit.seconds, unit.short) == (3600.0, "h")
    shown = [three_figures(x) for x in (2.678e6, 31.04, 0.4812, 0)]
    assert shown == ["2,678,000", "31.0", "0.481", "0"]


def test_the_gap_is_the_callers():
    assert readable_time(750, "\u202f") == "12.5\u202fmin"
