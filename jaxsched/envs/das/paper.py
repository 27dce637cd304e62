"""The paper's Table 1 and how a run stands to it (section 12.1)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsched.systems.claims import at_most

Figures = Mapping[str, float]
HEURISTICS = (
    "fifo_firstfit",
    "fifo_loadbalance",
    "drf_firstfit",
    "drf_loadbalance",
    "tetris",
)
BASE = "fifo_loadbalance"


class Bounds(NamedTuple):
    """Accepted ratios to FIFO-LoadBalance, and the paper's to its best baseline."""

    jct: float
    fee: float
    paper_jct: float
    paper_fee: float


BOUNDS = {
    8: Bounds(1.00, 0.996, 0.900, 0.987),
    16: Bounds(0.99, 0.995, 0.968, 0.983),
    32: Bounds(1.01, 1.01, 0.996, 0.987),
}
"""By number of machines: the Small, Medium and Large cluster; the others are held to Small."""


def paper_rows(
    summary: Mapping[str, Figures], learned: str, num_servers: int
) -> list[dict[str, Any]]:
    """Rows of the report's table of claims: ratios of means over these episodes.

    Section 12.1 asks for geometric means of the ratios per episode over more episodes; see
    ``python -m benchmarks.papers das``.
    """
    bounds = BOUNDS.get(num_servers, BOUNDS[8])

    def ratio(policy: str, metric: str) -> float:
        return summary[learned][metric] / summary[policy][metric]

    best = min(HEURISTICS, key=lambda name: summary[name]["avg_jct_min"])
    rows = [
        at_most("Table 1: JCT over FIFO-LoadBalance", None, ratio(BASE, "avg_jct_min"), bounds.jct),
        at_most("Table 1: fee over FIFO-LoadBalance", None, ratio(BASE, "avg_fee"), bounds.fee),
        {
            "item": f"Table 1: JCT over the best heuristic, here {best}",
            "paper": bounds.paper_jct,
            "here": round(ratio(best, "avg_jct_min"), 4),
            "accept": "reported",
            "met": None,
        },
        {
            "item": f"Table 1: fee over the best heuristic, here {best}",
            "paper": bounds.paper_fee,
            "here": round(ratio(best, "avg_fee"), 4),
            "accept": "reported",
            "met": None,
        },
    ]
    if "random" in summary:
        against = ratio("random", "avg_jct_min")
        rows.append(at_most("JCT over uniformly random actions", None, against, 1.0))
    return rows
