"""A: lazy scheduling, one job at a time in an idle cluster, and eager scheduling."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.das.common import (
    CLUSTERS,
    EPISODES,
    FEE,
    HEURISTICS,
    JCT,
    cluster_env,
    heuristics_on,
    test_tables,
    values_of,
)
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, mean_of
from jaxsched.jobs import JobTable
from jaxsched.results.statistics import Floats

LAZY, EAGER = "lazy", "fifo_firstfit"
WITHIN = 1e-6  # of single precision
QUICK_CLUSTERS = ("small",)


def lazy_and_eager(lab: Lab) -> Outcome:
    """A, Appendix A."""
    clusters, tables = lab.choose(CLUSTERS, QUICK_CLUSTERS), test_tables(lab)
    samples, floors = {}, {}
    for cluster in clusters:
        samples[cluster] = heuristics_on(lab, (LAZY, *HEURISTICS), cluster, tables)
        params = cluster_env(lab, cluster).params(tables)
        floors[cluster] = contention_free_fees(tables, float(params.price))
    rows: list[list[Any]] = [
        [cluster, name, mean_of(sample, JCT), mean_of(sample, FEE)]
        for cluster, row in samples.items()
        for name, sample in row.items()
    ]
    rows += [[c, "without contention", None, float(f.mean())] for c, f in floors.items()]
    table = Table(
        f"lazy and eager ({EAGER}) scheduling: completion time (min) and fee ($)",
        ["cluster", "policy", "JCT", "fee"],
        rows,
        digits=2,
    )
    checks = [check for c in clusters for check in checks_of(c, samples[c], floors[c])]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        names = [LAZY, *HEURISTICS]
        acts = {c: [mean_of(samples[c][n], JCT) for n in names] for c in clusters}
        shares = {
            c: [mean_of({FEE: samples[c][n][FEE] / floors[c]}, FEE) for n in names]
            for c in clusters
        }
        figures.bars(left, names, acts, y_label="JCT (min)", slant=True)
        figures.bars(right, names, shares, y_label="fee over that without contention", slant=True)
        left.set_yscale("log")
        right.set_ylim(bottom=0.98)

    values = {**values_of(samples), "without contention": floors}
    return Outcome([table], checks, values, draw, [EPISODES])


def checks_of(cluster: str, samples: dict[str, Sample], floor: Floats) -> list[Check]:
    """Lazy has the fee without contention and the longest completion times.

    Args:
      cluster: its name.
      samples: of lazy scheduling and the heuristics.
      floor: fee without contention of each episode, ``[E]``.
    """
    gap = np.abs(samples[LAZY][FEE] / floor - 1.0).max()
    fees = {name: float(samples[name][FEE].mean()) for name in HEURISTICS}
    acts = {name: float(samples[name][JCT].mean()) for name in HEURISTICS}
    cheapest, slowest = min(fees, key=lambda n: fees[n]), max(acts, key=lambda n: acts[n])
    lazy = {metric: float(samples[LAZY][metric].mean()) for metric in (JCT, FEE)}
    return [
        beside(
            f"{cluster}: lazy's fee against that without contention; farthest episode",
            "equal",
            float(gap),
            shown=percent,
        ),
        beside(
            f"{cluster}: lazy's fee over the least of the heuristics' ({cheapest})",
            "least",
            lazy[FEE] / fees[cheapest],
            shown=_three,
        ),
        beside(
            f"{cluster}: lazy's JCT over the longest of the heuristics' ({slowest})",
            "worst",
            lazy[JCT] / acts[slowest],
            shown=_three,
        ),
    ]


def contention_free_fees(tables: Sequence[JobTable], price: float) -> Floats:
    """Mean fee ($) of each table's jobs if every job ran as long as its duration, ``[E]``.

    Args:
      tables: gang jobs.
      price: dollars per GPU-hour.
    """
    fees = []
    for table in tables:
        num_gpus = table["num_instances"].astype(np.float64) * table["gpus_per_instance"]
        fees.append(price * float(np.mean(num_gpus * table["duration"])) / 3600.0)
    return np.array(fees)


def _three(value: Any) -> str:
    return f"{value:.3f}"
