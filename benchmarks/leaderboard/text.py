"""The leaderboard as text: one line per policy and workload, and all workloads side by side."""

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.leaderboard.board import Standing, Standings

_HOUR, _DAY = 3600, 86400
_HEAD = (
    f"{'policy':18}{'avg JCT (h)':>12} {'95 % interval':>19}{'/ bound':>9}{'/ {}':>12}"
    f"{'95 % interval':>17}{'/ own':>8}{'median':>9}{'p99':>9}{'wait':>9}{'makespan (d)':>14}"
    f"{'/ bound':>9}{'GPUs busy':>11}{'stops':>9}{'s':>7}"
)
_KNOWS = "* decides by true run times, which real schedulers only estimate"
_OWN = "/ bound: for any schedule; / own: for schedules of the policy's kind"


def workload_table(found: Standings) -> list[str]:
    """The policies on one workload, the lowest average JCT first."""
    bounds = found.bounds
    jct, makespan = (
        {kind: bounds[kind][metric] / unit for kind in ("non_preemptive", "preemptive")}
        for metric, unit in (("avg_jct_s", _HOUR), ("makespan_s", _DAY))
    )
    lines = [
        f"{found.workload}: {_times(found.num_draws)}{found.num_jobs:,} jobs on "
        f"{found.num_servers} x {found.gpus_per_server} GPUs, load {found.load:.2f}, "
        f"trace {found.digest[:12]}",
        *(f"  {note}" for note in found.notes),
        f"  no schedule below {jct['preemptive']:.3f} h avg JCT ({jct['non_preemptive']:.3f} h "
        f"without suspending jobs), {makespan['preemptive']:.2f} d makespan",
        "  " + _HEAD.replace(f"{'/ {}':>12}", f"{'/ ' + found.reference:>12}"),
    ]
    ordered = sorted(found.standings, key=lambda row: row.avg_jct.estimate)
    return [*lines, *("  " + _line(row) for row in ordered), f"  {_KNOWS}; {_OWN}"]


def overall_table(boards: Sequence[Standings]) -> list[str]:
    """Average JCT over one lower bound: policies by workloads, geometric mean last."""
    names = [board.workload for board in boards]
    width = max(8, *(len(name) for name in names)) + 2
    ratios = overall(boards)
    head = f"{'policy':18}" + "".join(f"{name:>{width}}" for name in names) + f"{'mean':>9}"
    knows = {row.policy for row in boards[0].standings if row.clairvoyant}
    lines = ["average JCT over the lower bound for any schedule", head]
    for policy, values in sorted(ratios.items(), key=lambda item: geometric_mean(item[1])):
        cells = "".join(f"{value:>{width}.2f}" for value in values)
        lines.append(f"{_marked(policy, policy in knows):18}{cells}{geometric_mean(values):>9.3f}")
    return [*lines, _KNOWS]


def overall(boards: Sequence[Standings]) -> dict[str, list[float]]:
    """Ratio of the average JCT to its bound on each workload, of policies that played them all."""
    found = [{row.policy: row.jct_ratio for row in board.standings} for board in boards]
    common = [name for name in found[0] if all(name in ratios for ratios in found)]
    return {name: [ratios[name] for ratios in found] for name in common}


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive values."""
    return float(np.exp(np.mean(np.log(values))))


def _line(row: Standing) -> str:
    figures, jct = row.figures, row.avg_jct
    estimate, low, high = (value / _HOUR for value in (jct.estimate, jct.low, jct.high))
    over = row.over_reference
    return (
        f"{_marked(row.policy, row.clairvoyant):18}{estimate:>12.3f} "
        f"{_ends(low, high):>19}{row.jct_ratio:>9.2f}"
        f"{over.estimate:>12.3f}{_ends(over.low, over.high):>17}{row.own_ratio:>8.2f}"
        f"{figures['median_jct'] / _HOUR:>9.3f}{figures['p99_jct'] / _HOUR:>9.1f}"
        f"{figures['avg_wait'] / _HOUR:>9.3f}{figures['makespan'] / _DAY:>14.2f}"
        f"{row.makespan_ratio:>9.3f}{figures['utilization']:>11.3f}"
        f"{figures['preemptions']:>9,.0f}{row.seconds:>7.2f}"
    )


def _ends(low: float, high: float) -> str:
    """An interval; a dash where there is one draw only."""
    return f"[{low:.3f}, {high:.3f}]" if math.isfinite(low) else "-"


def _times(draws: int) -> str:
    return f"{draws} draws of " if draws > 1 else ""


def _marked(policy: str, clairvoyant: bool) -> str:
    return policy + "*" * clairvoyant
