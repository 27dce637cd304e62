"""The leaderboard as text: one line per policy and workload, all workloads, and the sweep."""

import math
from collections.abc import Sequence

import numpy as np

from jaxsched.leaderboard.board import Standing, Standings

_HOUR = 3600
_HEAD = (
    f"{'policy':20}{'JCT (h)':>9} {'95 % interval':>19}{'/ bound':>9}{'/ {}':>12}"
    f"{'95 % interval':>17}{'/ own':>8}{'median':>9}{'p99':>9}{'wait':>9}{'slow 50':>9}"
    f"{'slow 99':>10}{'worst VC':>10}{'stops':>8}{'busy':>7}"
)
MARKS = {"run times": "*", "estimates": "'", "prediction": "~", "unstated": "?"}
"""Behind the names of policies that know something of run times."""
LEGEND = "* knows run times, ' users' estimates, ~ predicts them, ? unstated"
_COLUMNS = (
    "/ bound: of any schedule; / own: of schedules of the policy's kind; slow: slowdown, p50 and "
    "p99; worst VC: its mean JCT over its mean run time; stops: for each job; busy: share of GPUs"
)
_PRIORITIES = (
    "wait: to the first start; queued: all the time without GPUs; evicted: share of the runs of "
    "spot jobs that end in a suspension; wasted: held beyond run times; share: of what they held"
)
_AT_MOST = "of the jobs in the middle 80 % of the submissions; the others compete with them"


def workload_table(found: Standings) -> list[str]:
    """The policies on one workload at one load, the lowest average JCT first."""
    bounds = {kind: seconds / _HOUR for kind, seconds in found.bounds.items()}
    timed = any(row.seconds is not None for row in found.standings)
    lines = [
        f"{found.workload}: {heading(found)}, trace {found.digest[:12]}",
        *(f"  {note}" for note in found.notes),
        f"  no schedule below {bounds['any_s']:.3f} h mean JCT ({bounds['non_preemptive_s']:.3f} "
        f"h without suspending jobs), {_AT_MOST}",
        "  " + _HEAD.replace(f"{'/ {}':>12}", f"{'/ ' + found.reference:>12}") + "  s" * timed,
    ]
    ordered = sorted(found.standings, key=lambda row: row.avg_jct.estimate)
    lines += ["  " + _line(row) for row in ordered]
    return [*lines, f"  {LEGEND}; {_COLUMNS}", *priority_table(ordered)]


def priority_table(rows: Sequence[Standing]) -> list[str]:
    """High-priority and spot jobs apart; no lines where jobs have no two kinds of priority."""
    rows = [row for row in rows if "eviction_rate" in row.figures]
    if not rows:
        return []
    head = (
        f"  {'policy':20}{'high: JCT (h)':>14}{'wait':>8}{'p99':>8}{'spot: JCT (h)':>15}"
        f"{'wait':>8}{'queued':>8}{'evicted':>9}{'wasted (GPU h)':>16}{'share':>8}"
    )
    return [head, *("  " + _by_priority(row) for row in rows), f"  {_PRIORITIES}"]


def _by_priority(row: Standing) -> str:
    figures = row.figures
    high, spot = (
        [figures[f"{kind}_{name}"] / _HOUR for name in names]
        for kind, names in (
            ("high", ("avg_jct", "avg_wait", "p99_wait")),
            ("spot", ("avg_jct", "avg_wait", "avg_queued")),
        )
    )
    return (
        f"{named(row):20}{high[0]:>14.3f}{high[1]:>8.3f}{high[2]:>8.2f}{spot[0]:>15.3f}"
        f"{spot[1]:>8.2f}{spot[2]:>8.2f}{figures['eviction_rate']:>9.3f}"
        f"{figures['wasted_gpu_s'] / _HOUR:>16,.0f}{figures['wasted_share']:>8.3f}"
    )


def heading(found: Standings) -> str:
    """Size, load and queue of a workload, and whether its window is stationary."""
    draws = f"{found.num_draws} draws of " if found.num_draws > 1 else ""
    return (
        f"{draws}{found.num_jobs:,} jobs on {found.num_servers} x {found.gpus_per_server} GPUs, "
        f"load {found.load:.2f} in the window, {found.busy:.2f} busy and "
        f"{np.mean(found.waiting):,.1f} waiting under {found.reference}"
        + ("" if found.stationary else ", not stationary")
    )


def overall_table(boards: Sequence[Standings]) -> list[str]:
    """Average JCT over one lower bound: policies by workloads, geometric mean last."""
    names = [board.workload + "!" * (not board.stationary) for board in boards]
    columns = [f"{board.load:.2f}" for board in boards]
    width = max(8, *(len(name) for name in names)) + 2
    ratios = overall(boards)
    marked = {row.policy: named(row) for row in boards[0].standings}
    lines = [
        "average JCT over the lower bound for any schedule",
        f"{'policy':20}" + "".join(f"{name:>{width}}" for name in names) + f"{'mean':>9}",
        f"{'load in the window':20}" + "".join(f"{load:>{width}}" for load in columns),
    ]
    for policy, values in sorted(ratios.items(), key=lambda item: geometric_mean(item[1])):
        cells = "".join(f"{value:>{width}.2f}" for value in values)
        lines.append(f"{marked[policy]:20}{cells}{geometric_mean(values):>9.3f}")
    return [
        *lines,
        f"{LEGEND}, ! not stationary: the load is 1 or more, the queue just grows, "
        "or more work comes than leaves",
    ]


def sweep_table(boards: Sequence[Standings]) -> list[str]:
    """One workload at several loads: average JCT over the bound, policies by loads."""
    ratios = overall(boards)
    marked = {row.policy: named(row) for row in boards[0].standings}
    loads = "".join(f"{board.asked_load:>9g}{'!' * (not board.stationary):1}" for board in boards)
    real = "".join(f"{board.load:>9.2f} " for board in boards)
    waiting = "".join(f"{np.mean(board.waiting):>9.1f} " for board in boards)
    lines = [
        f"{boards[0].workload}: average JCT over the lower bound for any schedule, by load",
        f"  {'load asked for':20}{loads}".rstrip(),
        f"  {'load in the window':20}{real}".rstrip(),
        f"  {'waiting, ' + boards[0].reference:20}{waiting}".rstrip(),
    ]
    for policy, values in sorted(ratios.items(), key=lambda item: geometric_mean(item[1])):
        cells = "".join(f"{value:>9.2f} " for value in values)
        lines.append(f"  {marked[policy]:20}{cells}".rstrip())
    return lines


def overall(boards: Sequence[Standings]) -> dict[str, list[float]]:
    """Ratio of the average JCT to its bound on each board, of policies that played them all."""
    found = [{row.policy: row.jct_ratio for row in board.standings} for board in boards]
    common = [name for name in found[0] if all(name in ratios for ratios in found)]
    return {name: [ratios[name] for ratios in found] for name in common}


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive values."""
    return float(np.exp(np.mean(np.log(values))))


def named(row: Standing) -> str:
    """A policy's name with the mark of what it knows."""
    return row.policy + MARKS.get(row.knows, "")


def _line(row: Standing) -> str:
    figures, jct = row.figures, row.avg_jct
    estimate, low, high = (value / _HOUR for value in (jct.estimate, jct.low, jct.high))
    over = row.over_reference
    worst = f"{figures['worst_group']:.1f}" if "worst_group" in figures else "-"
    return (
        f"{named(row):20}{estimate:>9.3f} "
        f"{_ends(low, high):>19}{row.jct_ratio:>9.2f}"
        f"{over.estimate:>12.3f}{_ends(over.low, over.high):>17}{row.own_ratio:>8.2f}"
        f"{figures['median_jct'] / _HOUR:>9.3f}{figures['p99_jct'] / _HOUR:>9.1f}"
        f"{figures['avg_wait'] / _HOUR:>9.3f}{figures['slowdown_p50']:>9.2f}"
        f"{figures['slowdown_p99']:>10.1f}{worst:>10}{figures['preemptions']:>8.2f}"
        f"{figures['utilization']:>7.3f}" + ("" if row.seconds is None else f"{row.seconds:>7.2f}")
    )


def _ends(low: float, high: float) -> str:
    """An interval; a dash where there is one draw only."""
    return f"[{low:.3f}, {high:.3f}]" if math.isfinite(low) else "-"
