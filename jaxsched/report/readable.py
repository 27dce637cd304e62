"""Comparisons for readers: times in readable units (what is stored keeps seconds), aligned text."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from jaxsched.report.schema import Comparison, LearningCurve, Metric, Policy
from jaxsched.units import TimeUnit, unit_of

FIGURES = 3
"""Of the smallest mean of a metric, as far as three decimals show them."""
MOST_DIGITS = 3


def in_readable_units(comparison: Comparison) -> Comparison:
    """The same comparison with metrics in seconds turned to minutes, hours or days.

    A metric has one unit for all policies, which suits the middle one of their means. Its learning
    curve goes with it.

    Args:
      comparison: a checked one; it is left as it is.
    """
    policies = comparison["policies"]
    units = {
        name: unit
        for name, metric in comparison["metrics"].items()
        if metric["unit"] == "s" and (unit := _unit_of(name, policies)).seconds != 1.0
    }
    if not units:
        return comparison
    metrics = dict(comparison["metrics"])
    for name, unit in units.items():
        metrics[name] = readable_metric(metrics[name], unit, _means(name, policies))
    shown = cast(
        Comparison,
        {**comparison, "metrics": metrics, "policies": [_policy(p, units) for p in policies]},
    )
    curve = comparison.get("learning_curve")
    if curve and (curved := units.get(curve.get("metric", ""))):
        shown["learning_curve"] = _curve(curve, curved.seconds)
    return shown


def headroom_in_readable_units(result: Mapping[str, Any]) -> dict[str, Any]:
    """The same head-room measurement with times in units that suit them.

    Args:
      result: of ``jaxsched.results.headroom.measure``; it is left as it is.
    """
    found, metrics = result["headroom"], dict(result["metrics"])
    rows = [{**row, "metrics": dict(row["metrics"])} for row in found["rows"]]
    for name in rows[0]["metrics"]:
        if metrics[name]["unit"] != "s":
            continue
        means = [row["metrics"][name]["mean"] for row in rows]
        unit = unit_of(means)
        if unit.seconds == 1.0:
            continue
        metrics[name] = readable_metric(metrics[name], unit, means)
        for row in rows:
            cell = row["metrics"][name]
            row["metrics"][name] = {
                **cell,
                "mean": cell["mean"] / unit.seconds,
                "difference": cell["difference"]
                and {end: value / unit.seconds for end, value in cell["difference"].items()},
            }
    return {**result, "metrics": metrics, "headroom": {**found, "rows": rows}}


def readable_metric(metric: Metric, unit: TimeUnit, means: Iterable[float]) -> Metric:
    """A metric in seconds as it is printed in another unit.

    Args:
      metric: its words.
      unit: what its values are divided into.
      means: values that are to have three figures, in seconds.
    """
    return cast(Metric, {**metric, "unit": unit.short, "digits": _digits(means, unit)})


def _digits(means: Iterable[float], unit: TimeUnit) -> int:
    sizes = [abs(mean) / unit.seconds for mean in means if mean and math.isfinite(mean)]
    if not sizes:
        return 1
    return min(max(FIGURES - 1 - math.floor(math.log10(min(sizes))), 0), MOST_DIGITS)


def _unit_of(metric: str, policies: list[Policy]) -> TimeUnit:
    return unit_of(_means(metric, policies))


def _means(metric: str, policies: list[Policy]) -> list[float]:
    return [float(np.mean(p["metrics"][metric])) for p in policies if metric in p["metrics"]]


def _policy(policy: Policy, units: dict[str, TimeUnit]) -> Policy:
    values = {
        name: (np.asarray(given, np.float64) / units[name].seconds).tolist()
        if name in units
        else given
        for name, given in policy["metrics"].items()
    }
    return cast(Policy, {**policy, "metrics": values})


def _curve(curve: LearningCurve, seconds: float) -> LearningCurve:
    scaled = {**curve, "series": [dict(series) for series in curve["series"]]}
    for series in cast(list[dict[str, list[float]]], scaled["series"]):
        for part in ("y", "selection"):
            if series.get(part):
                series[part] = [value / seconds for value in series[part]]
    if curve.get("levels"):
        scaled["levels"] = {name: level / seconds for name, level in curve["levels"].items()}
    return cast(LearningCurve, scaled)


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Lines of text with columns as wide as their content.

    Args:
      rows: cells, all rows of one length.
      left: columns that are aligned to the left; others are to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
