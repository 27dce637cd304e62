"""The leaderboard as a page: what it recommends, a table to sort and filter, the load sweep.

What it shows is the document that ``jaxsched leaderboard --json`` writes; it travels in the page,
and a script (``templates/leaderboard.js``) draws it. Nothing is loaded.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.report.advice import Contender, advice, together
from jaxsched.report.html import script_safe, templates_of
from jaxsched.report.style import colour_sheet
from jaxsched.units import TimeUnit, readable_time, unit_of

_DIGITS = 6  # significant, of numbers in the page
_GPU_HOUR = 3600
TIME = "time"
"""Stands for the unit that suits a workload's times."""

OWN_LOAD = "own"
"""Key of the load that jobs have on a cluster that was given."""

COLUMNS = {
    "jct": ("mean completion time", TIME, "ascending"),
    "over": ("mean over that of {reference}", "", "ascending"),
    "own": ("mean over the bound of its kind", "", "ascending"),
    "median": ("median completion time", TIME, "ascending"),
    "p99": ("99 % complete within", TIME, "ascending"),
    "wait": ("mean wait to the start", TIME, "ascending"),
    "slow50": ("slow- down, median", "times", "ascending"),
    "slow99": ("slow- down, 99 %", "times", "ascending"),
    "worst": ("slow- down of the worst virtual cluster", "times", "ascending"),
    "stops": ("suspen- sions", "per job", "ascending"),
    "busy": ("GPUs busy", "share", "descending"),
}
"""Columns of one workload's table after the distance: heading, unit, and how it sorts first.

Those without a figure on a workload are not shown.
"""

PRIORITIES = {
    "high_jct": ("high priority: mean completion time", TIME, "ascending"),
    "high_wait": ("high priority: mean wait", TIME, "ascending"),
    "high_p99": ("high priority: 99 % wait at most", TIME, "ascending"),
    "spot_jct": ("spot: mean completion time", TIME, "ascending"),
    "spot_wait": ("spot: mean wait to the start", TIME, "ascending"),
    "spot_queued": ("spot: mean time without GPUs", TIME, "ascending"),
    "evicted": ("spot: runs that were evicted", "share", "ascending"),
    "wasted": ("GPU time held beyond run times", "GPU h", "ascending"),
    "wasted_share": ("the same, of what spot jobs held", "share", "ascending"),
}
"""Columns of the table of jobs of two priorities; it is shown where a workload has them."""

_FIGURES: dict[str, tuple[str, float | str]] = {
    "median": ("median_jct", TIME),
    "p99": ("p99_jct", TIME),
    "wait": ("avg_wait", TIME),
    "slow50": ("slowdown_p50", 1),
    "slow99": ("slowdown_p99", 1),
    "worst": ("worst_group", 1),
    "stops": ("preemptions", 1),
    "busy": ("utilization", 1),
    "high_jct": ("high_avg_jct", TIME),
    "high_wait": ("high_avg_wait", TIME),
    "high_p99": ("high_p99_wait", TIME),
    "spot_jct": ("spot_avg_jct", TIME),
    "spot_wait": ("spot_avg_wait", TIME),
    "spot_queued": ("spot_avg_queued", TIME),
    "evicted": ("eviction_rate", 1),
    "wasted": ("wasted_gpu_s", _GPU_HOUR),
    "wasted_share": ("wasted_share", 1),
}


def write_leaderboard(document: Mapping[str, Any], path: str | Path) -> Path:
    """Write ``render_leaderboard`` to ``path`` whole (UTF-8, parents created); returns the path."""
    target = Path(path)
    page = render_leaderboard(document)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.encode())
    return target


def render_leaderboard(document: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
      document: ``settings``, surroundings, and ``pieces``: name -> ``Standings.to_json``.

    Raises:
      JaxschedError: there is no cell.
    """
    cells = list(document["pieces"].values())
    if not cells:
        raise JaxschedError("there is no workload to show; accepted: one or more")
    names = list(dict.fromkeys(cell["workload"] for cell in cells))
    rows = {row["policy"]: row for cell in cells for row in cell["standings"]}
    keys = sorted({_key(cell["asked_load"]) for cell in cells}, key=_place)
    main = _main_load(document, cells)
    said = {key: _advice([p for p in cells if _key(p["asked_load"]) == key]) for key in keys}
    content = {
        "workloads": [
            {"name": name, "boards": [_board(p) for p in cells if p["workload"] == name]}
            for name in names
        ],
        "policies": {
            name: {mark: row.get(mark, False) for mark in _MARKS} for name, row in rows.items()
        },
        "loads": [[key, "as submitted" if key == OWN_LOAD else key] for key in keys],
        "main": main,
        "advice": said,
        "columns": COLUMNS,
        "priorities": PRIORITIES,
    }
    data = json.dumps(content, separators=(",", ":"), allow_nan=False)
    page = templates_of("jaxsched.report").get_template("leaderboard.html.j2")
    policies = [row for row in rows.values() if not row.get("recorded")]
    return str(
        page.render(
            title="Leaderboard of rigid jobs",
            colours=colour_sheet(),
            advice=said[main],
            facts=_facts(document, cells, len(policies), len(names)),
            knows=list(dict.fromkeys(row["knows"] for row in policies)),
            data=script_safe(data),
        )
    )


_MARKS = ("knows", "suspends", "learned", "recorded")


def _key(load: float | None) -> str:
    """A load that was asked for, as the page calls it."""
    return OWN_LOAD if load is None else f"{load:g}"


def _place(key: str) -> float:
    """Order of loads: that of the jobs themselves first."""
    return 0.0 if key == OWN_LOAD else float(key)


def _main_load(document: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> str:
    """The load that the page opens at: the board's own.

    Where a document does not say it, the load that most draws were played at; of several the one
    nearest to 0.9.
    """
    if "load" in document:
        return _key(document["load"])
    draws: dict[str, int] = {}
    for cell in cells:
        key = _key(cell["asked_load"])
        draws[key] = draws.get(key, 0) + cell["num_draws"]
    return max(draws, key=lambda key: (draws[key], -abs(_place(key) - 0.9)))


def _advice(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """What boards recommend together, one sentence each."""
    boards = [
        [
            Contender(
                row["policy"],
                row["knows"],
                row["suspends"],
                row["jct_ratio"],
                row["over_reference"]["estimate"],
            )
            for row in cell["standings"]
            if not row.get("recorded")
        ]
        for cell in cells
    ]
    priorities = any("eviction_rate" in p["standings"][0]["figures"] for p in cells)
    lines = advice(together(boards), cells[0]["reference"], priorities=priorities)
    return [line.replace(" %", "\u202f%") for line in lines]


def _facts(
    document: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], policies: int, workloads: int
) -> list[tuple[str, str]]:
    versions = document.get("versions", {})
    seconds = sum(cell["seconds"] for cell in cells)
    return [
        ("Policies", str(policies)),
        ("Workloads", str(workloads)),
        ("Played", f"{document.get('date', '')} in {seconds / 60:.0f} CPU minutes"),
        ("On", f"{document.get('device', '')}, jax {versions.get('jax', '')}"),
    ]


def _board(cell: Mapping[str, Any]) -> dict[str, Any]:
    """One workload at one load."""
    plain = ("load", "busy", "num_jobs", "num_measured", "num_draws", "notes", "stationary",
             "reference")  # fmt: skip
    unit = unit_of([row["avg_jct"]["estimate"] for row in cell["standings"]])
    bounds = cell["bounds"]
    return {
        **{name: _short(cell[name]) for name in plain},
        "size": cell.get("servers") or f"{cell['num_servers']} × {cell['gpus_per_server']}",
        "asked": _key(cell["asked_load"]),
        "advice": _advice([cell]),
        "unit": unit.short,
        "digest": cell["digest"][:12],
        "waiting": [_short(each) for each in cell["waiting"]],
        "bound": readable_time(bounds["any_s"]),
        "own_bound": readable_time(bounds["non_preemptive_s"]),
        "rows": {row["policy"]: _row(row, unit) for row in cell["standings"]},
    }


def _row(row: Mapping[str, Any], unit: TimeUnit) -> dict[str, Any]:
    """A policy: ratio to the bound, that of its interval's ends, and the table's columns."""
    jct, over = row["avg_jct"], row["over_reference"]
    to_bound = row["jct_ratio"] / jct["estimate"]
    ends = None if jct["low"] is None else [jct["low"] * to_bound, jct["high"] * to_bound]
    figures = {
        name: row["figures"][key] / (unit.seconds if by == TIME else float(by))
        for name, (key, by) in _FIGURES.items()
        if key in row["figures"]
    }
    found = {
        "ratio": row["jct_ratio"],
        "jct": jct["estimate"] / unit.seconds,
        "over": over["estimate"],
        "own": row["own_ratio"],
        **figures,
    }
    return {
        **{name: _short(value) for name, value in found.items()},
        "ends": ends and [_short(end) for end in ends],
        "overEnds": None if over["low"] is None else [_short(over["low"]), _short(over["high"])],
    }


def _short(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
