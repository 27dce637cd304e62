"""A few SVG primitives: escaping, scales, ticks and labels that do not collide."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from jaxsched.report.summary import number


@dataclass(frozen=True)
class Scale:
    """A linear map from values ``[low, high]`` to pixels ``[start, stop]``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The pixel of ``value``."""
        width = self.high - self.low or 1.0
        return self.start + (value - self.low) / width * (self.stop - self.start)


class Canvas:
    """Collects SVG elements in a fixed coordinate system, one unit per CSS pixel."""

    def __init__(self, width: float, height: float) -> None:
        """An empty drawing of ``width`` x ``height`` pixels."""
        self.width, self.height = width, height
        self._parts: list[str] = []

    def add(self, markup: str) -> None:
        """Append raw markup."""
        self._parts.append(markup)

    def open(self, classes: str) -> None:
        """Open a group."""
        self.add(f'<g class="{classes}">')

    def close(self) -> None:
        """Close the last group."""
        self.add("</g>")

    def text(
        self, x: float, y: float, content: str, classes: str = "", anchor: str = "start"
    ) -> None:
        """A line of text on the baseline ``y``."""
        extra = f' class="{classes}"' if classes else ""
        extra += f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.add(f'<text x="{xy(x)}" y="{xy(y)}"{extra}>{escape(content)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str) -> None:
        """A straight line."""
        self.add(f'<path class="{classes}" d="M{xy(x1)} {xy(y1)}L{xy(x2)} {xy(y2)}"/>')

    def rect(self, x: float, y: float, width: float, height: float, classes: str) -> None:
        """A filled rectangle."""
        self.add(
            f'<rect class="{classes}" x="{xy(x)}" y="{xy(y)}" '
            f'width="{xy(max(width, 0))}" height="{xy(height)}"/>'
        )

    def polyline(self, points: Sequence[tuple[float, float]], classes: str) -> None:
        """An open line through ``points``."""
        path = "L".join(f"{xy(x)} {xy(y)}" for x, y in points)
        self.add(f'<path class="{classes}" d="M{path}"/>')

    def render(self, label: str) -> str:
        """The drawing as one element; ``label`` says in words what it shows."""
        return (
            f'<svg class="chart" role="img" aria-label="{escape(label)}" '
            f'viewBox="0 0 {xy(self.width)} {xy(self.height)}" '
            f'style="max-width:{xy(self.width * 1.15)}px">{"".join(self._parts)}</svg>'
        )


def xy(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def ticks(low: float, high: float, count: int) -> list[float]:
    """About ``count`` round values within ``[low, high]``."""
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(math.log(s / raw)))
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """The ticks as text, all with the same number of decimals."""
    step = values[1] - values[0] if len(values) > 1 else 1.0
    digits = next((d for d in range(6) if abs(round(step, d) - step) < 1e-9 * abs(step)), 6)
    return [number(value, digits) for value in values]


def text_width(content: str, size: float = 12.0) -> float:
    """A generous estimate of the width of a text in pixels."""
    narrow = sum(character in " .,:;il|\u202f" for character in content)
    return size * (0.6 * (len(content) - narrow) + 0.32 * narrow)


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart until neighbours are ``gap`` apart, keeping their order and bounds.

    Neighbours that are too close form a block centred on their mean position; blocks merge until
    none overlap.
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    blocks: list[list[int]] = []

    def first(block: list[int]) -> float:
        middle = sum(positions[i] for i in block) / len(block)
        start = middle - gap * (len(block) - 1) / 2
        return max(low, min(start, high - gap * (len(block) - 1)))

    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and (
            first(blocks[-2]) + gap * len(blocks[-2]) > first(blocks[-1]) + 1e-9
        ):
            last = blocks.pop()
            blocks[-1] += last
    placed = [0.0] * len(positions)
    for block in blocks:
        for k, i in enumerate(block):
            placed[i] = first(block) + gap * k
    return placed
