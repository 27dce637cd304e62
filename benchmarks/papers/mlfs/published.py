"""What the paper reports (CoNEXT '20, Figures 4 to 9) and what section 12 accepts."""

from typing import NamedTuple

from benchmarks.papers.mlfs.players import MLF_H, MLF_HC, MLF_RL, MLFS_, RL
from jaxsched.envs.mlfs.paper import RIVALS

JCT, DEADLINES, BANDWIDTH = "avg_jct", "deadline_ratio", "bandwidth_mb"
WAIT, ACCURACY, TARGETS = "avg_wait", "avg_accuracy", "accuracy_ratio"
SHORT, MAKESPAN, OVERLOADS = "jct_under_100min", "makespan", "overloads"
URGENT = "urgent_deadline_ratio"


class Bound(NamedTuple):
    """A ratio of one policy's mean to another's, means over seeds and tables.

    Attributes:
      policy: in the numerator.
      other: in the denominator.
      metric: of section 8.
      paper: the paper's ratio, in words.
      most: accepted at most; neither this nor ``least``: only reported.
      least: accepted at least.
      strict: the bound itself is not accepted.
      stretch: wished for, not asked for.
    """

    policy: str
    other: str
    metric: str
    paper: str
    most: float | None = None
    least: float | None = None
    strict: bool = False
    stretch: bool = False


COMPLETION = (
    Bound(MLFS_, MLF_RL, JCT, "< 1", most=1.0, strict=True),
    Bound(MLF_RL, MLF_H, JCT, "< 1", most=1.0, strict=True),
    Bound(MLF_H, "graphene", JCT, "< 1", most=1.1),
    Bound(MLF_H, "tiresias", JCT, "< 1", most=1.0, strict=True),
    Bound("tiresias", "slaq", JCT, "< 1", most=1.0, strict=True),
    Bound(MLF_RL, MLF_H, JCT, "0.89", most=0.92),
    Bound(MLF_RL, MLF_H, JCT, "0.89", most=0.89, stretch=True),
    Bound(MLFS_, MLF_RL, JCT, "0.78", most=0.88),
    Bound(MLFS_, MLF_RL, JCT, "0.78", most=0.78, stretch=True),
    Bound(MLFS_, "tiresias", JCT, "0.66", most=0.66),
    Bound(MLFS_, "slaq", JCT, "0.47", most=0.5),
    Bound(MLFS_, MLF_HC, JCT, "-"),
)
"""E1: Figures 4a and 4b."""

QUALITY = (
    Bound(MLFS_, MLF_RL, DEADLINES, "1.21", least=1.0),
    Bound(MLF_RL, MLF_H, DEADLINES, "1.16", least=1.0),
    *(Bound(MLF_H, rival, DEADLINES, "> 1", least=1.0, strict=True) for rival in RIVALS),
    Bound(MLF_H, "tiresias", BANDWIDTH, "< 1", most=0.85),
    Bound(MLFS_, "tiresias", BANDWIDTH, "< 1", most=0.8),
    Bound(MLFS_, MLF_RL, TARGETS, "1.22", least=0.97),
    Bound(MLFS_, "hypersched", DEADLINES, "1.47"),
    Bound(MLFS_, "slaq", DEADLINES, "2.02"),
    Bound(MLFS_, MLF_RL, WAIT, "0.75"),
    Bound(MLF_RL, MLF_H, WAIT, "0.86"),
    Bound(MLFS_, "tiresias", WAIT, "0.60"),
    Bound(MLFS_, "slaq", WAIT, "0.48"),
    Bound(MLFS_, MLF_RL, ACCURACY, "1.23"),
    Bound(MLF_RL, MLF_H, ACCURACY, "1.14"),
    Bound(MLFS_, "hypersched", ACCURACY, "1.43"),
    Bound(MLFS_, "fair", ACCURACY, "1.64"),
    Bound(MLF_RL, MLF_H, TARGETS, "1.08"),
    Bound(MLFS_, "hypersched", TARGETS, "1.32"),
    Bound(MLFS_, "fair", TARGETS, "1.61"),
    Bound(MLFS_, MLF_RL, BANDWIDTH, "0.78"),
    Bound(MLF_RL, MLF_H, BANDWIDTH, "0.86"),
    Bound(MLFS_, "fair", BANDWIDTH, "0.64"),
    Bound(MLFS_, "gandiva", BANDWIDTH, "0.55"),
)
"""E2: Figures 4c to 4g at the highest load."""

SHORT_SHARE = {
    MLFS_: 0.85,
    MLF_RL: 0.81,
    MLF_H: 0.78,
    "tiresias": 0.61,
    "hypersched": 0.60,
    RL: 0.60,
    "gandiva": 0.55,
    "fair": 0.46,
    "slaq": 0.39,
}
"""Figure 4a: share of the jobs under 100 minutes."""

MAKESPAN_H = {
    MLFS_: (40, 90),
    MLF_RL: (51, 102),
    MLF_H: (54, 116),
    "tiresias": (56, 125),
    "hypersched": (58, 128),
    RL: (61, 134),
    "gandiva": (64, 138),
    "fair": (78, 158),
    "slaq": (85, 170),
}
"""Section on Figure 4: hours from the lowest load to the highest."""

SCHEDULER_MS = {
    MLFS_: 54,
    MLF_RL: 49,
    MLF_H: 40,
    "gandiva": 23,
    "fair": 28,
    "tiresias": 35,
    "hypersched": 38,
    "slaq": 40,
    RL: 49,
}
"""Figure 4h: scheduler time per call, ms."""

LEAST_BANDWIDTH_SAVED = 0.20  # Figure 7
LEAST_OVERLOADS_SAVED = 0.36  # Figure 8
LEAST_JCT_SAVED = {2.0: 0.05, 3.0: 0.12}  # Figure 8, by load
LEAST_JCT_SAVED_BY_CONTROL = 0.15  # Figure 9
MOST_TARGETS_LOST = 0.02  # Figure 9
