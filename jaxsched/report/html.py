"""The report as one HTML file that loads nothing: inline styles, inline SVG, a little script."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path

from jaxsched.report import figures, gantt
from jaxsched.report.schema import Comparison, CurveWords, MetricGroup, PaperRow, Policy, check
from jaxsched.report.style import policy_classes, style_sheet
from jaxsched.report.summary import DASH, Summary, number, span

_BETTER = {"higher": "higher is better", "lower": "lower is better", "neither": ""}
_ARROWS = {"higher": "\u2191", "lower": "\u2193", "neither": ""}
_STACK = ("avg_run", "avg_wait")
_SMOOTHING = 25  # started jobs

_HATCH = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
    '<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="2.2" height="5" '
    'style="fill:var(--reference0)"/></pattern></defs></svg>'
)

_SCRIPT = """
document.querySelectorAll("table.policies").forEach(table => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const now = head.getAttribute("aria-sort");
    const first = head.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = now === first ? other : first, sign = order === "ascending" ? 1 : -1;
    heads.forEach(h => h.hasAttribute("aria-sort") && h.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const key = row => row.cells[column].dataset.v;
    [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
    }).forEach(row => body.append(row));
  }));
});
"""


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
    comparison = check(comparison)
    summary, own = Summary(comparison), comparison.get("figures") or {}
    parts = [
        _header(summary),
        _table_section(summary),
        _gain_section(summary),
        _bar_section(summary),
        _curve_section(summary, own.get("curves", {})),
        *(_group_section(summary, group) for group in own.get("groups", [])),
        _learning_section(summary),
        _gantt_section(comparison),
        _paper_section(comparison),
        _reproduce_section(comparison),
    ]
    title = escape(comparison["title"])
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style_sheet()}</style></head>\n"
        f"<body>{_HATCH}<main>\n{body}\n</main>\n"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _header(summary: Summary) -> str:
    comparison, verdict = summary.comparison, summary.verdict
    episodes = comparison["episodes"]
    facts = {
        **{str(k): str(v) for k, v in comparison["facts"].items()},
        "Episodes": f"{episodes['count']} ({episodes['source']})",
        "Created": _date(comparison["created"]),
    }
    entries = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items() if v
    )
    detail = f"<p>{escape(verdict.detail)}</p>" if verdict.detail else ""
    return (
        f"<header><h1>{escape(comparison['title'])}</h1>"
        f'<p class="verdict" id="verdict">{escape(verdict.headline)}</p>{detail}'
        f'<dl class="facts">{entries}</dl></header>'
    )


def _date(iso: str) -> str:
    """A date people read; the text itself where it is not an ISO date."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _table_section(summary: Summary) -> str:
    classes = policy_classes(summary.policies)
    heads = ['<th scope="col" aria-sort="none"><button type="button">Policy</button></th>']
    for info in summary.metrics.values():
        first = "descending" if info["better"] == "higher" else "ascending"
        unit = escape(info["unit"]) or "&nbsp;"
        arrow, better = _ARROWS[info["better"]], _BETTER[info["better"]]
        mark = f'&nbsp;<span role="img" aria-label="{better}">{arrow}</span>' if arrow else ""
        heads.append(
            f'<th scope="col" class="n" aria-sort="none" data-first="{first}">'
            f'<button type="button">{escape(info["label"])}{mark}</button>'
            f"<small>{unit}</small></th>"
        )
    rows = [
        f'<tr class="{classes[p["name"]]}">{_policy_cell(p)}'
        + "".join(_metric_cell(summary, p, name) for name in summary.metrics)
        + "</tr>"
        for p in summary.policies
    ]
    return (
        f"<section><h2>All policies, all metrics</h2>"
        f'<p class="note" id="how">{_table_note(summary)}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Comparison table">'
        f'<table class="policies" aria-describedby="how"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_policy_notes(summary)}</section>"
    )


def _table_note(summary: Summary) -> str:
    seeds = any(summary.seeds(p) > 1 for p in summary.policies)
    text = (
        f"Means over {summary.comparison['episodes']['count']} episodes, the same for every "
        "policy, with the 95\u00a0% bootstrap interval over episodes"
        f"{' and training seeds' if seeds else ''} below. The best value of a column is bold; "
        "arrows point to better. "
    )
    if summary.of_kind("baseline"):
        text += (
            "The × says how many times better than the best baseline of that column, which may "
            "be a different one in each; below 1 is worse. "
        )
    return text + "Headings sort."


def _policy_notes(summary: Summary) -> str:
    notes = [
        f"<li><b>{escape(p['name'])}</b> {escape(p['note'])}</li>"
        for p in summary.policies
        if p.get("note")
    ]
    return f'<ul class="note notes">{"".join(notes)}</ul>' if notes else ""


def _policy_cell(policy: Policy) -> str:
    name = escape(policy["name"])
    kind = "" if policy["kind"] == "baseline" else policy["kind"]
    tag = f"<small>{kind}</small>" if kind and kind != policy["name"] else ""
    return f'<th scope="row" data-v="{name}"><span class="key"></span>{name}{tag}</th>'


def _metric_cell(summary: Summary, policy: Policy, metric: str) -> str:
    cell = summary.cells.get((policy["name"], metric))
    if cell is None:
        return f'<td class="n" data-v="">{DASH}</td>'
    digits = summary.metrics[metric]["digits"]
    text = number(cell.estimate, digits)
    if summary.is_best(policy, metric):
        text = f"<b>{text}</b>"
    gain = summary.gain(policy, metric)
    ratio = f"<small>{_times(gain.estimate)}</small>" if gain else ""
    return (
        f'<td class="n" data-v="{cell.estimate!r}">{text}'
        f"<small>{span(cell, digits)}</small>{ratio}</td>"
    )


def _times(ratio: float) -> str:
    return f"{number(ratio, 2 if ratio < 10 else 1)}×"


def _gain_section(summary: Summary) -> str:
    contenders = summary.of_kind("learned") + summary.of_kind("reference")
    rows = []
    for metric in summary.metrics:
        rival = summary.best_baseline(metric)
        if rival is None:
            continue
        cells = "".join(_gain_cell(summary, p, metric) for p in contenders)
        unit = summary.metrics[metric]["unit"]
        label = summary.metrics[metric]["label"] + (f" ({unit})" if unit else "")
        rows.append(
            f'<tr><th scope="row">{escape(label)}</th>'
            f'<td class="n">{summary.shown(rival, metric)}</td><td>{escape(rival["name"])}</td>'
            f"{cells}</tr>"
        )
    if not contenders or not rows:
        return ""
    classes = policy_classes(summary.policies)
    heads = "".join(
        f'<th scope="col" colspan="2" class="span {classes[p["name"]]}">'
        f'<span class="key"></span>{escape(p["name"])}</th>'
        for p in contenders
    )
    return (
        "<section><h2>Gain over the best baseline</h2>"
        '<p class="note">Times better than the best baseline of the row: the ratio of the two '
        "means, inverted where lower is better, with its paired 95\u00a0% bootstrap interval. "
        f"Bold where the interval lies above 1; {DASH} where a mean is zero.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Gain over the best baseline">'
        '<table class="compact"><thead><tr><th scope="col">Metric</th>'
        f'<th scope="col" colspan="2" class="span">Best baseline</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _gain_cell(summary: Summary, policy: Policy, metric: str) -> str:
    gain = summary.gain(policy, metric)
    if gain is None:
        return f'<td class="n">{DASH}</td><td></td>'
    strong = "b" if gain.low > 1 else "span"
    digits = 2 if gain.high < 10 else 1
    return (
        f'<td class="n"><{strong}>{_times(gain.estimate)}</{strong}></td>'
        f'<td class="range">{span(gain, digits)}</td>'
    )


def _figure(title: str, note: str, drawing: str) -> str:
    remark = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<figure><h3>{escape(title)}</h3>{remark}{drawing}</figure>"


def _metric_figure(summary: Summary, metric: str, width: float) -> str:
    info = summary.metrics[metric]
    title = info["label"] + (f" ({info['unit']})" if info["unit"] else "")
    note = f"{_BETTER[info['better']]} {_ARROWS[info['better']]}".strip()

    def draw(width: float) -> str:
        return figures.bars(summary, metric, width=width)

    return _figure(title, note, figures.both_widths(draw, width))


def _measured(summary: Summary, metrics: Sequence[str]) -> list[str]:
    """Those of the metrics that some policy has."""
    return [
        m
        for m in metrics
        if m in summary.metrics and any(m in p["metrics"] for p in summary.policies)
    ]


def _bar_section(summary: Summary) -> str:
    bars = _measured(summary, summary.bars)
    stacked = len(_measured(summary, _STACK)) == len(_STACK)
    grid, width = _grid(len(bars) + stacked)
    drawn = [_metric_figure(summary, metric, width) for metric in bars]
    if stacked:
        labels = [summary.metrics[m]["label"] for m in _STACK]
        unit = summary.metrics[_STACK[0]]["unit"]

        def draw(width: float) -> str:
            return figures.stacked_bars(summary, *_STACK, width=width)

        drawn.append(
            _figure(
                f"{labels[0]} + {labels[1].lower()}" + (f" ({unit})" if unit else ""),
                f"solid: {labels[0].lower()}; pale: {labels[1].lower()}; lower is better \u2193",
                figures.both_widths(draw, width),
            )
        )
    if not drawn:
        return ""
    return (
        '<section><h2>How well, and how fast</h2><p class="note">Whiskers: 95\u00a0% bootstrap '
        f'intervals of the mean.</p><div class="{grid}">{"".join(drawn)}</div></section>'
    )


def _grid(count: int) -> tuple[str, float]:
    """CSS class of a row of bar charts and the natural width of each."""
    return ("two", figures.WIDE) if count in (1, 2, 4) else ("three", figures.THIRD)


def _curve_section(summary: Summary, words: Mapping[str, CurveWords]) -> str:
    names = [name for p in summary.policies for name in p.get("curves", {})]
    drawn = []
    for curve in dict.fromkeys(names):
        if not any(p.get("curves", {}).get(curve) for p in summary.policies):
            continue
        longest = max(len(p.get("curves", {}).get(curve, [])) for p in summary.policies)
        window = _SMOOTHING if longest >= 8 * _SMOOTHING else 1
        own = words.get(curve) or {"title": curve.replace("_", " ").capitalize(), "note": ""}
        title, note = own["title"], own["note"]
        if window > 1:
            note += f" Smoothed: moving average over {window} starts."

        def draw(width: float, curve: str = curve, window: int = window) -> str:
            return figures.job_curves(summary, curve, window=window, width=width)

        drawn.append(_figure(title, note.strip(), figures.both_widths(draw)))
    if not drawn:
        return ""
    return (
        "<section><h2>As the episode proceeds</h2>"
        f'<div class="two">{"".join(drawn)}</div></section>'
    )


def _group_section(summary: Summary, group: MetricGroup) -> str:
    names = _measured(summary, group["metrics"])
    grid, width = _grid(len(names))
    drawn = [_metric_figure(summary, metric, width) for metric in names]
    if not drawn:
        return ""
    return (
        f"<section><h2>{escape(group['title'])}</h2>"
        f'<p class="note">{escape(group["note"])}</p>'
        f'<div class="{grid}">{"".join(drawn)}</div></section>'
    )


def _learning_section(summary: Summary) -> str:
    curve = summary.comparison.get("learning_curve")
    series = [s for s in curve["series"] if s["x"]] if curve else []
    if not curve or not series:
        return ""
    against = ["x"] + (["wall_s"] if all(s.get("wall_s") for s in series) else [])
    drawn = []
    for axis in against:

        def draw(width: float, axis: str = axis) -> str:
            return figures.learning_curve(summary, against=axis, width=width)

        title = f"Against {curve['x_label']}" if axis == "x" else "Against wall time"
        drawn.append(_figure(title, "", figures.both_widths(draw)))
    last = [s["y"][-1] for s in series]
    note = f"Evaluation {curve['y_label']} during training"
    if len(series) > 1:
        note += (
            f"; thin lines: {len(series)} seeds, thick: their mean; final spread over seeds "
            f"{number(max(last) - min(last), 3)}"
        )
    if curve.get("metric") and summary.best_baseline(curve["metric"]):
        note += "; level lines: the best baseline and the reference policy"
    if all(s.get("selection") for s in series):
        note += "; dotted: mean score on the training traces, by which checkpoints are chosen"
    return (
        f'<section><h2>Learning</h2><p class="note">{escape(note)}.</p>'
        f'<div class="two">{"".join(drawn)}</div></section>'
    )


def _gantt_section(comparison: Comparison) -> str:
    chart = comparison.get("gantt")
    if not chart or not any(p["jobs"] for p in chart["panels"]):
        return ""
    drawn = []
    for i, entry in enumerate(chart["panels"]):

        def draw(width: float, i: int = i) -> str:
            return gantt.panel(chart, i, width=width)

        text = gantt.sentence(chart, i)
        drawing = figures.both_widths(draw, gantt.WIDE, gantt.NARROW)
        drawn.append(_figure(entry["policy"], text[0].upper() + text[1:], drawing))
    return (
        f"<section><h2>GPUs over time, {escape(chart['episode'])}</h2>"
        f'<p class="note">One row per GPU, grouped by server (number at the left); blank is '
        f"idle. The time axis is the same for all policies.</p>{gantt.legend(chart['panels'])}"
        f"{''.join(drawn)}</section>"
    )


def _paper_section(comparison: Comparison) -> str:
    paper = comparison.get("paper")
    if not paper or not paper["rows"]:
        return ""
    rows = "".join(
        f'<tr><th scope="row" class="claim">{escape(row["item"])}</th>'
        f'<td class="n">{_plain(row["paper"])}</td><td class="n">{_plain(row["here"])}</td>'
        f'<td class="n">{escape(row.get("accept", ""))}</td><td>{_met(row)}</td></tr>'
        for row in paper["rows"]
    )
    return (
        "<section><h2>Against the paper</h2>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Against the paper"><table>'
        '<thead><tr><th scope="col">Claim</th><th scope="col" class="n">Paper</th>'
        '<th scope="col" class="n">Here</th><th scope="col" class="n">Accepted</th>'
        f'<th scope="col">Result</th></tr></thead><tbody>{rows}</tbody></table></div></section>'
    )


def _plain(value: float | str | None) -> str:
    if value is None:
        return DASH
    return escape(value) if isinstance(value, str) else f"{value:g}"


def _met(row: PaperRow) -> str:
    met = row.get("met")
    if met is None:
        return DASH
    return '<span class="met">✓ met</span>' if met else '<span class="unmet">✗ not met</span>'


def _reproduce_section(comparison: Comparison) -> str:
    return (
        "<section><h2>Reproduce</h2><p>With the versions listed at the top:</p>"
        f"<pre>{escape(comparison['command'])}</pre></section>"
        "<footer>Intervals: percentile bootstrap, 10\u202f000 resamples of the episodes (and of "
        "the seeds, where there are several). Differences and ratios resample both policies "
        "together.</footer>"
    )
