"""What the paper reports (KDD 2023), and how a run stands to it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsched.envs.das.jobs import CLUSTERS
from jaxsched.systems.claims import row

HEURISTICS = (
    "fifo_firstfit",
    "fifo_loadbalance",
    "drf_firstfit",
    "drf_loadbalance",
    "tetris",
)
BASE = "fifo_loadbalance"


class Figures(NamedTuple):
    """Completion time and fee of a job: averages (min, $), or what else is said of both."""

    jct: float
    fee: float


def _row(*values: float) -> dict[str, Figures]:
    pairs = zip(values[::2], values[1::2], strict=True)
    return {name: Figures(*pair) for name, pair in zip(CLUSTERS, pairs, strict=True)}


TABLE_1 = {
    "fifo_firstfit": _row(720.228, 51.685, 171.282, 51.684, 110.316, 51.219),
    "fifo_loadbalance": _row(715.776, 51.559, 162.102, 50.900, 112.290, 51.112),
    "drf_firstfit": _row(862.242, 52.055, 164.778, 51.354, 109.098, 52.325),
    "drf_loadbalance": _row(852.984, 51.798, 173.106, 51.908, 113.556, 51.924),
    "tetris": _row(813.480, 51.668, 176.688, 52.567, 113.364, 53.109),
    "malo": _row(708.858, 51.675, 182.862, 51.129, 111.660, 51.233),
    "mosa": _row(759.222, 51.783, 173.400, 51.998, 109.422, 51.933),
    "DL2": _row(721.083, 51.166, 160.100, 50.970, 110.215, 51.080),
    "RIFLING": _row(717.576, 51.160, 176.676, 50.980, 109.872, 51.039),
    "DA": _row(697.732, 51.106, 173.354, 51.097, 108.821, 51.025),
    "DA+MC": _row(680.861, 50.952, 163.456, 50.941, 109.854, 50.701),
    "DA+RWGP": _row(686.894, 51.029, 157.071, 50.856, 107.896, 50.439),
    "DAS": _row(638.046, 50.484, 155.003, 50.019, 108.700, 50.354),
}
"""Table 1: policy -> cluster -> figures."""


BASELINES = (*HEURISTICS, "malo", "mosa", "DL2", "RIFLING")
"""The policies of Table 1 that are not the paper's own."""


def best_ratio(cluster: str) -> Figures:
    """The paper's figures of DAS over those of its best baseline, to three digits."""
    best = (min(TABLE_1[name][cluster][k] for name in BASELINES) for k in range(2))
    return _ratio(cluster, *best)


def base_ratio(cluster: str) -> Figures:
    """The paper's figures of DAS over those of FIFO-LoadBalance, to three digits."""
    return _ratio(cluster, *TABLE_1[BASE][cluster])


def _ratio(cluster: str, jct: float, fee: float) -> Figures:
    own = TABLE_1["DAS"][cluster]
    return Figures(round(own.jct / jct, 3), round(own.fee / fee, 3))


MINUTES_SAVED = 34.0  # a job, against RIFLING
DOLLARS_SAVED, JOBS_PER_DAY = 10_000.0, 17_000
WILCOXON = {
    "small": Figures(0.0002, 0.0588),
    "medium": Figures(0.0006, 0.0570),
    "large": Figures(0.0491, 0.0792),
}
"""Table 3: p-values of DAS against RIFLING."""

SECONDS_PER_JOB = {"small": 0.0132, "medium": 0.0138, "large": 0.0156}
"""Appendix F: inference of DAS, 4 cores and a 1080 Ti."""


def paper_rows(
    summary: Mapping[str, Mapping[str, float]], learned: str, num_servers: int
) -> list[dict[str, Any]]:
    """Rows of the report's table of claims: ratios of means over these episodes.

    On clusters of other sizes than the paper's there is no figure of the paper's.
    ``python -m benchmarks.papers das`` takes geometric means of the ratios over more episodes.
    """
    sizes = {size: name for name, size in CLUSTERS.items()}
    cluster = sizes.get(num_servers)
    unknown = (None, None)
    base = unknown if cluster is None else base_ratio(cluster)
    paper = unknown if cluster is None else best_ratio(cluster)

    def ratio(policy: str, metric: str) -> float:
        return summary[learned][metric] / summary[policy][metric]

    best = min(HEURISTICS, key=lambda name: summary[name]["avg_jct_min"])
    pairs = (("JCT", "avg_jct_min"), ("fee", "avg_fee"))
    others = (
        (BASE, "FIFO-LoadBalance", base),
        (best, f"the best heuristic, here {best}", paper),
    )
    rows = [
        row(f"Table 1: {words} over {called}", known, ratio(other, metric), none=1)
        for other, called, figures in others
        for (words, metric), known in zip(pairs, figures, strict=True)
    ]
    if "random" in summary:
        rows.append(row("JCT over uniformly random actions", None, ratio("random", "avg_jct_min")))
    return rows
