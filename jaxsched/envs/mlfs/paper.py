"""The paper's Figure 4 and how a run stands to it (specification, sections 1 and 12).

The paper's figures are those of the highest load: three times 620 jobs on 80 GPUs in 36 hours (155
on 20 GPUs are the same load).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxsched.systems.claims import at_least, at_most

Figures = Mapping[str, float]
RIVALS = ("fair", "slaq", "tiresias", "gandiva", "hypersched", "fifo")
"""Baselines that meet fewer deadlines than MLF-H; Graphene need not."""
WITH_CONTROL = "mlf_hc"
JCT, DEADLINES, BANDWIDTH = "avg_jct", "deadline_ratio", "bandwidth_mb"
WAIT, ACCURACY, TARGETS = "avg_wait", "avg_accuracy", "accuracy_ratio"
SHORT = "jct_under_100min"
TINY = 1e-9


class Claim(NamedTuple):
    """One policy's mean over another's.

    Attributes:
      item: what is claimed.
      paper: the paper's ratio, or what is known of it.
      metric: of which.
      other: the policy in the denominator.
      most: accepted at most; neither this nor ``least``: only reported.
      least: accepted at least.
    """

    item: str
    paper: float | str | None
    metric: str
    other: str
    most: float | None = None
    least: float | None = None


MLF_H = (
    Claim("Fig. 4a: JCT, MLF-H over Graphene", "< 1", JCT, "graphene", most=1.1),
    Claim("Fig. 4a: JCT, MLF-H over Tiresias", "< 1", JCT, "tiresias", most=1.0),
    Claim("Fig. 4g: bandwidth, MLF-H over Tiresias", "< 1", BANDWIDTH, "tiresias", most=0.85),
)
MLF_RL = (
    Claim("Fig. 4b: JCT, MLF-RL over MLF-H", 0.89, JCT, "mlf_h", most=0.92),
    Claim("Fig. 4c: deadline ratio, MLF-RL over MLF-H", 1.16, DEADLINES, "mlf_h", least=1.0),
    Claim("Fig. 4d: wait, MLF-RL over MLF-H", 0.86, WAIT, "mlf_h"),
    Claim("Fig. 4e: accuracy, MLF-RL over MLF-H", 1.14, ACCURACY, "mlf_h"),
    Claim("Fig. 4f: accuracy ratio, MLF-RL over MLF-H", 1.08, TARGETS, "mlf_h"),
    Claim("Fig. 4g: bandwidth, MLF-RL over MLF-H", 0.86, BANDWIDTH, "mlf_h"),
)
MLFS = (
    Claim("Fig. 4b: JCT, MLFS over Tiresias", 0.66, JCT, "tiresias", most=0.66),
    Claim("Fig. 4b: JCT, MLFS over SLAQ", 0.47, JCT, "slaq", most=0.5),
    Claim("Fig. 4c: deadline ratio, MLFS over MLF-H", "> 1", DEADLINES, "mlf_h", least=1.0),
    Claim("Fig. 4c: deadline ratio, MLFS over HyperSched", 1.47, DEADLINES, "hypersched"),
    Claim("Fig. 4d: wait, MLFS over Tiresias", 0.6, WAIT, "tiresias"),
    Claim("Fig. 4e: accuracy, MLFS over HyperSched", 1.43, ACCURACY, "hypersched"),
    Claim("Fig. 4f: accuracy ratio, MLFS over HyperSched", 1.32, TARGETS, "hypersched"),
    Claim("Fig. 4g: bandwidth, MLFS over Tiresias", "< 1", BANDWIDTH, "tiresias", most=0.8),
)


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
      Rows with ``item``, ``paper``, ``here``, ``accept`` and ``met``.
    """
    best = max(RIVALS, key=lambda name: summary[name][DEADLINES])
    rows = _judged(summary, "mlf_h", MLF_H)
    rows += _judged(
        summary,
        "mlf_h",
        [Claim(f"Fig. 4c: deadline ratio, MLF-H over {best}", "> 1", DEADLINES, best, least=1.0)],
    )
    rows += _judged(
        summary, "tiresias", [Claim("Fig. 4a: JCT, Tiresias over SLAQ", "< 1", JCT, "slaq", 1.0)]
    )
    rows += _judged(summary, learned, MLFS if controls else MLF_RL)
    name, share = ("MLFS", 0.85) if controls else ("MLF-RL", 0.81)
    item = f"Fig. 4a: share of jobs under 100 min, {name}"
    rows.append(_reported(item, share, summary[learned][SHORT]))
    more = []
    if controls and WITH_CONTROL in summary:
        more.append(Claim("JCT, MLFS over MLF-H with MLF-C", None, JCT, WITH_CONTROL))
    if controls and beside is not None:
        more += _beside(beside)
    return rows + _judged(summary, learned, more)


def _beside(mlf_rl: str) -> list[Claim]:
    """MLFS against MLF-RL."""
    return [
        Claim("Fig. 4b: JCT, MLFS over MLF-RL", 0.78, JCT, mlf_rl, most=0.88),
        Claim("Fig. 4c: deadline ratio, MLFS over MLF-RL", 1.21, DEADLINES, mlf_rl, least=1.0),
        Claim("Fig. 4f: accuracy ratio, MLFS over MLF-RL", 1.22, TARGETS, mlf_rl, least=0.97),
    ]


def _judged(
    summary: Mapping[str, Figures], policy: str, claims: Sequence[Claim]
) -> list[dict[str, Any]]:
    """Rows of claims about one policy."""
    rows = []
    for item, paper, metric, other, most, least in claims:
        here = summary[policy][metric] / max(summary[other][metric], TINY)
        if most is not None:
            rows.append(at_most(item, paper, here, most))
        elif least is not None:
            rows.append(at_least(item, paper, here, least))
        else:
            rows.append(_reported(item, paper, here))
    return rows


def _reported(item: str, paper: float | str | None, here: float) -> dict[str, Any]:
    return {
        "item": item,
        "paper": paper,
        "here": round(here, 4),
        "accept": "reported",
        "met": None,
    }
