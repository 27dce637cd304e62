"""The leaderboard as text: what it recommends, one line per policy, all workloads, the sweep."""

import math
from collections.abc import Sequence

import numpy as np

from jaxsched.leaderboard.board import Standing, Standings
from jaxsched.report.advice import Contender, advice, together
from jaxsched.report.readable import aligned
from jaxsched.units import TimeUnit, in_unit, readable_time, three_figures, unit_of

MARKS = {"run times": "*", "estimates": "'", "prediction": "~", "unstated": "?"}
"""Behind the names of policies that know something of run times."""
LEGEND = "* knows run times, ' users' estimates, ~ predicts them, ? unstated"
_COLUMNS = (
    "over bound: of any schedule; over own: of schedules of the policy's kind; slowdown: "
    "completion time over run time; worst VC: mean completion time over mean run time of the "
    "worst virtual cluster; stops: suspensions for each job; busy: share of the GPUs' time"
)
_PRIORITIES = (
    "wait: to the first start; queued: all the time without GPUs; evicted: share of the runs of "
    "spot jobs that end in a suspension; wasted: held beyond run times; share: of what they held"
)
_AT_MOST = "of the jobs in the middle 80 % of the submissions; the others compete with them"
_TIMES = ("avg_jct", "median_jct", "p99_jct", "avg_wait")


def workload_table(found: Standings) -> list[str]:
    """The policies on one workload at one load, the lowest average JCT first."""
    ordered = sorted(found.standings, key=lambda row: row.avg_jct.estimate)
    intervals = any(math.isfinite(row.avg_jct.low) for row in ordered)
    unit = unit_of([row.avg_jct.estimate for row in ordered])
    bounds = {kind: readable_time(seconds) for kind, seconds in found.bounds.items()}
    lines = [
        f"{found.workload}: {heading(found)}, trace {found.digest[:12]}",
        *(f"  {note}" for note in found.notes),
        f"  no schedule below {bounds['any_s']} mean completion time ({bounds['non_preemptive_s']} "
        f"without suspending jobs), {_AT_MOST}",
    ]
    rows = [_cells(row, unit, intervals) for row in ordered]
    head = _heads(found.reference, unit, intervals, ordered)
    lines += ["  " + line for line in aligned([*head, *rows])]
    return [*lines, f"  {LEGEND}; {_COLUMNS}", *priority_table(ordered)]


def tables_of(sweeps: Sequence[Sequence[Standings]], main: Sequence[Standings]) -> list[list[str]]:
    """All that a board says, table by table, a text a line.

    Args:
      sweeps: boards of each workload at all its loads.
      main: those at the load of the board.
    """
    tables = [workload_table(board) for board in main]
    tables += [sweep_table(boards) for boards in sweeps if len(boards) > 1]
    if len(main) > 1:
        tables.append(overall_table(main))
    return [*tables, recommendation(main)]


def recommendation(boards: Sequence[Standings]) -> list[str]:
    """Which policy to take, in words (``jaxsched.report.advice``), of the main boards together."""
    found = together([_contenders(board) for board in boards])
    priorities = any("eviction_rate" in board.standings[0].figures for board in boards)
    return advice(found, boards[0].reference, priorities=priorities)


def _contenders(board: Standings) -> list[Contender]:
    return [
        Contender(row.policy, row.knows, row.suspends, row.jct_ratio, row.over_reference.estimate)
        for row in board.standings
        if not row.recorded
    ]


def _heads(
    reference: str, unit: TimeUnit, intervals: bool, rows: Sequence[Standing]
) -> list[list[str]]:
    """Two lines of headings."""
    times = f"({unit.short})"
    ends = [("95 %", "interval")] if intervals else []
    over = [("95 %", "interval")] if intervals else []
    columns = [
        ("", "policy"), ("completion", f"mean {times}"), *ends, ("over", "bound"),
        ("over", reference), *over, ("over", "own"), ("median", times), ("99 %", times),
        ("wait", f"mean {times}"), ("slowdown", "50 %"), ("slowdown", "99 %"), ("worst", "VC"),
        ("", "stops"), ("", "busy"),
    ]  # fmt: skip
    if any(row.seconds is not None for row in rows):
        columns.append(("replay", "(s)"))
    return [list(line) for line in zip(*columns, strict=True)]


def _cells(row: Standing, unit: TimeUnit, intervals: bool) -> list[str]:
    figures, jct, over = row.figures, row.avg_jct, row.over_reference
    mean, median, p99, wait = (in_unit(figures[name], unit) for name in _TIMES)
    ends = [_ends(jct.low / unit.seconds, jct.high / unit.seconds)] if intervals else []
    over_ends = [_ends(over.low, over.high)] if intervals else []
    cells = [
        named(row), mean, *ends, f"{row.jct_ratio:.2f}", f"{over.estimate:.3f}", *over_ends,
        f"{row.own_ratio:.2f}", median, p99, wait, three_figures(figures["slowdown_p50"]),
        three_figures(figures["slowdown_p99"]),
        three_figures(figures["worst_group"]) if "worst_group" in figures else "-",
        f"{figures['preemptions']:.2f}",
        f"{figures['utilization']:.3f}" if "utilization" in figures else "-",
    ]  # fmt: skip
    return cells if row.seconds is None else [*cells, f"{row.seconds:.2f}"]


def priority_table(rows: Sequence[Standing]) -> list[str]:
    """High-priority and spot jobs apart; no lines where jobs have no two kinds of priority."""
    rows = [row for row in rows if "eviction_rate" in row.figures]
    if not rows:
        return []
    unit = unit_of([row.figures["high_avg_jct"] for row in rows])
    times = f"({unit.short})"
    head = [
        ["", "high:", "", "", "spot:", "", "", "", "", ""],
        ["policy", f"completion {times}", "wait", "99 %", f"completion {times}", "wait", "queued",
         "evicted", "wasted (GPU h)", "share"],
    ]  # fmt: skip
    cells = [_by_priority(row, unit) for row in rows]
    return [*("  " + line for line in aligned([*head, *cells])), f"  {_PRIORITIES}"]


def _by_priority(row: Standing, unit: TimeUnit) -> list[str]:
    figures = row.figures
    times = [
        in_unit(figures[name], unit)
        for name in (
            "high_avg_jct", "high_avg_wait", "high_p99_wait",
            "spot_avg_jct", "spot_avg_wait", "spot_avg_queued",
        )
    ]  # fmt: skip
    wasted = f"{figures['wasted_gpu_s'] / 3600:,.0f}"
    return [named(row), *times, f"{figures['eviction_rate']:.3f}", wasted,
            f"{figures['wasted_share']:.3f}"]  # fmt: skip


def heading(found: Standings) -> str:
    """Size, load and queue of a workload, and whether its window is stationary."""
    draws = f"{found.num_draws} draws of " if found.num_draws > 1 else ""
    return (
        f"{draws}{found.num_jobs:,} jobs on {found.size} GPUs, "
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
        "mean completion time over the lower bound for any schedule",
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
    asked = ["own" if board.asked_load is None else f"{board.asked_load:g}" for board in boards]
    loads = "".join(
        f"{load:>9}{'!' * (not board.stationary):1}"
        for load, board in zip(asked, boards, strict=True)
    )
    real = "".join(f"{board.load:>9.2f} " for board in boards)
    waiting = "".join(f"{np.mean(board.waiting):>9.1f} " for board in boards)
    lines = [
        f"{boards[0].workload}: mean completion time over the lower bound for any schedule, by "
        "load",
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
    return row.policy + ("" if row.recorded else MARKS.get(row.knows, ""))


def _ends(low: float, high: float) -> str:
    """An interval; a dash where there is one draw only."""
    return f"[{low:.3f}, {high:.3f}]" if math.isfinite(low) else "-"
