"""The advice as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxsched.report.advice import KNOWN
from jaxsched.report.html import templates_of
from jaxsched.report.style import colour_sheet
from jaxsched.report.svg import Canvas, Scale, spread, text_width, tick_labels, ticks
from jaxsched.units import TimeUnit, in_unit, readable_time, unit_of

Document = Mapping[str, Any]

WIDTH, HEIGHT = 760.0, 260.0
_COLUMNS = {
    "avg_wait": "mean wait",
    "median_wait": "median wait",
    "p95_wait": "95 % wait at most",
    "p99_wait": "99 % wait at most",
    "avg_jct": "mean completion time",
}


def render_page(document: Document) -> str:
    """The whole page.

    Args:
      document: of ``jaxsched.advise``.
    """
    unit = unit_of([row["avg_wait"] for row in document["rows"]])
    shown = _shown(document)
    page = templates_of("jaxsched.report").get_template("advice.html.j2")
    measured, cluster = document["measured"], document["cluster"]
    where = f"{cluster['size']} GPUs"
    return str(
        page.render(
            title=f"Advice for {document['log']['name']}",
            colours=colour_sheet(),
            conclusions=document["conclusions"],
            setup=(
                f"{measured['num_jobs']:,} of {document['log']['num_jobs']:,} jobs count, "
                f"submitted in the last {measured['days']:.1f} days but for the last "
                f"twentieth; cluster: {where}."
            ),
            checks=document["checks"],
            notes=document["notes"],
            unit=unit.short,
            columns=list(_COLUMNS.values()),
            period=measured["period"],
            periods=measured["periods"],
            reference=document["reference"],
            bound=readable_time(document["bound"]["any_s"]),
            own_bound=readable_time(document["bound"]["non_preemptive_s"]),
            rows=[_row(row, unit, document) for row in document["rows"]],
            chart=_chart(document, shown) if measured["periods"] > 1 else "",
            owners=_owners(document, shown),
            hidden=document["owners"]["hidden"] and document["owners"]["by"],
            shown=shown,
            capacity=[_fit(fit, document) for fit in document["capacity"]],
            facts=_facts(document),
        )
    )


def _shown(document: Document) -> list[str]:
    """Policies shown by owner and period: the log itself, the recommended ones, the closest."""
    names = [document["reference"], *document["recommended"]]
    if document["closest"]:
        names.append(document["closest"])
    return list(dict.fromkeys(names))


def _row(row: Mapping[str, Any], unit: TimeUnit, document: Document) -> dict[str, Any]:
    over = row["over_reference"]
    between = "" if over["low"] is None else f"{over['low']:.2f} to {over['high']:.2f}"
    is_reference = row["policy"] == document["reference"]
    busy = row["utilization"]
    return {
        "name": row["policy"],
        "kind": "what happened" if row["recorded"] else KNOWN.get(row["knows"], ""),
        "classes": "learned" if row["policy"] in document["recommended"] else "",
        "times": [(row[name], in_unit(row[name], unit)) for name in _COLUMNS],
        "over": over["estimate"],
        "over_text": "–" if over["estimate"] is None else f"{over['estimate']:.3f}",
        "between": between,
        "better": "" if is_reference else f"{row['better_periods']}",
        "busy": busy,
        "busy_text": "–" if busy is None else f"{100 * busy:.1f}",
        "stops": None if row["restart_s"] is None else row["suspensions"],
        "losers": "" if is_reference else len(row["losers"]),
    }


def _owners(document: Document, shown: Sequence[str]) -> list[dict[str, Any]]:
    """Owners as rows: wait and share of the GPU time under each shown policy."""
    if not document["owners"]["by"]:
        return []
    by_name = {row["policy"]: row["owners"] for row in document["rows"]}
    return [
        {
            "owner": by_name[shown[0]][k]["owner"],
            "cells": [
                (
                    readable_time(by_name[name][k]["wait"]),
                    f"{100 * by_name[name][k]['share']:.1f} %",
                )
                for name in shown
            ],
        }
        for k in range(len(by_name[shown[0]]))
    ]


def _fit(fit: Mapping[str, Any], document: Document) -> dict[str, Any]:
    whole = document["cluster"]["num_servers"]
    return {
        "policy": fit["policy"],
        "target": readable_time(fit["target_s"]),
        "servers": "more than there are" if fit["servers"] is None else fit["servers"],
        "saved": "" if fit["servers"] is None else whole - fit["servers"],
        "tried": ", ".join(f"{size}: {readable_time(wait)}" for size, wait in fit["tried"]),
    }


def _facts(document: Document) -> list[tuple[str, str]]:
    versions = document.get("versions", {})
    return [
        ("Log", f"{document['log']['name']} ({document['log']['source']})"),
        ("Digest", document["log"]["digest"][:12]),
        ("Days in all", f"{document['log']['days']:.1f}"),
        ("Played", str(document.get("date", ""))),
        ("On", f"{document.get('device', '')}, jax {versions.get('jax', '')}"),
    ]


def _chart(document: Document, shown: Sequence[str]) -> str:
    """Mean waits by period, a line for each policy, named at its right end."""
    rows = {row["policy"]: row["periods"] for row in document["rows"]}
    unit = unit_of([value for name in shown for value in rows[name]])
    lines = {name: [value / unit.seconds for value in rows[name]] for name in shown}
    period = document["measured"]["period"]
    right = 16 + max(text_width(name, 13.0) for name in shown)
    count = len(rows[shown[0]])
    across = Scale(0.0, max(count - 1, 1), 52.0, WIDTH - right)
    top = max(max(values) for values in lines.values()) or 1.0
    up = Scale(0.0, top, HEIGHT - 34.0, 12.0)
    canvas = Canvas(WIDTH, HEIGHT)
    marks = ticks(0.0, top, 5)
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(across.start, up(mark), across.stop, up(mark), "grid")
        canvas.text(across.start - 7, up(mark) + 4, text, anchor="end")
    step = max(1, count // 12)
    for k in range(0, count, step):
        canvas.text(across(k), HEIGHT - 14, str(k + 1), anchor="middle")
    canvas.text(across.start, 9.0, f"mean wait, {unit.short}; by {period}")
    ends = spread([up(values[-1]) for values in lines.values()], 15.0, 12.0, HEIGHT - 34.0)
    for place, (name, values) in enumerate(lines.items()):
        canvas.open(f"c-line{place % 4}")
        canvas.polyline([(across(k), up(value)) for k, value in enumerate(values)], "curve")
        canvas.text(across.stop + 8, ends[place] + 4, name, "name")
        canvas.close()
    said = "; ".join(
        f"{name} {values[0]:.3g} to {values[-1]:.3g}" for name, values in lines.items()
    )
    return canvas.render(f"Mean wait in {unit.short} by {period}: {said}")
