"""The paper's claims for the 68 % workload and how a run stands to them (section 12)."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]


def paper_rows(baselines: Mapping[str, Figures], learned: Figures) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      baselines: name -> mean of each metric.
      learned: mean of each metric of the learned policy.

    Returns:
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``.
    """
    by_jct = min(baselines.values(), key=lambda figures: figures["avg_jct"])
    lowest_fragmentation = min(figures["fragmentation"] for figures in baselines.values())

    def higher(metric: str) -> float:
        return learned[metric] / max(figures[metric] for figures in baselines.values())

    def lower(metric: str) -> float:
        return min(figures[metric] for figures in baselines.values()) / max(learned[metric], 1e-9)

    relaxed = learned["relaxed_sensitive"], learned["relaxed_insensitive"]
    return [
        at_least("Fig. 7: effectiveness, ratio to the best baseline", 1.6, higher(EFF), 1.25),
        at_least("Fig. 7: makespan, times better", 2.1, lower("makespan"), 1.3),
        at_least("Fig. 7: average JCT, times better", 4.6, lower("avg_jct"), 2.0),
        at_most(
            "Fig. 9: fragmentation, ratio to the lowest baseline",
            None,
            learned["fragmentation"] / lowest_fragmentation,
            0.85,
        ),
        at_most(
            "Fig. 10a: run time, ratio to the best-JCT baseline",
            round(5422 / 8427, 3),
            learned["avg_run"] / by_jct["avg_run"],
            0.85,
        ),
        at_most(
            "Fig. 10b: wait, ratio to the best-JCT baseline",
            round(557 / 19075, 3),
            learned["avg_wait"] / by_jct["avg_wait"],
            0.4,
        ),
        {
            "item": "Table III: sensitive / insensitive jobs without best locality",
            "paper": "0.154 / 0.325",
            "here": f"{relaxed[0]:.3f} / {relaxed[1]:.3f}",
            "accept": "sensitive <= insensitive + 0.02",
            "met": bool(relaxed[0] <= relaxed[1] + 0.02),
        },
        at_least(
            "multi-GPU jobs that reuse a good locality", "> 0.5", learned["reuse_fraction"], 0.5
        ),
    ]


EFF = "avg_effectiveness"
