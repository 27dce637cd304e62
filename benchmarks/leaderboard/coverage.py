"""How often the leaderboard's intervals hold the mean that they are about.

    python -m benchmarks.leaderboard.coverage [--seeds 40] [--jobs 40000] [--draws 5] [--json FILE]

Generated workloads are drawn with many seeds and replayed; the mean over all of them stands for the
true one. Printed per workload: the share of random groups of draws whose interval holds it, for the
mean JCT and for its ratio to another policy's, and beside it what a bootstrap over blocks of a
single draw would have given.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.leaderboard.board import interval
from jaxsched.leaderboard.cells import DRAWS

SOURCES = ("itp-cluster04-like", "helios-venus-like")
POLICY, OTHER = "fifo-skip", "sjf"
GROUPS, BLOCKS = 2000, 50


def main() -> int:
    """Play, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each group")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return exit_status(partial(run, parser.parse_args()))


def run(options: argparse.Namespace) -> None:
    """See ``main``."""
    from jaxsched.files import write_json
    from jaxsched.provenance import surroundings

    rows = []
    for source in SOURCES:
        ours, theirs = played(source, options.seeds, options.jobs)
        row = shares(ours, theirs, options.draws)
        rows.append({"workload": source, **row})
        print(
            f"{source}, {POLICY}, {options.seeds} seeds of {options.jobs:,} jobs, mean JCT "
            f"{row['mean'] / 3600:.2f} h: {options.draws} draws hold it in {row['draws']:.0%}, the "
            f"ratio to {OTHER} in {row['ratio']:.0%}; blocks of one draw in {row['blocks']:.0%}",
            flush=True,
        )
    if options.json is not None:
        document = {"seeds": options.seeds, "jobs": options.jobs, "draws": options.draws}
        write_json(options.json, {**surroundings(), **document, "rows": rows})


def played(source: str, seeds: int, jobs: int) -> tuple[list[Any], list[Any]]:
    """JCTs of the measured jobs under both policies, for each seed, on the first seed's cluster."""
    from jaxsched.leaderboard import Workload, prepare
    from jaxsched.leaderboard.window import window_of
    from jaxsched.trace_replay import POLICIES, replay

    first = prepare(Workload(source, source, num_jobs=jobs), None)
    same = Workload(source, source, first.load, 0, first.cluster.num_servers, jobs)
    draws = [prepare(same, None, seed=seed) for seed in range(seeds)]
    ours, theirs = (
        [
            replay(draw.table, draw.cluster, POLICIES[name]).jct[window_of(draw.table).jobs]
            for draw in draws
        ]
        for name in (POLICY, OTHER)
    )
    return ours, theirs


def shares(ours: Sequence[Any], theirs: Sequence[Any], draws: int) -> dict[str, float]:
    """How often intervals hold the mean and the ratio of means over all seeds."""
    mine, others = (np.array([np.mean(jct) for jct in each]) for each in (ours, theirs))
    true, ratio = float(mine.mean()), float(mine.mean() / others.mean())
    rng = np.random.default_rng(0)
    held, held_ratio = [], []
    for _ in range(GROUPS):
        group = rng.choice(len(mine), draws)
        found = interval(mine[group], np.ones(draws))
        held.append(found.low <= true <= found.high)
        found = interval(mine[group], others[group])
        held_ratio.append(found.low <= ratio <= found.high)
    return {
        "mean": true,
        "draws": float(np.mean(held)),
        "ratio": float(np.mean(held_ratio)),
        "blocks": float(np.mean([_holds(jct, true) for jct in ours])),
    }


def _holds(jct: Any, true: float) -> bool:
    """Whether a bootstrap over blocks of neighbours holds the mean."""
    from jaxsched.results.statistics import ratio_interval

    parts = np.array_split(np.asarray(jct), BLOCKS)
    sums, counts = [float(part.sum()) for part in parts], [len(part) for part in parts]
    found = ratio_interval(sums, counts, resamples=2000)
    return found.low <= true <= found.high


if __name__ == "__main__":
    sys.exit(main())
