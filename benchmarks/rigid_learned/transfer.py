"""Workloads that a predictor has not been trained on, and predictors of one workload each."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rigid_learned.fit import adjusted, fitted, gathered
from benchmarks.rigid_learned.parts import (
    BARS,
    GENERATED,
    REAL,
    SPLIT,
    compared,
    of_part,
    report,
    tell,
    workloads,
    write,
)
from benchmarks.scripts import read_json

SAME = (("philly", "philly-4vc", "philly-like"),)
"""Workloads that are a part of each other, or were fitted to it: they are left out together."""
UNSEEN = tuple(f"itp-{k:02}" for k in (1, 5, 6, 8, 9, 10))
"""The clusters of ITP that are on no board and in no training set."""
TRANSFERRED = ("left out", "alone")
PAIRS = (
    *((name, bar) for name in TRANSFERRED for bar in (*BARS, "learned")),
    *(("learned", bar) for bar in BARS),
)
UNSEEN_PAIRS = tuple(("learned", bar) for bar in BARS)
JUDGED = Path("benchmarks/results/rigid_learned_cpu2.json.xz")


def others(name: str) -> tuple[str, ...]:
    """The workloads that share nothing with one."""
    related = {name, *(each for family in SAME if name in family for each in family)}
    return tuple(each for each in (*REAL, *GENERATED) if each not in related)


def transfer(options: argparse.Namespace) -> None:
    """Test parts under predictors fitted without the workload (``left out``), and to it ``alone``.

    The three numbers of the index are the library's: they were searched on the beginnings of six
    workloads, the one left out among them.
    """
    file = options.out / "transfer.json"
    played: dict[str, Any] = read_json(file)["workloads"] if file.exists() else {}
    found = workloads(options.data, 1.0)
    data = {}
    for name, (table, cluster, count) in found.items():
        begun = table.window(0, int(SPLIT[1] * count))
        data[name] = gathered(name, begun, cluster, count, options.out)
    for name in [name for name in REAL if name not in played]:
        table, cluster, count = found[name]
        test = slice(int(SPLIT[1] * count), None)
        rows: dict[str, Any] = {}
        for label, names in zip(TRANSFERRED, (others(name), (name,)), strict=True):
            predictor = numbered(fitted(data, names, options.steps, options.seed))
            rows[label] = of_part("learned", table, cluster, test, predictor)
        for rule in ("learned", *BARS):
            rows[rule] = of_part(rule, table, cluster, test)
        played[name] = rows
        report(f"{name}: { ({rule: round(row['avg_jct']) for rule, row in rows.items()}) }")
        write(file, {"steps": options.steps, "workloads": played})
    compared_rows = compared(played, PAIRS, {"real": REAL})
    write(file, {"steps": options.steps, "workloads": played, "compared": compared_rows})
    tell(compared_rows)


def numbered(predictor: Any) -> Any:
    """A fitted network with the three numbers of the library's predictor."""
    from jaxsched.trace_replay import scorers

    file = Path(scorers.__file__).with_name("predictor.json")
    tried = json.loads(file.read_text(encoding="utf-8"))["made"]["search"]
    return adjusted(predictor, min(tried, key=lambda each: float(each["log_ratio"]))["numbers"])


def unseen_workloads(data: Path) -> Iterator[tuple[str, Any]]:
    """Names of ``UNSEEN`` and the workloads, at the load of the board."""
    from jaxsched.leaderboard.workloads import Workload, prepare

    for name in UNSEEN:
        yield name, prepare(Workload(name, f"itp/raw/cluster{name[-2:]}.csv.gz"), data)


def family(options: argparse.Namespace) -> None:
    """All clusters of ITP under a predictor fitted to none of them: ``left out``.

    Test parts of the four that the library's predictor was fitted to, and the whole traces of the
    six others.
    """
    found = workloads(options.data, 1.0)
    names = tuple(name for name in found if not name.startswith("itp-"))
    data = {}
    for name in names:
        table, cluster, count = found[name]
        begun = table.window(0, int(SPLIT[1] * count))
        data[name] = gathered(name, begun, cluster, count, options.out)
    predictor = numbered(fitted(data, names, options.steps, options.seed))
    parts = {
        name: (table, cluster, slice(int(SPLIT[1] * count), None))
        for name, (table, cluster, count) in found.items()
        if name not in names
    }
    for name, ready in unseen_workloads(options.data):
        parts[name] = (ready.table, ready.cluster, slice(0, None))
    played: dict[str, Any] = {}
    for name, part in parts.items():
        played[name] = {"left out": of_part("learned", *part, predictor)}
        played[name] |= {rule: of_part(rule, *part) for rule in ("learned", *BARS)}
        report(f"{name}: { ({rule: round(row['avg_jct']) for rule, row in played[name].items()}) }")
    pairs = [("left out", bar) for bar in (*BARS, "learned")]
    rows = compared(played, pairs, {"itp": tuple(played)})
    write(options.out / "family.json", {"workloads": played, "compared": rows})
    tell(rows)


def unseen(options: argparse.Namespace) -> None:
    """The library's predictor on whole traces of clusters that had no part in making it."""
    played: dict[str, Any] = {}
    for name, ready in unseen_workloads(options.data):
        every = slice(0, None)
        played[name] = {
            rule: of_part(rule, ready.table, ready.cluster, every)
            for rule in ("learned", *BARS, "srtf", "fifo-skip")
        }
        played[name]["jobs"] = len(ready.table)
        played[name]["servers"] = ready.cluster.num_servers
        played[name]["load"] = ready.load
        shown = {rule: round(played[name][rule]["avg_jct"]) for rule in ("learned", *BARS)}
        report(f"{name}: {shown}")
    judged = read_json(JUDGED)["workloads"]
    units = {"unseen": UNSEEN, "real and unseen": (*REAL, *UNSEEN)}
    rows = compared({**judged, **played}, UNSEEN_PAIRS, units)
    write(options.out / "unseen.json", {"workloads": played, "compared": rows})
    tell(rows)
