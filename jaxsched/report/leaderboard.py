"""The leaderboard as a page: a table to sort and filter, the load sweep, workload by workload.

What it shows is the document that ``jaxsched leaderboard --json`` writes; it travels in the page,
and a script (``templates/leaderboard.js``) draws it. Nothing is loaded.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.report.html import script_safe, templates_of
from jaxsched.report.style import colour_sheet

_DIGITS = 6  # significant, of numbers in the page
_HOUR = 3600

COLUMNS = {
    "jct": ("mean JCT", "h", "ascending"),
    "high_jct": ("high: mean JCT", "h", "ascending"),
    "high_wait": ("high: mean wait", "h", "ascending"),
    "high_p99": ("high: p99 wait", "h", "ascending"),
    "spot_jct": ("spot: mean JCT", "h", "ascending"),
    "spot_wait": ("spot: mean wait", "h", "ascending"),
    "spot_queued": ("spot: mean queued", "h", "ascending"),
    "evicted": ("spot: evicted", "of runs", "ascending"),
    "wasted": ("spot: wasted", "GPU h", "ascending"),
    "wasted_share": ("spot: wasted", "of held", "ascending"),
    "over": ("/ reference", "", "ascending"),
    "own": ("/ own bound", "", "ascending"),
    "median": ("median JCT", "h", "ascending"),
    "p99": ("p99 JCT", "h", "ascending"),
    "wait": ("mean wait", "h", "ascending"),
    "slow50": ("slowdown p50", "", "ascending"),
    "slow99": ("slowdown p99", "", "ascending"),
    "worst": ("worst VC", "", "ascending"),
    "stops": ("stops", "per job", "ascending"),
    "busy": ("GPUs busy", "", "descending"),
}
"""Columns of one workload's table after the distance: heading, unit, and how it sorts first.

Those without a figure on a workload are not shown: virtual clusters, jobs of two priorities.
"""

_FIGURES = {
    "median": ("median_jct", _HOUR),
    "p99": ("p99_jct", _HOUR),
    "wait": ("avg_wait", _HOUR),
    "slow50": ("slowdown_p50", 1),
    "slow99": ("slowdown_p99", 1),
    "worst": ("worst_group", 1),
    "stops": ("preemptions", 1),
    "busy": ("utilization", 1),
    "high_jct": ("high_avg_jct", _HOUR),
    "high_wait": ("high_avg_wait", _HOUR),
    "high_p99": ("high_p99_wait", _HOUR),
    "spot_jct": ("spot_avg_jct", _HOUR),
    "spot_wait": ("spot_avg_wait", _HOUR),
    "spot_queued": ("spot_avg_queued", _HOUR),
    "evicted": ("eviction_rate", 1),
    "wasted": ("wasted_gpu_s", _HOUR),
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
      JaxschedError: there is no piece.
    """
    pieces = list(document["pieces"].values())
    if not pieces:
        raise JaxschedError("there is no workload to show; accepted: one or more")
    names = list(dict.fromkeys(piece["workload"] for piece in pieces))
    rows = {row["policy"]: row for piece in pieces for row in piece["standings"]}
    content = {
        "workloads": [
            {"name": name, "boards": sorted(
                (_board(piece) for piece in pieces if piece["workload"] == name),
                key=lambda board: float(board["asked"]),
            )}
            for name in names
        ],
        "policies": {
            name: {mark: row[mark] for mark in ("knows", "suspends", "learned")}
            for name, row in rows.items()
        },
        "main": _main_load(pieces),
        "columns": COLUMNS,
    }  # fmt: skip
    data = json.dumps(content, separators=(",", ":"), allow_nan=False)
    page = templates_of("jaxsched.report").get_template("leaderboard.html.j2")
    return str(
        page.render(
            title="Leaderboard of rigid jobs",
            colours=colour_sheet(),
            facts=_facts(document, pieces, len(rows), len(names)),
            knows=list(dict.fromkeys(row["knows"] for row in rows.values())),
            data=script_safe(data),
        )
    )


def _main_load(pieces: list[Mapping[str, Any]]) -> float:
    """The load that most draws were played at; of several the one nearest to 0.9."""
    draws: dict[float, int] = {}
    for piece in pieces:
        draws[piece["asked_load"]] = draws.get(piece["asked_load"], 0) + piece["num_draws"]
    return max(draws, key=lambda load: (draws[load], -abs(load - 0.9)))


def _facts(
    document: Mapping[str, Any], pieces: list[Mapping[str, Any]], policies: int, workloads: int
) -> list[tuple[str, str]]:
    versions = document.get("versions", {})
    seconds = sum(piece["seconds"] for piece in pieces)
    return [
        ("Policies", str(policies)),
        ("Workloads", str(workloads)),
        ("Played", f"{document.get('date', '')} in {seconds / 60:.0f} CPU minutes"),
        ("On", f"{document.get('device', '')}, jax {versions.get('jax', '')}"),
    ]


def _board(piece: Mapping[str, Any]) -> dict[str, Any]:
    """One workload at one load."""
    plain = ("load", "busy", "num_jobs", "num_measured", "num_draws", "num_servers",
             "gpus_per_server", "notes", "stationary", "reference")  # fmt: skip
    return {
        **{name: _short(piece[name]) for name in plain},
        "asked": piece["asked_load"],
        "digest": piece["digest"][:12],
        "waiting": [_short(each) for each in piece["waiting"]],
        "bound": _short(piece["bounds"]["any_s"] / _HOUR),
        "own_bound": _short(piece["bounds"]["non_preemptive_s"] / _HOUR),
        "rows": {row["policy"]: _row(row) for row in piece["standings"]},
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A policy: ratio to the bound, that of its interval's ends, and the table's columns."""
    jct, over = row["avg_jct"], row["over_reference"]
    to_bound = row["jct_ratio"] / jct["estimate"]
    ends = None if jct["low"] is None else [jct["low"] * to_bound, jct["high"] * to_bound]
    figures = {
        name: row["figures"][key] / unit
        for name, (key, unit) in _FIGURES.items()
        if key in row["figures"]
    }
    found = {
        "ratio": row["jct_ratio"],
        "jct": jct["estimate"] / _HOUR,
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
