"""Times in the unit that suits their size, for pages and printed tables.

Files (``--json``, ``comparison.json``) keep seconds; what is printed or drawn comes through here.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class TimeUnit(NamedTuple):
    """A unit of time.

    Attributes:
      seconds: that it has.
      short: its sign, for headings: s, min, h or days.
    """

    seconds: float
    short: str


UNITS = (
    TimeUnit(86400.0, "days"),
    TimeUnit(3600.0, "h"),
    TimeUnit(60.0, "min"),
    TimeUnit(1.0, "s"),
)
"""Units, the largest first; one is used from twice its size on."""


def unit_of(seconds: Iterable[float]) -> TimeUnit:
    """The unit for a column of times: that of their median, so that all can be compared.

    Args:
      seconds: the times; those that are not finite do not count.
    """
    found = np.abs([value for value in seconds if value is not None and math.isfinite(value)])
    middle = float(np.median(found)) if len(found) else 0.0
    return next((unit for unit in UNITS if middle >= 2 * unit.seconds), UNITS[-1])


def in_unit(seconds: float, unit: TimeUnit) -> str:
    """A time as a number of the unit with three figures or more: ``1,234``, ``31.0``, ``2.41``."""
    if not math.isfinite(seconds):
        return "-"
    return three_figures(seconds / unit.seconds)


def three_figures(value: float) -> str:
    """A number with three figures or more, thousands apart, never as a power of ten.

    Numbers below 1 have three decimals.
    """
    size = abs(value)
    digits = 0 if size >= 100 or value == 0 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def readable_time(seconds: float, gap: str = " ") -> str:
    """A time in words: ``31 days``, ``2.41 h``, ``12.5 min``, ``42 s``; a dash if not finite.

    Args:
      seconds: the time.
      gap: between the number and its unit.
    """
    if not math.isfinite(seconds):
        return "-"
    unit = unit_of([seconds])
    text = in_unit(seconds, unit)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{gap}{unit.short}"
