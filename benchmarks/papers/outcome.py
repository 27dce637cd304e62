"""What a row of experiments gives: tables, checks against the paper, values, a figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxsched.results.statistics import Interval

Cell = str | float | int | bool | Interval | None


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes:
      title: what is shown, with units.
      columns: headings, the first that of the row labels.
      rows: cells; intervals are shown with their ends.
      digits: after the point, of numbers.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 1

    def texts(self) -> list[list[str]]:
        """All cells as they are shown."""
        return [[show(cell, self.digits) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Check:
    """A claim of the paper, what was measured, and what is accepted.

    Attributes:
      item: what is compared.
      paper: the paper's figure, in words.
      measured: in words or as shown.
      accept: the condition.
      met: whether it holds; None: not judged or only reported.
      note: an interval, or why it is not judged.
    """

    item: str
    paper: str
    measured: str
    accept: str
    met: bool | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """One or two words."""
        if self.met is None:
            return "reported" if self.accept == REPORTED else "not judged"
        return "met" if self.met else "not met"


REPORTED = "reported"


@dataclass(frozen=True)
class Outcome:
    """What a row gives.

    Attributes:
      tables: what was measured.
      checks: claims beside it.
      values: everything as JSON-able data.
      figure: draws on an empty matplotlib figure, if there is something to see.
      notes: sentences about how it was measured.
    """

    tables: Sequence[Table]
    checks: Sequence[Check]
    values: dict[str, Any] = field(default_factory=dict)
    figure: Callable[[Any], None] | None = None
    notes: Sequence[str] = ()


def show(cell: Cell, digits: int = 1) -> str:
    """A cell as text."""
    if cell is None:
        return "-"
    if isinstance(cell, Interval):
        return f"{cell.estimate:.{digits}f} [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def three(value: Any) -> str:
    """With three digits."""
    return show(value, 3)


def percent(value: float | Interval, digits: int = 2) -> str:
    """A share in per cent, with its interval's ends if it has any."""
    if isinstance(value, Interval):
        low, high = 100 * value.low, 100 * value.high
        return f"{100 * value.estimate:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{100 * value:.{digits}f} %"


Shown = Callable[[Any], str]


def at_least(
    item: str,
    paper: str,
    value: float | Interval,
    bound: float,
    *,
    shown: Shown = show,
    strict: bool = False,
    note: str = "",
) -> Check:
    """Met if the (estimated) value is not below the bound; ``strict``: above it."""
    found = value.estimate if isinstance(value, Interval) else float(value)
    sign = ">" if strict else ">="
    met = bool(found > bound if strict else found >= bound)
    return Check(item, paper, shown(value), f"{sign} {shown(bound)}", met, note)


def at_most(
    item: str,
    paper: str,
    value: float | Interval,
    bound: float,
    *,
    shown: Shown = show,
    strict: bool = False,
    note: str = "",
) -> Check:
    """Met if the (estimated) value is not above the bound; ``strict``: below it."""
    found = value.estimate if isinstance(value, Interval) else float(value)
    sign = "<" if strict else "<="
    met = bool(found < bound if strict else found <= bound)
    return Check(item, paper, shown(value), f"{sign} {shown(bound)}", met, note)


def reported(item: str, paper: str, measured: str, note: str = "") -> Check:
    """A figure without a condition."""
    return Check(item, paper, measured, REPORTED, None, note)


def not_judged(item: str, paper: str, accept: str, why: str, measured: str = "-") -> Check:
    """A condition that this run is too short to judge."""
    return Check(item, paper, measured, accept, None, why)
