"""What the paper reports, and how a run on one cluster stands to it."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import row

Figures = Mapping[str, float]
JCT = "avg_jct_slots"

REDUCTION = {"drf": 0.441, "optimus": 0.175, "offline_rl": 0.379}
"""Figure 9: by which share DL2's average JCT is below another's."""

UTILIZATION = {"dl2": 0.78, "drf": 0.62}  # Figure 9, of the GPUs

LEARNING_SPEED = "tens against hundreds"
"""Figure 10: RL updates to reach DRF with and without a supervised start."""

WORKERS_PER_SERVER = "about 2"
"""Figure 11: of a Seq2Seq job."""

REDUCTION_BY_ARRIVALS = "about 20 %"
"""Figure 12: below Optimus at other arrival patterns."""

REDUCTION_AT_ERROR = "28 %"
"""Figure 16: wrong epochs; below DRF with errors of 20 %."""

REDUCTION_BELOW_TEACHER = {"drf": "> 0", "fifo": "> 0", "srtf": "41.3 %"}
"""Figure 18."""

BEST_WINDOW, BEST_NEURONS, BEST_LAYERS = "J >= jobs", "128", "2"
"""Figure 19."""

LOST_WITHOUT = {
    "no bundle": "35.1 %",
    "no actor-critic": "21.1 %",
    "no exploration": "28.8 %",
    "no replay": "39.6 %",
}
LOST_BY_OWN_REWARD = "29.1 %"
"""Table 2: how much worse the method is without a part, or where each job's own reward is paid."""

FEDERATED_SPEED = "almost x times faster"
NEAR_FINAL = 1.1
"""Section on federated training; what counts as learnt."""

INFERENCE_MS = "< 3"


def reduction(summary: Mapping[str, Figures], policy: str, other: str) -> float:
    """By which share ``policy``'s average JCT is below ``other``'s."""
    return 1.0 - summary[policy][JCT] / max(summary[other][JCT], 1e-9)


def paper_rows(summary: Mapping[str, Figures], learned: str) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      summary: policy -> mean of each metric; the learned one and every heuristic.
      learned: the learned policy.

    Returns:
      Rows of ``jaxsched.systems.claims.row``.
    """
    spelled = {"drf": "DRF", "optimus": "Optimus", "tetris": "Tetris"}
    return [
        *(
            row(
                f"Fig. 9: average JCT below {words}, share",
                REDUCTION.get(name, "> 0"),
                reduction(summary, learned, name),
                none=0,
            )
            for name, words in spelled.items()
        ),
        row(
            "Fig. 9: makespan over DRF's",
            "< 1",
            summary[learned]["makespan"] / summary["drf"]["makespan"],
            none=1,
        ),
        row("Fig. 9: GPU utilisation", UTILIZATION["dl2"], summary[learned]["utilization"]),
    ]
