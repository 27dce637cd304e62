"""What the paper reports (CoNEXT '20, Figures 4 to 9), and how a run stands to it.

Ratios of Figure 4 are those of the highest load: three times 620 jobs on 80 GPUs in 36 hours (155
on 20 GPUs are the same load).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxsched.systems.claims import row

Figures = Mapping[str, float]

BASELINES = ("fair", "slaq", "tiresias", "gandiva", "graphene", "hypersched", "fifo")
RIVALS = tuple(name for name in BASELINES if name != "graphene")
"""Baselines that meet fewer deadlines than MLF-H; Graphene need not."""

MLF_H, MLF_HC = "mlf_h", "mlf_hc"
MLF_RL, MLFS, RL = "MLF-RL", "MLFS", "RL"
JCT, DEADLINES, BANDWIDTH = "avg_jct", "deadline_ratio", "bandwidth_mb"
WAIT, ACCURACY, TARGETS = "avg_wait", "avg_accuracy", "accuracy_ratio"
SHORT, MAKESPAN, OVERLOADS = "jct_under_100min", "makespan", "overloads"
URGENT = "urgent_deadline_ratio"
TINY = 1e-9


class Claim(NamedTuple):
    """A ratio of one policy's mean to another's.

    Attributes:
      policy: in the numerator.
      other: in the denominator.
      metric: of section 8.
      paper: the paper's ratio, or what is known of it.
      in_report: a report's table of claims has it, too.
    """

    policy: str
    other: str
    metric: str
    paper: float | str | None = None
    in_report: bool = False

    @property
    def paper_words(self) -> str:
        """The paper's ratio as experiments show it."""
        if self.paper is None:
            return "-"
        return self.paper if isinstance(self.paper, str) else f"{self.paper:.2f}"


COMPLETION = (
    Claim(MLF_H, "graphene", JCT, "< 1", in_report=True),
    Claim(MLF_H, "tiresias", JCT, "< 1", in_report=True),
    Claim("tiresias", "slaq", JCT, "< 1", in_report=True),
    Claim(MLF_RL, MLF_H, JCT, 0.89, in_report=True),
    Claim(MLFS, MLF_RL, JCT, 0.78, in_report=True),
    Claim(MLFS, "tiresias", JCT, 0.66, in_report=True),
    Claim(MLFS, "slaq", JCT, 0.47, in_report=True),
    Claim(MLFS, MLF_HC, JCT, in_report=True),
)
"""E1: Figures 4a and 4b."""

QUALITY = (
    Claim(MLFS, MLF_RL, DEADLINES, 1.21, in_report=True),
    Claim(MLF_RL, MLF_H, DEADLINES, 1.16, in_report=True),
    *(Claim(MLF_H, rival, DEADLINES, "> 1", in_report=True) for rival in RIVALS),
    Claim(MLF_H, "tiresias", BANDWIDTH, "< 1", in_report=True),
    Claim(MLFS, "tiresias", BANDWIDTH, "< 1", in_report=True),
    Claim(MLFS, MLF_RL, TARGETS, 1.22, in_report=True),
    Claim(MLFS, "hypersched", DEADLINES, 1.47, in_report=True),
    Claim(MLFS, "slaq", DEADLINES, 2.02),
    Claim(MLFS, MLF_RL, WAIT, 0.75),
    Claim(MLF_RL, MLF_H, WAIT, 0.86, in_report=True),
    Claim(MLFS, "tiresias", WAIT, 0.60, in_report=True),
    Claim(MLFS, "slaq", WAIT, 0.48),
    Claim(MLFS, MLF_RL, ACCURACY, 1.23),
    Claim(MLF_RL, MLF_H, ACCURACY, 1.14, in_report=True),
    Claim(MLFS, "hypersched", ACCURACY, 1.43, in_report=True),
    Claim(MLFS, "fair", ACCURACY, 1.64),
    Claim(MLF_RL, MLF_H, TARGETS, 1.08, in_report=True),
    Claim(MLFS, "hypersched", TARGETS, 1.32, in_report=True),
    Claim(MLFS, "fair", TARGETS, 1.61),
    Claim(MLFS, MLF_RL, BANDWIDTH, 0.78),
    Claim(MLF_RL, MLF_H, BANDWIDTH, 0.86, in_report=True),
    Claim(MLFS, "fair", BANDWIDTH, 0.64),
    Claim(MLFS, "gandiva", BANDWIDTH, 0.55),
)
"""E2: Figures 4c to 4g at the highest load."""

LARGE = (
    Claim(MLF_RL, MLF_H, JCT, 0.90),
    Claim(MLFS, MLF_RL, JCT, 0.82),
    Claim(MLFS, MLF_H, JCT, 0.74),
    Claim(MLF_H, "graphene", JCT, "< 1"),
    Claim("graphene", "tiresias", JCT, "< 1"),
    Claim(MLF_H, "tiresias", JCT, "< 1"),
    Claim(MLFS, "tiresias", JCT, 0.70),
    Claim(MLF_RL, MLF_H, WAIT, 0.79),
    Claim(MLFS, MLF_RL, WAIT, 0.78),
    Claim(MLFS, "tiresias", WAIT, 0.53),
    Claim(MLF_RL, MLF_H, DEADLINES, 1.21),
    Claim(MLFS, MLF_RL, DEADLINES, 1.16),
    Claim(MLF_RL, MLF_H, BANDWIDTH, 0.85),
    Claim(MLFS, MLF_RL, BANDWIDTH, 0.76),
)
"""E3: Figure 5, the cluster of 2474 GPUs."""

PHILLY = (
    Claim(MLF_H, "graphene", JCT, "< 1"),
    *(Claim("graphene", name, JCT, "< 1") for name in ("tiresias", "hypersched", "gandiva")),
    Claim("tiresias", "fair", JCT, "< 1"),
    Claim("fair", "slaq", JCT, "< 1"),
)
"""E10: the order of Figure 5a among rules, on Philly's jobs."""

REPORT_ONLY = (Claim(MLFS, MLF_H, DEADLINES, "> 1", in_report=True),)
"""Follows from two claims of E2."""

SHORT_SHARE = {
    MLFS: 0.85,
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
    MLFS: (40, 90),
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
    MLFS: 54,
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

URGENCY_GAIN, DEADLINE_GAIN = "+22..30 %", "+13..25 %"
"""Figure 6: deadlines met with the term over those without it."""

BANDWIDTH_SAVED, JCT_SAVED_BY_BANDWIDTH = "20..35 %", "5..15 %"
"""Figure 7: by the bandwidth term."""

OVERLOADS_SAVED, JCT_SAVED_BY_MIGRATION = "36..60 %", "15..24 %"
BANDWIDTH_SPENT, ACCURACY_GAIN = "+10..14 %", "+8..10 %"
"""Figure 8: by migration."""

JCT_SAVED_BY_CONTROL, TARGETS_GAIN = "28..42 %", "+17..23 %"
"""Figure 9: by MLF-C."""
PREDICTION_ERRORS = ((10, 0), (30, 0), (10, 11), (10, 30))
"""Of accuracies and run times, per cent; predictions are right to 90 % for accuracies, to 89 and
70 % for run times of job types seen before and new ones."""

_SPELLED = {
    MLF_H: "MLF-H",
    MLF_HC: "MLF-H with MLF-C",
    "graphene": "Graphene",
    "tiresias": "Tiresias",
    "slaq": "SLAQ",
    "hypersched": "HyperSched",
}
_PANELS = {
    JCT: "JCT",
    DEADLINES: "Fig. 4c: deadline ratio",
    WAIT: "Fig. 4d: wait",
    ACCURACY: "Fig. 4e: accuracy",
    TARGETS: "Fig. 4f: accuracy ratio",
    BANDWIDTH: "Fig. 4g: bandwidth",
}
"""What a report calls a metric, in its order; the panel of the JCT depends on the policy."""


def paper_rows(
    summary: Mapping[str, Figures], learned: str, *, controls: bool, beside: str | None = None
) -> list[dict[str, Any]]:
    """Rows of the report's table of claims: ratios of means over these episodes.

    Args:
      summary: policy -> mean of each metric; the learned one and every baseline.
      learned: the learned policy.
      controls: it plays with MLF-C, and so is MLFS; else it is MLF-RL.
      beside: the policy that is MLF-RL, where ``learned`` is MLFS and both have played.

    Returns:
      Rows of ``jaxsched.systems.claims.row``.
    """
    name, late = MLFS if controls else MLF_RL, (MLF_HC, MLF_RL)
    played = {known: known for known in (*BASELINES, MLF_H, MLF_HC) if known in summary}
    played[name] = learned
    if controls and beside is not None:
        played[MLF_RL] = beside
    best = max(RIVALS, key=lambda rival: summary[rival][DEADLINES])
    mlf_h, own = _reported_of(MLF_H), _reported_of(name)
    chosen = [claim for claim in mlf_h if claim.metric != DEADLINES]
    rows = [_judged(summary, played, claim) for claim in chosen]
    chosen = [claim for claim in mlf_h if claim.metric == DEADLINES and claim.other == best]
    rows += [_judged(summary, played, claim, called=best) for claim in chosen]
    chosen = [*_reported_of("tiresias"), *(claim for claim in own if claim.other not in late)]
    rows += [_judged(summary, played, claim) for claim in chosen]
    item = f"Fig. 4a: share of jobs under 100 min, {name}"
    rows.append(row(item, SHORT_SHARE[name], summary[learned][SHORT]))
    chosen = [claim for other in late for claim in own if claim.other == other]
    return rows + [_judged(summary, played, claim) for claim in chosen if claim.other in played]


def _reported_of(policy: str) -> Sequence[Claim]:
    """A policy's claims of a report, by panel."""
    panels = list(_PANELS)
    claims = (*COMPLETION, *REPORT_ONLY, *QUALITY)
    found = [claim for claim in claims if claim.in_report and claim.policy == policy]
    return sorted(found, key=lambda claim: panels.index(claim.metric))


def _judged(
    summary: Mapping[str, Figures],
    played: Mapping[str, str],
    claim: Claim,
    called: str | None = None,
) -> dict[str, Any]:
    """A row of a report.

    Args:
      summary: policy -> mean of each metric.
      played: names of the claims -> names of the summary.
      claim: what is judged.
      called: the policy in the denominator, in the row's words.
    """
    policy, other, metric = claim.policy, claim.other, claim.metric
    here = summary[played[policy]][metric] / max(summary[played[other]][metric], TINY)
    item = f"{_PANELS[metric]}, {_spelled(policy)} over {called or _spelled(other)}"
    if metric == JCT and claim.paper is not None:
        item = f"Fig. 4{'b' if policy in (MLF_RL, MLFS) else 'a'}: {item}"
    return row(item, claim.paper, here, none=1)


def _spelled(policy: str) -> str:
    return _SPELLED.get(policy, policy)
