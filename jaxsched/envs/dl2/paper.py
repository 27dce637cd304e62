"""The paper's claims about one cluster and how a run stands to them (section 12)."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]
JCT = "avg_jct_slots"
SIM_DRF, SIM_OPTIMUS = 0.35, 0.10  # accepted reductions on the simulated cluster
TESTBED = 0.20


def reduction(summary: Mapping[str, Figures], policy: str, other: str) -> float:
    """By which share ``policy``'s average JCT is below ``other``'s."""
    return 1.0 - summary[policy][JCT] / max(summary[other][JCT], 1e-9)


def paper_rows(
    summary: Mapping[str, Figures], learned: str, *, testbed: bool
) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      summary: policy -> mean of each metric; the learned one and every rule.
      learned: the learned policy.
      testbed: the small cluster, where other margins are accepted.

    Returns:
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``.
    """
    drf, optimus = (TESTBED, TESTBED) if testbed else (SIM_DRF, SIM_OPTIMUS)
    tetris = reduction(summary, learned, "tetris")
    return [
        at_least(
            "Fig. 9: average JCT below DRF, share", 0.441, reduction(summary, learned, "drf"), drf
        ),
        at_least(
            "Fig. 9: average JCT below Optimus, share",
            0.175,
            reduction(summary, learned, "optimus"),
            optimus,
        ),
        at_least(
            "Fig. 9: average JCT below Tetris, share", "> 0", tetris, TESTBED if testbed else 0.0
        ),
        at_most(
            "Fig. 9: makespan over DRF's",
            "< 1",
            summary[learned]["makespan"] / summary["drf"]["makespan"],
            1.0,
        ),
        {
            "item": "Fig. 9: GPU utilisation",
            "paper": 0.78,
            "here": round(summary[learned]["utilization"], 3),
            "accept": "reported",
            "met": None,
        },
    ]
