"""What the paper reports, and how a run at 68 % stands to it."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import row

Figures = Mapping[str, float]

EFFECTIVENESS, JCT, MAKESPAN = "avg_effectiveness", "avg_jct", "makespan"
WAIT, RUN, FRAGMENTATION, REUSE = "avg_wait", "avg_run", "fragmentation", "reuse_fraction"
RELAXED = ("relaxed_sensitive", "relaxed_insensitive")
CLASS_WAITS = ("wait_sensitive", "wait_insensitive")
HIGHER = (EFFECTIVENESS, REUSE)
"""Metrics of which more is better; of the others compared here less."""
TINY = 1e-9


GAINS = {EFFECTIVENESS: 1.6, MAKESPAN: 2.1, JCT: 4.6}
"""Figure 7 at 68 % one-GPU jobs: how many times better than the best baseline."""

PERCENT = 68
MIX_GAINS = {60: 1.64, PERCENT: GAINS[EFFECTIVENESS], 75: 1.09}
"""Figure 7: effectiveness by the share of one-GPU jobs (%)."""

GAIN_BY_MIX = "grows as one-GPU jobs get rarer, in most cases"

ONE_GPU_SHARE = PERCENT / 100
"""Figure 3: what the generator gives."""

EARLY, LATE = slice(0, 100), slice(-300, None)
"""Figure 4: fragmentation of the last starts over that of the first, of rules that pack."""

SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
"""Figure 8: factors on the gaps."""

FRAGMENTATION_LOWER = "always lower"
MIDDLE = slice(200, 400)
"""Figure 9: fragmentation of the last starts over that of starts 200 to 400."""

RUN_S, BASELINE_RUN_S = 5422, 8427
WAIT_S, BASELINE_WAIT_S = 557, 19075
"""Figure 10: against the baseline of best completion time."""

RELAXED_SHARES = (0.154, 0.325)
CLASS_WAITS_S = (1466, 741)
"""Table III: sensitive and insensitive multi-GPU jobs."""

REUSED, BASELINE_REUSED = "> 0.5", "about 0.2"
"""Share of the multi-GPU jobs that take over a good locality."""

TRAINING_COST = "2400 episodes, 15 h on one GTX 1080 Ti"


def best_of(baselines: Mapping[str, Figures], metric: str) -> str:
    """The baseline that is best in a metric."""
    chosen = max if metric in HIGHER else min
    return chosen(baselines, key=lambda name: baselines[name][metric])


def times_better(baselines: Mapping[str, Figures], learned: Figures, metric: str) -> float:
    """How many times better than the best baseline in this metric."""
    best = baselines[best_of(baselines, metric)][metric]
    if metric in HIGHER:
        return learned[metric] / best
    return best / max(learned[metric], TINY)


def paper_rows(baselines: Mapping[str, Figures], learned: Figures) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      baselines: name -> mean of each metric.
      learned: mean of each metric of the learned policy.

    Returns:
      Rows of ``jaxsched.systems.claims.row``; a ratio to 0 has no row.
    """
    by_jct = baselines[best_of(baselines, JCT)]
    least_fragmented = baselines[best_of(baselines, FRAGMENTATION)][FRAGMENTATION]
    sensitive, insensitive = (learned[metric] for metric in RELAXED)
    words = {
        EFFECTIVENESS: "effectiveness, ratio to the best baseline",
        MAKESPAN: "makespan, times better",
        JCT: "average JCT, times better",
    }
    return [
        *(
            row(f"Fig. 7: {words[metric]}", paper, times_better(baselines, learned, metric), none=1)
            for metric, paper in GAINS.items()
        ),
        *(
            row(item, printed, learned[metric] / baseline, none=1, says=says)
            for item, printed, metric, baseline, says in (
                (
                    "Fig. 9: fragmentation, ratio to the lowest baseline",
                    FRAGMENTATION_LOWER,
                    FRAGMENTATION,
                    least_fragmented,
                    "< 1",
                ),
                (
                    "Fig. 10a: run time, ratio to the best-JCT baseline",
                    round(RUN_S / BASELINE_RUN_S, 3),
                    RUN,
                    by_jct[RUN],
                    None,
                ),
                (
                    "Fig. 10b: wait, ratio to the best-JCT baseline",
                    round(WAIT_S / BASELINE_WAIT_S, 3),
                    WAIT,
                    by_jct[WAIT],
                    None,
                ),
            )
            if baseline  # no job waits on traces of a few jobs, and nothing is in pieces
        ),
        row(
            "Table III: share without best locality, sensitive less insensitive jobs",
            round(RELAXED_SHARES[0] - RELAXED_SHARES[1], 3),
            sensitive - insensitive,
            none=0,
        ),
        row("multi-GPU jobs that reuse a good locality", REUSED, learned[REUSE]),
    ]
