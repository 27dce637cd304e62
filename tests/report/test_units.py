"""Times in the unit that suits their size."""

import math

import pytest

from jaxsched.report.units import in_unit, readable_time, three_figures, unit_of


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.4, "0.4 s"), (42, "42 s"), (130, "2.17 min"), (8640, "2.4 h"),
     (2.678e6, "31 days"), (172800 * 1000, "2,000 days"), (math.nan, "-"), (math.inf, "-")],
)  # fmt: skip
def test_readable_times(seconds, text):
    assert readable_time(seconds) == text


def test_a_column_has_one_unit():
    unit = unit_of([30.0, 8000.0, 9000.0, math.nan])
    assert unit.short == "h" and in_unit(9000.0, unit) == "2.50" and in_unit(30.0, unit) == "0.01"
    assert in_unit(math.nan, unit) == "-" and unit_of([]).short == "s"
    assert [three_figures(value) for value in (1.234, 12.34, 1234.5)] == ["1.23", "12.3", "1,234"]
