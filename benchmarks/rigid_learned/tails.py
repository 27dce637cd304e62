"""Numbers of the index that might trade the mean against the tail, on validation parts.

``patience``: who has waited longer moves up the order, an octave for so many hours. ``power``: of a
job's GPUs by which its index is divided; with less of it large jobs are put off less.
"""

import argparse
import math
from typing import Any

from benchmarks.rigid_learned.fit import SEARCHED
from benchmarks.rigid_learned.parts import REAL, SPLIT, of_part, report, workloads, write

PATIENCE_H = (1000, 240, 72)
POWERS = (0.0, 0.25, 1.0)
CHOSEN = 0.25
"""The power that is played on the test parts as well."""
LIBRARY = "as shipped"
SHOWN = ("avg_jct", "p99_jct", "p99_slowdown", "worst_group_avg_jct")


def tails(options: argparse.Namespace) -> None:
    """Validation parts of all workloads but Philly under each number; test parts under one.

    Everything is over the same jobs under the library's own numbers.
    """
    import numpy as np

    from jaxsched.trace_replay.scorers import shipped

    tried: dict[str, dict[str, float]] = {LIBRARY: {}}
    tried |= {f"patience {hours} h": {"patience_s": 3600 * hours} for hours in PATIENCE_H}
    tried |= {f"power {power:g}": {"size_power": power} for power in POWERS}
    played: dict[str, dict[str, Any]] = {}
    found = workloads(options.data, SPLIT[1])
    for label, numbers in tried.items():
        changes: dict[str, Any] = {name: np.float32(number) for name, number in numbers.items()}
        predictor = shipped()._replace(**changes)
        rows = played[label] = {}
        for name in SEARCHED:
            table, cluster, count = found[name]
            part = slice(int(SPLIT[0] * count), None)
            rows[name] = of_part("learned", table, cluster, part, predictor)
        report(f"{label}: {ratios(rows, played[LIBRARY])}")
    tested: dict[str, dict[str, Any]] = {LIBRARY: {}, f"power {CHOSEN:g}": {}}
    for name, (table, cluster, count) in workloads(options.data, 1.0).items():
        if name not in REAL:
            continue
        part = slice(int(SPLIT[1] * count), None)
        for label, power in zip(tested, (shipped().size_power, CHOSEN), strict=True):
            predictor = shipped()._replace(size_power=np.float32(power))
            tested[label][name] = of_part("learned", table, cluster, part, predictor)
    found_in_test = {label: ratios(rows, tested[LIBRARY]) for label, rows in tested.items()}
    report(f"test parts: {found_in_test}")
    document = {
        "workloads": played,
        "test": tested,
        "test_ratios": found_in_test,
        "ratios": {label: ratios(rows, played[LIBRARY]) for label, rows in played.items()},
    }
    write(options.out / "tails.json", document)


def ratios(rows: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    """Geometric means over workloads of each figure over that of the library."""
    found = {}
    for figure in SHOWN:
        there = [name for name in rows if base[name][figure]]
        logs = [math.log(rows[name][figure] / base[name][figure]) for name in there]
        found[figure] = round(math.exp(sum(logs) / len(logs)), 3)
    return found
