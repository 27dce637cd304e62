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
    """A claim of the paper beside what was measured; ``benchmarks.papers.verdicts`` judges it.

    Attributes:
      item: what is compared.
      paper: the paper's figure, in words; "-" where it has none.
      measured: as shown, an interval with its ends.
      note: why it was not tested.
      tested: whether this run is long enough to tell.
    """

    item: str
    paper: str
    measured: str
    note: str = ""
    tested: bool = True


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


def beside(item: str, paper: str, value: Cell, *, shown: Shown = show) -> Check:
    """A figure beside the paper's.

    Args:
      item: what is compared.
      paper: the paper's figure; "-" where it has none.
      value: a number, an interval, or words.
      shown: how numbers are written.
    """
    return Check(item, paper, value if isinstance(value, str) else shown(value))


def not_tested(item: str, paper: str, why: str, found: str = "-") -> Check:
    """A claim that this run is too short to tell of."""
    return Check(item, paper, found, why, tested=False)
