"""What the paper reports, what section 12 accepts, and how a run on one cluster stands to them."""

from collections.abc import Mapping
from typing import Any

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]
JCT = "avg_jct_slots"

REDUCTION = {"drf": 0.441, "optimus": 0.175, "offline_rl": 0.379}
"""Figure 9: by which share DL2's average JCT is below another's."""

LEAST_REDUCTION = {
    "sim": {"drf": 0.35, "optimus": 0.10, "tetris": 0.0, "offline_rl": 0.0},
    "testbed": {"drf": 0.20, "optimus": 0.20, "tetris": 0.20},
}
"""Accepted, by cluster."""

MOST_ABOVE_TETRIS = 0.02  # Optimus on the simulated cluster
UTILIZATION = {"dl2": 0.78, "drf": 0.62}  # Figure 9, of the GPUs

LEARNING_SPEED = "tens against hundreds"
MOST_OFF_TEACHER, LEAST_BELOW_DRF = 0.10, 0.20
"""Figure 10: RL updates to reach DRF with and without a supervised start; accepted shares."""

WORKERS_PER_SERVER, WORKERS_PER_SERVER_ACCEPTED = "about 2", (1.5, 3.5)
"""Figure 11: of a Seq2Seq job."""

REDUCTION_BY_ARRIVALS = "about 20 %"
"""Figure 12: below Optimus at other arrival patterns."""

MOST_LOST_BY_ERROR = 0.10
REDUCTION_AT_ERROR, LEAST_REDUCTION_AT_ERROR = "28 %", 0.20
"""Figure 16: wrong epochs; below DRF with errors of 20 %."""

MOST_LOST_BY_UNSEEN = 0.10
"""Figure 17: types joining, against all types from the start."""

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
MUST_BE_WORSE = ("no bundle", "no actor-critic", "no replay")
"""Table 2: how much worse the method is without a part, or where each job's own reward is paid."""

FEDERATED_SPEED = "almost x times faster"
MOST_SPREAD_OF_CLUSTERS, NEAR_FINAL = 0.10, 1.1
"""Section on federated training: means over numbers of clusters; what counts as learnt."""

INFERENCE_MS = "< 3"


def reduction(summary: Mapping[str, Figures], policy: str, other: str) -> float:
    """By which share ``policy``'s average JCT is below ``other``'s."""
    return 1.0 - summary[policy][JCT] / max(summary[other][JCT], 1e-9)


def paper_rows(
    summary: Mapping[str, Figures], learned: str, *, testbed: bool
) -> list[dict[str, Any]]:
    """Rows of the report's table of claims.

    Args:
      summary: policy -> mean of each metric; the learned one and every heuristic.
      learned: the learned policy.
      testbed: the small cluster, where other margins are accepted.

    Returns:
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``.
    """
    accepted = LEAST_REDUCTION["testbed" if testbed else "sim"]
    spelled = {"drf": "DRF", "optimus": "Optimus", "tetris": "Tetris"}
    return [
        *(
            at_least(
                f"Fig. 9: average JCT below {words}, share",
                REDUCTION.get(name, "> 0"),
                reduction(summary, learned, name),
                accepted[name],
            )
            for name, words in spelled.items()
        ),
        at_most(
            "Fig. 9: makespan over DRF's",
            "< 1",
            summary[learned]["makespan"] / summary["drf"]["makespan"],
            1.0,
        ),
        {
            "item": "Fig. 9: GPU utilisation",
            "paper": UTILIZATION["dl2"],
            "here": round(summary[learned]["utilization"], 3),
            "accept": "reported",
            "met": None,
        },
    ]
