"""What patience gives the tail and costs the mean: who has waited longer moves up the order."""

import argparse
import json
import math
from typing import Any

from benchmarks.rigid_learned.fit import SEARCHED
from benchmarks.rigid_learned.parts import SPLIT, of_part, report, workloads

PATIENCE_H = (math.inf, 240, 72, 24, 8)
"""Hours of waiting that are worth an octave of the index."""
SHOWN = ("avg_jct", "p99_jct", "p99_slowdown", "worst_group_avg_jct")


def tails(options: argparse.Namespace) -> None:
    """Validation parts of all workloads but Philly under each patience, and ratios to none."""
    import numpy as np

    from jaxsched.bench.timing import surroundings
    from jaxsched.files import write_whole
    from jaxsched.trace_replay.scorers import shipped

    played: dict[str, dict[str, Any]] = {}
    found = workloads(options.data, SPLIT[1])
    for hours in PATIENCE_H:
        predictor = shipped()._replace(patience_s=np.float32(3600 * hours))
        label = "none" if hours == math.inf else f"{hours} h"
        rows = played[label] = {}
        for name in SEARCHED:
            table, cluster, count = found[name]
            part = slice(int(SPLIT[0] * count), None)
            rows[name] = of_part("learned", table, cluster, part, predictor)
        report(f"{label}: {ratios(rows, played['none'])}")
    document = {
        **surroundings(),
        "workloads": played,
        "ratios": {label: ratios(rows, played["none"]) for label, rows in played.items()},
    }
    text = json.dumps(document, indent=1) + "\n"
    write_whole(options.out / "tails.json", text.encode())


def ratios(rows: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    """Geometric means over workloads of each figure over that without patience."""
    found = {}
    for figure in SHOWN:
        there = [name for name in rows if base[name][figure]]
        logs = [math.log(rows[name][figure] / base[name][figure]) for name in there]
        found[figure] = round(math.exp(sum(logs) / len(logs)), 3)
    return found
