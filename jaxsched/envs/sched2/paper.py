"""What the paper reports, what section 12 accepts, and how a run at 68 % stands to them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]

EFFECTIVENESS, JCT, MAKESPAN = "avg_effectiveness", "avg_jct", "makespan"
WAIT, RUN, FRAGMENTATION, REUSE = "avg_wait", "avg_run", "fragmentation", "reuse_fraction"
RELAXED = ("relaxed_sensitive", "relaxed_insensitive")
CLASS_WAITS = ("wait_sensitive", "wait_insensitive")
HIGHER = (EFFECTIVENESS, REUSE)
"""Metrics of which more is better; of the others compared here less."""
TINY = 1e-9


class Gain(NamedTuple):
    """How many times better than the best baseline.

    Attributes:
      paper: the paper's figure.
      least: accepted at least.
      goal: wished for; None: nothing beyond ``least``.
    """

    paper: float
    least: float
    goal: float | None = None


GAINS = {
    EFFECTIVENESS: Gain(1.6, 1.25, 1.5),
    MAKESPAN: Gain(2.1, 1.3, 1.7),
    JCT: Gain(4.6, 2.0, 4.0),
}
"""Figure 7 at 68 % one-GPU jobs."""

PERCENT = 68
MIX_GAINS = {60: Gain(1.64, 1.5), PERCENT: GAINS[EFFECTIVENESS], 75: Gain(1.09, 1.03)}
"""Figure 7: effectiveness by the share of one-GPU jobs (%)."""

GAIN_BY_MIX = "grows as one-GPU jobs get rarer, in most cases"

ONE_GPU_SHARE, MOST_OFF_SHARE = PERCENT / 100, 0.02
MEAN_DURATION_S = (5000.0, 5600.0)
LEAST_GAP_CV = 2.0
"""Figure 3: what the generator gives."""

EARLY, LATE = slice(0, 100), slice(-300, None)
LEAST_RISE = 2.0
"""Figure 4: fragmentation of the last starts over that of the first, of rules that pack."""

SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
BEST_UP_TO, MOST_BELOW = 1.25, 0.01
"""Figure 8: factors on the gaps; up to which one effectiveness is the best of all, and by how much
it may be below the best baseline's beyond."""

MOST_FRAGMENTATION = 0.85  # of the lowest baseline's
MIDDLE, MOST_RISE = slice(200, 400), 1.4
"""Figure 9: fragmentation of the last starts over that of starts 200 to 400."""

RUN_S, BASELINE_RUN_S, MOST_RUN = 5422, 8427, 0.85
WAIT_S, BASELINE_WAIT_S, MOST_WAIT, WAIT_GOAL = 557, 19075, 0.4, 0.1
"""Figure 10: against the baseline of best completion time."""

RELAXED_SHARES, MOST_RELAXED_OVER = (0.154, 0.325), 0.02
CLASS_WAITS_S = (1466, 741)
"""Table III: sensitive and insensitive multi-GPU jobs."""

LEAST_REUSE, MOST_BASELINE_REUSE = 0.5, 0.4
REUSED, BASELINE_REUSED = f"> {LEAST_REUSE}", "about 0.2"
"""Share of the multi-GPU jobs that take over a good locality."""

MOST_SPREAD_OF_SEEDS = 0.05
TRAINING_COST = "2400 episodes, 15 h on one GTX 1080 Ti"
"""Learning curve: final effectiveness of the seeds, largest less smallest."""


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
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``; a ratio to 0 has no row.
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
            at_least(
                f"Fig. 7: {words[metric]}",
                gain.paper,
                times_better(baselines, learned, metric),
                gain.least,
            )
            for metric, gain in GAINS.items()
        ),
        *(
            at_most(words, paper, learned[metric] / baseline, most)
            for words, paper, metric, baseline, most in (
                (
                    "Fig. 9: fragmentation, ratio to the lowest baseline",
                    None,
                    FRAGMENTATION,
                    least_fragmented,
                    MOST_FRAGMENTATION,
                ),
                (
                    "Fig. 10a: run time, ratio to the best-JCT baseline",
                    round(RUN_S / BASELINE_RUN_S, 3),
                    RUN,
                    by_jct[RUN],
                    MOST_RUN,
                ),
                (
                    "Fig. 10b: wait, ratio to the best-JCT baseline",
                    round(WAIT_S / BASELINE_WAIT_S, 3),
                    WAIT,
                    by_jct[WAIT],
                    MOST_WAIT,
                ),
            )
            if baseline  # no job waits on traces of a few jobs, and nothing is in pieces
        ),
        {
            "item": "Table III: sensitive / insensitive jobs without best locality",
            "paper": " / ".join(str(share) for share in RELAXED_SHARES),
            "here": f"{sensitive:.3f} / {insensitive:.3f}",
            "accept": f"sensitive <= insensitive + {MOST_RELAXED_OVER}",
            "met": bool(sensitive <= insensitive + MOST_RELAXED_OVER),
        },
        at_least("multi-GPU jobs that reuse a good locality", REUSED, learned[REUSE], LEAST_REUSE),
    ]
