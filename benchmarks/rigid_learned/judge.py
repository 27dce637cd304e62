"""The test parts, played once: the learned orders and the rules beside them."""

import argparse
from typing import Any

from benchmarks.rigid_learned.parts import (
    BARS,
    REAL,
    SPLIT,
    compared,
    of_part,
    report,
    tell,
    workloads,
    write,
)

PAIRS = (
    *(("learned", bar) for bar in BARS),
    ("learned-300s", "tiresias-decades-300s"),
    ("learned-300s", "las-decades-300s"),
    ("learned-once", "qssf"),
)
FURTHER = ("tiresias-decades-300s", "las-decades-300s", "srtf")
PLAYED = ("learned", "learned-300s", "learned-once", *BARS, *FURTHER)


def judge(options: argparse.Namespace) -> None:
    """Play the test parts: OUT's predictor, or the library's, and the rules beside it."""
    from jaxsched.trace_replay.scorers import read, shipped

    own = options.out / "predictor.json"
    predictor = read(own) if own.exists() else shipped()
    played: dict[str, Any] = {}
    for name, (table, cluster, count) in workloads(options.data, 1.0).items():
        test = slice(int(SPLIT[1] * count), None)
        played[name] = {
            rule: of_part(rule, table, cluster, test, predictor, timed=True) for rule in PLAYED
        }
        report(f"{name}: { ({rule: round(row['avg_jct']) for rule, row in played[name].items()}) }")
    rows = compared(played, PAIRS, {"real": REAL, "all": tuple(played)})
    write(options.out / "rigid_learned.json", {"workloads": played, "compared": rows})
    tell(rows)
