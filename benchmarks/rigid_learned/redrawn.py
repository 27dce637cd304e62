"""What not knowing run times costs on small clusters: rules and a bound on redrawn run times."""

import argparse
from typing import Any

import numpy as np

from benchmarks.rigid_learned.parts import report, write
from benchmarks.rigid_learned.transfer import unseen_workloads

TRIALS, DRAWS = 2, 20
"""Draws on which the bound is chosen, and on which it is computed and rules are played."""
PRICES = 20  # tried on each grid, as on the leaderboard
PLAYED = ("learned", "tiresias-decades", "las-decades", "2d-gittins", "qssf", "sjf", "srtf", "srsf")


def redrawn(options: argparse.Namespace) -> None:
    """Six clusters that nobody trained on, run times drawn from those of all jobs of the size.

    All rules play the same draws. ``learned`` begins with an empty history, ``2d-gittins`` knows
    the spread of 60 % of the draw. ``knowing`` is the bound for schedules that know run times.
    """
    from jaxsched.trace_replay import POLICIES, replay
    from jaxsched.trace_replay.bounds import lower_bounds
    from jaxsched.trace_replay.nonclairvoyant import nonclairvoyant_bound, redraw

    played: dict[str, Any] = {}
    for name, ready in unseen_workloads(options.data):
        submit, gpus, duration = (
            ready.table[column].astype(np.int64)
            for column in ("submit_time", "num_gpus", "duration")
        )
        group = np.unique(gpus, return_inverse=True)[1]
        rng = np.random.default_rng(options.seed)
        draws = [redraw(duration, group, rng) for _ in range(TRIALS + DRAWS)]
        found = nonclairvoyant_bound(
            submit, gpus, duration, group, draws, cluster=ready.cluster, trials=TRIALS
        )
        means = {
            rule: [
                float(replay(jobs, ready.cluster, POLICIES[rule]).jct.mean())
                for jobs in (
                    {"submit_time": submit, "num_gpus": gpus, "duration": drawn}
                    for drawn in draws[TRIALS:]
                )
            ]
            for rule in PLAYED
        }
        means["bound"] = found.avg_jct_s.tolist()
        servers, size = ready.cluster.num_servers, ready.cluster.gpus_per_server
        means["knowing"] = [
            lower_bounds(
                submit, gpus, drawn, num_servers=servers, gpus_per_server=size, iterations=PRICES
            ).preemptive.avg_jct_s
            for drawn in draws[TRIALS:]
        ]
        played[name] = {
            "jobs": len(submit),
            "servers": servers,
            "share": found.share,
            "widths": found.widths,
            "avg_jct": means,
        }
        report(f"{name}: { ({rule: round(np.mean(each)) for rule, each in means.items()}) }")
        write(options.out / "redrawn.json", {"trials": TRIALS, "workloads": played})
