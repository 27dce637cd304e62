"""Verdicts on a paper's claims, and rows of a report's table of claims.

A claim is ``reproduced`` if what was measured is within ``TOLERANCE`` of the paper's size, that is
of its distance from no effect (1 for a ratio, 0 for a change). A level, such as a share of GPUs in
use, has no such value and is held to its own size. A claim is ``direction only`` if what was
measured lies on the paper's side of no effect, with all of its interval, but not within that
tolerance, or the paper gives no size. Otherwise it is ``not reproduced``. What was not measured, or
cannot be compared, is ``not tested``.
"""

import re
from math import inf
from typing import Any, NamedTuple

REPRODUCED, DIRECTION = "reproduced", "direction only"
NOT_REPRODUCED, NOT_TESTED = "not reproduced", "not tested"
VERDICTS = (REPRODUCED, DIRECTION, NOT_REPRODUCED, NOT_TESTED)
TOLERANCE = 0.25
"""Of the paper's size."""
ROUNDING = 1e-9

_NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
_EQUAL = re.compile(rf"= ({_NUMBER}) \+- ({_NUMBER})")
_BOUND = re.compile(rf"([<>])=? ({_NUMBER})")
_SIZE = re.compile(_NUMBER)


class Statement(NamedTuple):
    """What a paper says of a figure.

    Attributes:
      low: the least that it says; the same as ``high`` for a single size.
      high: the most; infinite if only the least is said.
      none: the value of no effect; None for a level.
      within: what may be missing at either end; None: ``TOLERANCE`` of the size.
      unit: of all of these, such as " %".
    """

    low: float
    high: float
    none: float | None = None
    within: float | None = None
    unit: str = ""

    @property
    def only_direction(self) -> bool:
        """Whether the statement gives only the side of no effect on which the figure lies."""
        return (self.low, self.high) in ((self.none, inf), (-inf, self.none))

    @property
    def ends(self) -> tuple[float, float]:
        """Bounds between which the claim counts as reproduced."""
        return self.low - self._slack(self.low), self.high + self._slack(self.high)

    @property
    def accepted(self) -> str:
        """``ends`` in words."""
        low, high = self.ends
        if self.only_direction or low == -inf or high == inf:
            sign = ("<" if low == -inf else ">") + ("" if self.only_direction else "=")
            return f"{sign} {_short(high if low == -inf else low)}{self.unit}"
        return f"{_short(low)} to {_short(high)}{self.unit}"

    def _slack(self, end: float) -> float:
        if self.within is not None:
            return self.within
        return 0.0 if abs(end) == inf else TOLERANCE * abs(end - (self.none or 0.0))


def stated(says: float | str | None, none: float | None = None) -> Statement | None:
    """A paper's words as a statement.

    Args:
      says: a size (1.6, "44.1 %", "about 2"), a range ("20..35 %"), a bound ("< 1", ">= 12.65 %"),
        an equality with what may be missing ("= 0 +- 5 %").
      none: the value of no effect; None for a level.

    Returns:
      None where there are no numbers in it.
    """
    words = "" if says is None else says if isinstance(says, str) else repr(float(says))
    unit = " %" if "%" in words else ""
    if found := _EQUAL.search(words):
        size, within = map(_number, found.groups())
        return Statement(size, size, None, within, unit)
    if found := _RANGE.search(words):
        low, high = map(_number, found.groups())
        return Statement(low, high, none, unit=unit)
    if found := _BOUND.search(words):
        bound = _number(found[2])
        ends = (bound, inf) if found[1] == ">" else (-inf, bound)
        return Statement(*ends, none, unit=unit)
    if found := _SIZE.search(words):
        return Statement(_number(found[0]), _number(found[0]), none, unit=unit)
    return None


def judge(
    statement: Statement, estimate: float, low: float | None = None, high: float | None = None
) -> str:
    """One of ``VERDICTS``.

    Args:
      statement: what the paper says.
      estimate: what was measured, in the statement's unit.
      low: the interval's lower end; the estimate if there is none.
      high: its upper end.
    """
    least, most = statement.ends
    inside = least - ROUNDING <= estimate <= most + ROUNDING
    if statement.none is None:
        return REPRODUCED if inside else NOT_REPRODUCED
    low, high = (estimate if end is None else end for end in (low, high))
    above = statement.high == inf or statement.high > statement.none
    ahead = min(low, estimate) - statement.none if above else statement.none - max(high, estimate)
    if ahead <= 0:
        return NOT_REPRODUCED
    return REPRODUCED if inside and not statement.only_direction else DIRECTION


def row(
    item: str,
    paper: float | str | None,
    here: float | str,
    *,
    none: float | None = None,
    says: str | None = None,
) -> dict[str, Any]:
    """A row of a report's table of claims.

    Args:
      item: what is compared.
      paper: the paper's figure; None if it has none, and then there is no verdict.
      here: what was measured; not judged if it is no number.
      none: the value of no effect; None for a level.
      says: what the paper's figure means, where it is no number itself.
    """
    statement = stated(paper if says is None else says, none)
    made = {"item": item, "paper": paper, "here": here if isinstance(here, str) else round(here, 4)}
    if statement is None or isinstance(here, str):
        return {**made, "accept": "", "verdict": None}
    return {**made, "accept": statement.accepted, "verdict": judge(statement, here)}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _short(value: float) -> str:
    return f"{value:.4g}"
