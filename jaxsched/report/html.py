"""The report as one HTML file that loads nothing: inline styles, inline SVG, a little script.

The markup stands in ``templates/``; here is what it is filled with.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.errors import counted
from jaxsched.report import figures, gantt
from jaxsched.report.readable import in_readable_units
from jaxsched.report.schema import Comparison, CurveWords, MetricGroup, PaperRow, Policy, check
from jaxsched.report.style import colour_sheet, policy_classes
from jaxsched.report.summary import DASH, Summary, labelled, number, span
from jaxsched.systems.claims import NOT_REPRODUCED, REPRODUCED

_BETTER = {"higher": "higher is better", "lower": "lower is better", "neither": ""}
_ARROWS = {"higher": "\u2191", "lower": "\u2193", "neither": ""}
_STACK = ("avg_run", "avg_wait")
_SMOOTHING = 25  # started jobs


class _Figure(NamedTuple):
    """A drawing laid out for wide and for narrow pages."""

    title: str
    note: str
    wide: str
    narrow: str


class _Charts(NamedTuple):
    """A section of figures; ``layout`` is the CSS class of their grid."""

    title: str
    note: str | None
    layout: str
    figures: Sequence[_Figure]


def write_html(comparison: Comparison, path: str | Path) -> Path:
    """Write `render_html` to ``path`` (UTF-8, parents created) and return the path."""
    target = Path(path)
    page = render_html(comparison)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")
    return target


def render_html(comparison: Comparison) -> str:
    """The whole report as a self-contained HTML page.

    Parts that the comparison does not have (no learned policy, learning curve, Gantt or paper
    rows) are left out.

    Raises:
        JaxschedError: when ``comparison`` does not follow `jaxsched.report.schema`.
    """
    comparison = in_readable_units(check(comparison))
    summary, own = Summary(comparison), comparison.get("figures") or {}
    first = _bars(summary)
    sections = [
        _curves(summary, own.get("curves", {})),
        *(_group(summary, group) for group in own.get("groups", [])),
        _learning(summary),
    ]
    paper = comparison.get("paper")
    page = templates_of("jaxsched.report").get_template("page.html.j2")
    return page.render(
        title=comparison["title"],
        colours=colour_sheet(),
        verdict=summary.verdict,
        setup=_setup(comparison),
        facts=_facts(comparison),
        table=_table(summary),
        gains=_gains(summary),
        first=first if first.figures else None,
        sections=[section for section in sections if section.figures],
        schedules=_schedules(summary),
        paper=[_claim(row) for row in paper["rows"]] if paper else [],
        command=comparison["command"],
    )


@cache
def templates_of(package: str) -> Any:
    """The templates of a package, loaded when the first page is made."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def escaped(value: Any) -> Any:
        """Texts in the spelling of the drawings (``&quot;``, not ``&#34;``)."""
        return value if hasattr(value, "__html__") else Markup(escape(str(value)))

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def script_safe(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _setup(comparison: Comparison) -> str:
    """What was played, in a line below the headline."""
    episodes, cluster = comparison["episodes"], comparison["facts"].get("cluster")
    where = f"; cluster: {cluster}" if cluster else ""
    return f"{counted(episodes['count'], 'episode')}: {episodes['source']}{where}."


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    """Names and texts of what is known of the comparison, in order."""
    episodes = comparison["episodes"]
    facts = {
        "episodes": f"{episodes['count']} ({episodes['source']})",
        **{str(k): str(v) for k, v in comparison["facts"].items()},
        "changed in the episodes": "; ".join(comparison.get("notes") or []),
        "created": _date(comparison["created"]),
    }
    return [(name[:1].upper() + name[1:], fact) for name, fact in facts.items() if fact]


def _date(iso: str) -> str:
    """A date people read; the text itself where it is not an ISO date."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _table(summary: Summary) -> dict[str, Any]:
    """All policies (rows) and all metrics (columns), as ``policies.html.j2`` wants them."""
    classes = policy_classes(summary.policies)
    heads = [
        {
            "label": info["label"],
            "unit": info["unit"],
            "arrow": _ARROWS[info["better"]],
            "better": _BETTER[info["better"]],
            "first": "descending" if info["better"] == "higher" else "ascending",
        }
        for info in summary.metrics.values()
    ]
    rows = [
        {
            "classes": classes[p["name"]],
            "name": p["name"],
            "kind": "" if p["kind"] in ("baseline", p["name"]) else p["kind"],
            "cells": [_cell(summary, p, metric) for metric in summary.metrics],
        }
        for p in summary.policies
    ]
    return {
        "num_episodes": summary.comparison["episodes"]["count"],
        "has_seeds": any(summary.seeds(p) > 1 for p in summary.policies),
        "has_baselines": bool(summary.of_kind("baseline")),
        "heads": heads,
        "rows": rows,
        "unfinished": summary.left_unfinished(summary.policies),
        "notes": [(p["name"], p["note"]) for p in summary.policies if p.get("note")],
    }


def _cell(summary: Summary, policy: Policy, metric: str) -> dict[str, Any] | None:
    """Mean, interval and gain of one policy; None where the metric was not measured."""
    cell = summary.cells.get((policy["name"], metric))
    if cell is None:
        return None
    digits = summary.metrics[metric]["digits"]
    gain = summary.gain(policy, metric)
    return {
        "value": repr(cell.estimate),
        "text": number(cell.estimate, digits),
        "best": summary.is_best(policy, metric),
        "span": span(cell, digits),
        "gain": _times(gain.estimate) if gain else "",
    }


def _times(ratio: float) -> str:
    return f"{number(ratio, 2 if ratio < 10 else 1)}×"


def _gains(summary: Summary) -> dict[str, Any]:
    """Contenders (columns) against the best baseline of each metric (rows, none without either)."""
    contenders = summary.of_kind("learned") + summary.of_kind("reference")
    classes = policy_classes(summary.policies)
    rivals = {metric: summary.best_baseline(metric) for metric in summary.metrics}
    rows = [
        {
            "label": labelled(summary.metrics[metric]),
            "best": summary.shown(rival, metric),
            "rival": rival["name"],
            "cells": [_gain(summary, p, metric) for p in contenders],
        }
        for metric, rival in rivals.items()
        if rival and contenders
    ]
    return {"heads": [(p["name"], classes[p["name"]]) for p in contenders], "rows": rows}


def _gain(summary: Summary, policy: Policy, metric: str) -> dict[str, Any] | None:
    gain = summary.gain(policy, metric)
    if gain is None:
        return None
    return {
        "text": _times(gain.estimate),
        "span": span(gain, 2 if gain.high < 10 else 1),
        "better": gain.low > 1,
    }


def _figure(
    title: str,
    note: str,
    draw: Callable[..., str],
    wide: float = figures.WIDE,
    narrow: float = figures.NARROW,
) -> _Figure:
    return _Figure(title, note, draw(width=wide), draw(width=narrow))


def _metric_figure(summary: Summary, metric: str, width: float) -> _Figure:
    better = summary.metrics[metric]["better"]
    note = f"{_BETTER[better]} {_ARROWS[better]}".strip()
    draw = partial(figures.bars, summary, metric)
    return _figure(labelled(summary.metrics[metric]), note, draw, width)


def _stacked_figure(summary: Summary, width: float) -> _Figure:
    first, second = (summary.metrics[m]["label"] for m in _STACK)
    unit = summary.metrics[_STACK[0]]["unit"]
    return _figure(
        f"{first} + {second.lower()}" + (f" ({unit})" if unit else ""),
        f"solid: {first.lower()}; pale: {second.lower()}; lower is better \u2193",
        partial(figures.stacked_bars, summary, *_STACK),
        width,
    )


def _measured(summary: Summary, metrics: Sequence[str]) -> list[str]:
    """Those of the metrics that some policy has."""
    return [
        m
        for m in metrics
        if m in summary.metrics and any(m in p["metrics"] for p in summary.policies)
    ]


def _layout(count: int) -> tuple[str, float]:
    """CSS class of a grid of bar charts and the natural width of each."""
    return ("two", figures.WIDE) if count in (1, 2, 4) else ("three", figures.THIRD)


def _bars(summary: Summary) -> _Charts:
    metrics = _measured(summary, summary.bars)
    stacked = len(_measured(summary, _STACK)) == len(_STACK)
    layout, width = _layout(len(metrics) + stacked)
    drawn = [_metric_figure(summary, metric, width) for metric in metrics]
    if stacked:
        drawn.append(_stacked_figure(summary, width))
    note = "Whiskers: 95\u00a0% bootstrap intervals of the mean."
    return _Charts("How well, and how fast", note, layout, drawn)


def _group(summary: Summary, group: MetricGroup) -> _Charts:
    metrics = _measured(summary, group["metrics"])
    layout, width = _layout(len(metrics))
    drawn = [_metric_figure(summary, metric, width) for metric in metrics]
    return _Charts(group["title"], group["note"], layout, drawn)


def _curves(summary: Summary, words: Mapping[str, CurveWords]) -> _Charts:
    names = [name for p in summary.policies for name in p.get("curves", {})]
    drawn = []
    for curve in dict.fromkeys(names):
        longest = max(len(p.get("curves", {}).get(curve, [])) for p in summary.policies)
        if not longest:
            continue
        window = _SMOOTHING if longest >= 8 * _SMOOTHING else 1
        own = words.get(curve) or {"title": curve.replace("_", " ").capitalize(), "note": ""}
        note = own["note"]
        if window > 1:
            note += f" Smoothed: moving average over {window} starts."
        draw = partial(figures.job_curves, summary, curve, window=window)
        drawn.append(_figure(own["title"], note.strip(), draw))
    return _Charts("As the episode proceeds", None, "two", drawn)


def _learning(summary: Summary) -> _Charts:
    curve = summary.comparison.get("learning_curve")
    series = [s for s in curve["series"] if s["x"]] if curve else []
    if not curve or not series:
        return _Charts("Learning", None, "two", [])
    drawn = []
    for axis in ["x"] + (["wall_s"] if all(s.get("wall_s") for s in series) else []):
        draw = partial(figures.learning_curve, summary, against=axis)
        title = f"Against {curve['x_label']}" if axis == "x" else "Against wall time"
        drawn.append(_figure(title, "", draw))
    last = [s["y"][-1] for s in series]
    measured = summary.metrics.get(curve.get("metric", ""))
    unit = f", in {measured['unit']}," if measured and measured["unit"] else ""
    note = f"Evaluation {curve['y_label']}{unit} during training"
    if len(series) > 1:
        note += (
            f"; thin lines: {len(series)} seeds, thick: their mean; final spread over seeds "
            f"{number(max(last) - min(last), 3)}"
        )
    if curve.get("metric") and summary.best_baseline(curve["metric"]):
        note += "; level lines: the best baseline and the reference policies"
        note += ", with an arrow where they lie outside the axis"
    limits = figures.learning_limits(summary)
    if limits.cut is not None:
        note += f"; evaluations outside the axis, up to {number(limits.cut, 3)}, stand at its end"
    if all(s.get("selection") for s in series):
        note += "; dotted: mean score on the training traces, by which checkpoints are chosen"
    return _Charts("Learning", f"{note}.", "two", drawn)


def _schedules(summary: Summary) -> dict[str, Any] | None:
    """One figure per policy and one per quantity over time; None without any job."""
    schedules = gantt.stored(summary.comparison)
    if not any(len(schedule.pieces.job) for schedule in schedules):
        return None
    drawn = []
    for i, schedule in enumerate(schedules):
        text = gantt.sentence(schedule)
        draw = partial(gantt.panel, schedules, i)
        note = text[0].upper() + text[1:]
        drawn.append(_figure(schedule.policy, note, draw, gantt.WIDE, gantt.NARROW))
    curves = []
    ends = {schedule.policy: gantt.end_of([schedule]) for schedule in schedules}
    for title, lines in gantt.shared_lines(schedules):
        named = {s.policy: line for s, line in zip(schedules, lines, strict=True)}
        draw = partial(figures.over_time, summary, named, title=title, ends=ends)
        curves.append(_figure(title[0].upper() + title[1:], "", draw))
    rows = "GPU, grouped by server (number at the left); blank is idle"
    if schedules[0].unit == "job":
        rows = "job, in order of submission (number at the left); pale: it waits"
    elif schedules[0].unit == "task":
        names = " and ".join(f"{i}: {band.name}" for i, band in enumerate(schedules[0].bands))
        rows = f"task, stacked by job ({names}); blank is idle"
    return {
        "title": gantt.title(schedules[0]),
        "episode": schedules[0].episode,
        "rows": rows,
        "legend": list(gantt.legend(schedules).items()),
        "figures": drawn,
        "curves": curves,
    }


def _claim(row: PaperRow) -> dict[str, Any]:
    """A row as the page shows it; those of files from before have no verdict."""
    verdict = row.get("verdict")
    return {
        "claim": row["item"],
        "paper": _plain(row["paper"]),
        "here": _plain(row["here"]),
        "accepted": row.get("accept", "") if verdict else "",
        "verdict": verdict,
        "style": {REPRODUCED: "met", NOT_REPRODUCED: "unmet"}.get(verdict or "", ""),
    }


def _plain(value: float | str | None) -> str:
    if value is None:
        return DASH
    return value if isinstance(value, str) else f"{value:g}"
