"""The paper's claims at one arrival rate and how a run stands to them (section 12)."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]
OPTIMUS = "optimus"


def reduction(summary: Mapping[str, Figures], policy: str, other: str, metric: str) -> float:
    """By which share ``policy`` is below ``other``."""
    return 1.0 - summary[policy][metric] / max(summary[other][metric], 1e-9)


def paper_rows(summary: Mapping[str, Figures], learned: str) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      summary: policy -> mean of each metric; the learned one and every rule.
      learned: the learned policy, ``chic`` or ``chic_pair``.

    Returns:
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``.
    """
    paper, accepted = (0.1008, 0.09) if learned == "chic_pair" else (0.1265, 0.11)
    own_random = reduction(summary, "random", OPTIMUS, "avg_jct")
    gain = reduction(summary, learned, OPTIMUS, "avg_jct")
    event = reduction(summary, learned, "optimus_event", "avg_jct")
    saved = summary[OPTIMUS]["avg_jct"] - summary[learned]["avg_jct"]
    return [
        at_least("Fig. 4a: mean completion time below Optimus, share", paper, gain, accepted),
        {
            "item": "Fig. 4a: the same in seconds (299-331 for the specification's search)",
            "paper": "> 400",
            "here": round(saved, 1),
            "accept": "reported",
            "met": None,
        },
        at_least(
            "Fig. 4b: shortest completion time below Optimus, share",
            "> 0",
            reduction(summary, learned, OPTIMUS, "min_jct"),
            0.0,
        ),
        at_least(
            "Fig. 4b: median completion time below Optimus, share",
            "> 0",
            reduction(summary, learned, OPTIMUS, "median_jct"),
            0.0,
        ),
        at_most(
            "Fig. 5b: Optimus every 300 s over every 600 s",
            "< 1",
            summary["optimus_300"]["avg_jct"] / summary[OPTIMUS]["avg_jct"],
            1.0,
        ),
        at_least("below random units, share of Optimus", None, gain - own_random, 0.02),
        at_least("below Optimus' rule at events, share", None, event, 0.0),
    ]
