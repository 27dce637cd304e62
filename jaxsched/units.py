"""Times as people read them: one unit for a value, one for a column or an axis of values.

Files (``--json``, ``comparison.json``) keep seconds; what is printed or drawn comes through here.
"""

import math
from typing import NamedTuple


class TimeUnit(NamedTuple):
    """A unit of time: how many seconds it has, and its name."""

    seconds: float
    name: str


SECONDS, MINUTES = TimeUnit(1.0, "s"), TimeUnit(60.0, "min")
HOURS, DAYS = TimeUnit(3600.0, "h"), TimeUnit(86400.0, "days")


def time_unit(seconds: float) -> TimeUnit:
    """The largest unit of which ``seconds`` has two or more; seconds below two minutes.

    For a column or an axis, pass its largest value, or the middle one where they differ widely.
    """
    for unit in (DAYS, HOURS, MINUTES):
        if abs(seconds) >= 2 * unit.seconds:
            return unit
    return SECONDS


def duration(seconds: float, gap: str = " ") -> str:
    """A time with three figures in the unit that suits it: ``45 s``, ``12.5 min``, ``31 days``.

    Args:
      seconds: the time; ``-`` stands for what is not finite.
      gap: between number and unit.
    """
    if not math.isfinite(seconds):
        return "-"
    unit = time_unit(seconds)
    return f"{three_figures(seconds / unit.seconds)}{gap}{unit.name}"


def three_figures(value: float) -> str:
    """A number with three figures, all of those before the point: ``0.48``, ``31``, ``12,345``."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
