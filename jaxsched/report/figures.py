"""The charts of a report: bars with intervals, curves over started jobs, learning curves."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxsched.jobs.schedule import Line
from jaxsched.report.schema import Policy, Series
from jaxsched.report.style import policy_classes
from jaxsched.report.summary import Summary, number, span
from jaxsched.report.svg import Canvas, Scale, spread, text_width, tick_labels, ticks
from jaxsched.results.statistics import Floats
from jaxsched.units import unit_of

WIDE, THIRD = 545.0, 355.0  # natural widths of charts that stand two and three in a row
NARROW = 365.0  # pages below 640 px show this layout

_ROW = 25.0
_BAR = 14.0
_MAX_POINTS = 240  # of a drawn curve
_MOST_SPAN = 2.5  # of an axis that takes in a level, in spans of the curves
_LEAST_SPAN = 0.05  # of curves that hardly move, in parts of their size
_EARLY = 0.2  # of a training, whose evaluations may lie outside the axis
_MOST_EARLY = 4.0  # times the later evaluations' axis, beyond which they do


def bars(summary: Summary, metric: str, *, width: float) -> str:
    """Horizontal bars of one metric, one per policy, with 95 % intervals."""
    info = summary.metrics[metric]
    cells = {
        p["name"]: summary.cells[p["name"], metric]
        for p in summary.policies
        if metric in p["metrics"]
    }
    rows = [
        (name, [cell.estimate], (cell.low, cell.high), number(cell.estimate, info["digits"]))
        for name, cell in cells.items()
    ]
    described = "; ".join(
        f"{name} {number(c.estimate, info['digits'])} ({span(c, info['digits'])})"
        for name, c in cells.items()
    )
    return _bar_chart(summary, rows, width, f"Bars of {info['label']}: {described}")


def stacked_bars(summary: Summary, first: str, second: str, *, width: float) -> str:
    """Horizontal bars of two metrics end to end, such as run and wait, which add up to JCT."""
    digits = max(summary.metrics[m]["digits"] for m in (first, second))
    rows = []
    for policy in summary.policies:
        name = policy["name"]
        if not {first, second} <= set(policy["metrics"]):
            continue
        parts = [summary.cells[name, m].estimate for m in (first, second)]
        text = f"{number(parts[0], digits)} + {number(parts[1], digits)}"
        rows.append((name, parts, None, text))
    labels = [summary.metrics[m]["label"] for m in (first, second)]
    described = "; ".join(f"{name} {text}" for name, _, _, text in rows)
    described = f"Stacked bars of {labels[0]} + {labels[1]}: {described}"
    return _bar_chart(summary, rows, width, described)


_Row = tuple[str, list[float], tuple[float, float] | None, str]


def _bar_chart(summary: Summary, rows: Sequence[_Row], width: float, label: str) -> str:
    classes = policy_classes(summary.policies)
    left = 10 + max((text_width(name, 13.5) for name, *_ in rows), default=0)
    right = 16 + max((text_width(text) for *_, text in rows), default=0)
    top, height = 4.0, _ROW * len(rows)
    canvas = Canvas(width, top + height + 22)
    ends = [max(sum(parts), interval[1] if interval else 0.0) for _, parts, interval, _ in rows]
    scale = Scale(0.0, max([*ends, 1e-12]), left, width - right)
    room = text_width(number(scale.high, 2 if scale.high < 10 else 0)) * 1.5
    marks = ticks(0.0, scale.high, max(2, min(5, int((scale.stop - left) / room))))
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(scale(mark), top, scale(mark), top + height, "grid")
        canvas.text(scale(mark), top + height + 16, text, anchor="middle")
    for i, (name, parts, interval, text) in enumerate(rows):
        middle = top + _ROW * (i + 0.5)
        canvas.open(classes[name])
        canvas.text(left - 8, middle + 4.3, name, "name", "end")
        start = 0.0
        for k, part in enumerate(parts):
            canvas.rect(
                scale(start), middle - _BAR / 2, scale(start + part) - scale(start), _BAR,
                "bar second" if k else "bar",
            )  # fmt: skip
            start += part
        if interval:
            low, high = scale(interval[0]), scale(interval[1])
            canvas.line(low, middle, high, middle, "whisker")
            for end in (low, high):
                canvas.line(end, middle - 3, end, middle + 3, "whisker")
        canvas.text(scale(ends[i]) + 7, middle + 4.3, text, "value")
        canvas.close()
    canvas.line(left, top, left, top + height, "axis")
    return canvas.render(label)


def smooth(values: Sequence[float], window: int) -> Floats:
    """Centred moving average; near the ends over the part of the window that exists."""
    data = np.asarray(values, np.float64)
    if window <= 1 or data.size < 2:
        return data
    total = np.concatenate([[0.0], np.cumsum(data)])
    at = np.arange(data.size)
    low = np.maximum(at - window // 2, 0)
    high = np.minimum(at + (window - 1) // 2 + 1, data.size)
    return np.asarray((total[high] - total[low]) / (high - low), np.float64)


def job_curves(summary: Summary, curve: str, *, window: int, width: float) -> str:
    """One line per policy over the started jobs, named at its right end."""
    lines = {
        p["name"]: smooth(p["curves"][curve], window)
        for p in reversed(summary.policies)
        if p.get("curves", {}).get(curve)
    }
    longest = max(len(line) for line in lines.values())
    high = max(float(line.max()) for line in lines.values())
    low = min(0.0, *(float(line.min()) for line in lines.values()))
    right = 16 + max(text_width(name) for name in lines)
    frame = _Frame(width, 250, right, (0, longest), (low, high), "started jobs")
    classes = policy_classes(summary.policies)
    names = []
    for name, line in lines.items():
        keep = np.unique(np.linspace(0, line.size - 1, min(line.size, _MAX_POINTS)).astype(int))
        points = [(frame.x(float(i + 1)), frame.y(float(line[i]))) for i in keep]
        frame.canvas.open(classes[name])
        frame.canvas.polyline(points, "curve")
        frame.canvas.close()
        names.append((name, classes[name], points[-1]))
    frame.name_lines(names)
    ends = "; ".join(f"{name} ends at {line[-1]:.3g}" for name, line in lines.items())
    return frame.canvas.render(f"Curve of {curve} over started jobs: {ends}")


def over_time(
    summary: Summary,
    lines: Mapping[str, Line],
    *,
    title: str,
    ends: Mapping[str, float],
    width: float,
) -> str:
    """One line per policy over the time of one episode until its last job ends, named there.

    Args:
        summary: whose policies' colours are used.
        lines: policy -> quantity, which holds each value until the next one.
        title: what the drawing is about, in words.
        ends: policy -> when its last job ends, s.
        width: of the drawing, in pixels.
    """
    unit_s, unit = unit_of([max(ends[name] for name in lines)])
    grids = {name: np.linspace(0.0, ends[name], _MAX_POINTS) for name in lines}
    held = {name: line.at(grids[name]) for name, line in lines.items()}
    high = max(float(values.max()) for values in held.values()) or 1.0
    right = 16 + max(text_width(name) for name in lines)
    longest = max(ends[name] for name in lines) / unit_s
    frame = _Frame(width, 190, right, (0, longest), (0.0, high), f"time ({unit})")
    classes = policy_classes(summary.policies)
    names = []
    for name, values in held.items():
        points = frame.points(grids[name] / unit_s, values)
        frame.canvas.open(classes.get(name, ""))
        frame.canvas.polyline(points, "curve")
        frame.canvas.close()
        names.append((name, classes.get(name, ""), points[-1]))
    frame.name_lines(names)
    means = "; ".join(f"{name} {values.mean():.3g} on average" for name, values in held.items())
    return frame.canvas.render(f"{title} over time: {means}")


class Limits(NamedTuple):
    """The value axis of a learning curve.

    Attributes:
        low: its lower end.
        high: its upper end.
        cut: the evaluation that lies furthest outside; None where all are within.
    """

    low: float
    high: float
    cut: float | None

    def holds(self, value: float) -> bool:
        """Whether a value lies on the axis."""
        return self.low <= value <= self.high


def learning_limits(summary: Summary) -> Limits:
    """An axis on which the evaluations can be told apart.

    Levels of rules that lie far from the curves are left outside, and so are evaluations early in
    the training that do.
    """
    curve = summary.comparison["learning_curve"]
    assert curve is not None
    whole, late = [], []
    for series in (series for series in curve["series"] if series["x"]):
        starts = series["x"][0] + _EARLY * (series["x"][-1] - series["x"][0])
        for values in filter(None, (series["y"], series.get("selection"))):
            whole += values
            late += [y for x, y in zip(series["x"], values, strict=True) if x >= starts]
    levels = [value for _, _, value in _reference_rules(summary, curve.get("metric"))]
    low, high = _with_near(whole, levels)
    narrow = _with_near(late, levels)
    if high - low > _MOST_EARLY * (narrow[1] - narrow[0]):
        low, high = narrow
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    low = 0.0 if 0 <= low < 0.5 * high else low
    outside = max(whole, key=lambda value: max(low - value, value - high))
    return Limits(low, high, None if low <= outside <= high else outside)


def _with_near(values: Sequence[float], levels: Sequence[float]) -> tuple[float, float]:
    """The ends of some values, and of those levels that do not make their span much wider."""
    low, high = min(values), max(values)
    most = _MOST_SPAN * max(high - low, _LEAST_SPAN * max(abs(low), abs(high)))
    for level in sorted(levels, key=lambda level: max(low - level, level - high)):
        wider = min(low, level), max(high, level)
        if wider[1] - wider[0] <= most:
            low, high = wider
    return low, high


def learning_curve(summary: Summary, *, against: str, width: float) -> str:
    """Evaluations during training, one thin line per seed and a thick mean.

    Levels of rules outside the axis (``learning_limits``) are named at its end, with an arrow.

    Args:
        summary: the comparison.
        against: ``"x"`` (episodes or steps) or ``"wall_s"``.
        width: of the drawing, in pixels.
    """
    curve = summary.comparison["learning_curve"]
    assert curve is not None
    series = curve["series"]
    xs = [_abscissa(s, against) for s in series]
    factor, x_label = 1.0, curve["x_label"]
    if against == "wall_s":
        factor, x_label = unit_of([max(float(x[-1]) for x in xs)])
        x_label = f"wall time ({x_label})"
    xs = [x / factor for x in xs]
    ys = [np.asarray(s["y"], np.float64) for s in series]
    rules = _reference_rules(summary, curve.get("metric"))
    mean_x, mean_y = _mean_line(xs, ys)
    mean_name = "mean" if len(series) > 1 else f"seed {series[0]['seed']}"
    chosen = [s["selection"] for s in series if s.get("selection")]
    limits = learning_limits(summary)
    rules = [
        (f"{text} {_side(limits, level)}".strip(), classes, level) for text, classes, level in rules
    ]
    labels = [mean_name, *(text for text, _, _ in rules)]
    right = 16 + max(map(text_width, labels))
    longest = max(float(x[-1]) for x in xs)
    frame = _Frame(width, 250, right, (0, longest), (limits.low, limits.high), x_label)
    for _, classes, value in rules:
        if not limits.holds(value):
            continue
        frame.canvas.open(classes)
        frame.canvas.line(frame.left, frame.y(value), frame.end, frame.y(value), "rule")
        frame.canvas.close()
    frame.canvas.open("learned c-learned0")
    if len(chosen) == len(series):
        sel_x, sel_y = _mean_line(xs, [np.asarray(c, np.float64) for c in chosen])
        frame.canvas.polyline(frame.points(sel_x, sel_y), "curve selection")
    if len(series) > 1:
        for x, y in zip(xs, ys, strict=True):
            frame.canvas.polyline(frame.points(x, y), "curve seed")
    frame.canvas.polyline(frame.points(mean_x, mean_y), "curve")
    frame.canvas.close()
    named = [(mean_name, "learned c-learned0", frame.points(mean_x, mean_y)[-1])]
    named += [(text, classes, (frame.end, frame.place(v))) for text, classes, v in rules]
    frame.name_lines(named)
    ends = ", ".join(f"seed {s['seed']} {s['y'][-1]:.3f}" for s in series)
    return frame.canvas.render(f"{curve['y_label']} against {x_label}; last evaluation: {ends}")


def _side(limits: Limits, value: float) -> str:
    """An arrow to what lies outside the axis; nothing for what lies on it."""
    return "" if limits.holds(value) else ("\u2193" if value < limits.low else "\u2191")


def _abscissa(series: Series, against: str) -> Floats:
    values = series["wall_s"] if against == "wall_s" else series["x"]
    return np.asarray(values, np.float64)


def _mean_line(xs: Sequence[Floats], ys: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean over seeds, on the part of the axis that every seed covers."""
    grid = np.unique(np.concatenate(xs))
    grid = grid[(grid >= max(x[0] for x in xs)) & (grid <= min(x[-1] for x in xs))]
    if grid.size == 0:
        grid = xs[0]
    lines = [np.interp(grid, x, y) for x, y in zip(xs, ys, strict=True)]
    return grid, np.asarray(np.mean(lines, axis=0), np.float64)


def _reference_rules(summary: Summary, metric: str | None) -> list[tuple[str, str, float]]:
    """Horizontal lines: the best baseline and the references, as (text, classes, value)."""
    if metric is None:
        return []
    classes = policy_classes(summary.policies)
    best = summary.best_baseline(metric)
    shown: list[Policy] = [*([best] if best else []), *summary.of_kind("reference")]
    curve = summary.comparison.get("learning_curve")
    levels = curve.get("levels") if curve else None
    if levels is None:
        levels = {p["name"]: summary.cells[p["name"], metric].estimate for p in shown}
    digits = summary.comparison["metrics"][metric].get("digits", 3)
    return [
        (f"{p['name']} {number(levels[p['name']], digits)}", classes[p["name"]], levels[p["name"]])
        for p in shown
        if p["name"] in levels
    ]


class _Frame:
    """Axes of a line chart with room for names at the right."""

    def __init__(
        self,
        width: float,
        height: float,
        right: float,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        x_label: str,
    ) -> None:
        self.top, self.bottom = 10.0, height - 38
        self.canvas = Canvas(width, height)
        self.end = width - right
        low, high = y_range
        marks = ticks(low, high, 5)
        step = marks[1] - marks[0] if len(marks) > 1 else (high - low or 1.0)
        low = low if low in marks else (marks[0] - step if marks[0] - low > 1e-9 else marks[0])
        self.y = Scale(low, high, self.bottom, self.top)
        marks = ticks(low, high, 5)
        texts = tick_labels(marks)
        self.left = 6 + max(map(text_width, texts))
        self.x = Scale(x_range[0], x_range[1], self.left, self.end)
        for mark, text in zip(marks, texts, strict=True):
            y = self.y(mark)
            self.canvas.line(self.left, y, self.end, y, "axis" if mark == low else "grid")
            self.canvas.text(self.left - 6, y + 4, text, anchor="end")
        marks = ticks(x_range[0], x_range[1], max(2, int((self.end - self.left) / 75)))
        for mark, text in zip(marks, tick_labels(marks), strict=True):
            x = self.x(mark)
            self.canvas.line(x, self.bottom, x, self.bottom + 4, "axis")
            self.canvas.text(x, self.bottom + 17, text, anchor="middle")
        self.canvas.text((self.left + self.end) / 2, self.bottom + 34, x_label, anchor="middle")

    def points(self, x: Floats, y: Floats) -> list[tuple[float, float]]:
        return [(self.x(float(a)), self.place(float(b))) for a, b in zip(x, y, strict=True)]

    def place(self, value: float) -> float:
        """Where a value stands; at the end of the axis if it lies outside."""
        return min(max(self.y(value), self.top), self.bottom)

    def name_lines(self, lines: Sequence[tuple[str, str, tuple[float, float]]]) -> None:
        """Write each line's name beside its end, moved apart where ends meet."""
        places = spread([end[1] for *_, end in lines], 14.5, self.top, self.bottom - 2)
        for (name, classes, (x, y)), place in zip(lines, places, strict=True):
            self.canvas.open(classes)
            path = [(x + 1, y), (x + 4, y), (self.end + 9, place), (self.end + 12, place)]
            self.canvas.polyline(path, "leader")
            self.canvas.text(self.end + 15, place + 4, name, "line-name")
            self.canvas.close()
