"""The tables of ``docs/results/leaderboard_learned.md``, made from the files of results."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rigid_learned.parts import words
from benchmarks.rigid_learned.tails import CHOSEN, LIBRARY, SHOWN
from benchmarks.scripts import read_json, table
from jaxsched.results.statistics import ratio_interval

RESULTS = Path(__file__).parents[1] / "results"
KNOWING = ("sjf", "srtf")
"""Rules that know run times."""
JUDGED = ("learned", "tiresias-decades", "las-decades", "2d-gittins", "qssf", "sjf")
TRANSFER = ("left out", "alone", *JUDGED)
UNSEEN = (*JUDGED, "srtf")
FAMILY = ("left out", "learned", "tiresias-decades", "las-decades")
REDRAWN = ("bound", "learned", "tiresias-decades", "2d-gittins", "qssf", "srtf", "knowing")
LABELLED = {"bound": "**bound**", "srtf": "srtf*", "knowing": "**bound, run times known**"}
TAILS = ("mean JCT", "p99 JCT", "p99 slowdown", "worst virtual cluster")
LABELS = {"real": "{} real", "all": "{} in all", "unseen": "{} unseen", "itp": "{} of ITP"}
LABELS |= {"real and unseen": "{} (test parts and unseen)"}


def found(name: str) -> Any:
    """What a command has found; ``name`` is empty for ``judge``."""
    return read_json(RESULTS / f"rigid_learned{name}_cpu2.json.xz")


def means(played: Mapping[str, Any], rules: Sequence[str], facts: Sequence[str] = ()) -> str:
    """Mean JCTs in seconds, a row a workload; ``*`` knows run times.

    Args:
      played: workload -> rule -> figures, and facts of the workload.
      rules: the columns.
      facts: columns before them.
    """
    head = ["", *facts, *(f"{rule}*" if rule in KNOWING else rule for rule in rules)]
    rows = [
        [name, *(f"{rows[fact]:,}" for fact in facts), *(_jct(rows, rule) for rule in rules)]
        for name, rows in played.items()
    ]
    return table(head, rows)


def _jct(rows: Mapping[str, Any], rule: str) -> str:
    return f"{rows[rule]['avg_jct']:,.0f}" if rule in rows else "-"


def ratios(rows: Sequence[Mapping[str, Any]]) -> str:
    """What ``parts.compared`` has found."""
    head = ["", "workloads", "ratio", "bootstrap", "t", "lower in", "p"]
    lines = [
        [
            f"`{row['learned']}` over `{row['rule']}`",
            LABELS[row["units"]].format(row["workloads"]),
            f"{row['ratio']:.3f}",
            words(row["bootstrap"]),
            words(row["t"]),
            str(row["below"]),
            f"{row['sign_p']:.4f}",
        ]
        for row in rows
    ]
    return table(head, lines)


def tails_table(document: Mapping[str, Any]) -> str:
    """Ratios to the shipped numbers, on validation parts and, of one number, on test parts."""
    shown = {k: row for k, row in document["ratios"].items() if k != LIBRARY}
    tested = f"power {CHOSEN:g}"
    shown[f"{tested}, test parts of all {len(document['test'][tested])}"] = document["test_ratios"][
        tested
    ]
    rows = [[label, *(f"{row[of]:.3f}" for of in SHOWN)] for label, row in shown.items()]
    return table(["", *TAILS], rows)


def redrawn_table(played: Mapping[str, Any]) -> str:
    """Means over the mean of ``sjf`` on the same draws, with intervals over draws."""
    rows = [
        [
            name,
            f"{np.mean(row['avg_jct']['sjf']):,.0f}",
            *(over_sjf(row["avg_jct"], each) for each in REDRAWN),
        ]
        for name, row in played.items()
    ]
    return table(["", "sjf* (s)", *(LABELLED.get(each, each) for each in REDRAWN)], rows)


def over_sjf(means: Mapping[str, Sequence[float]], rule: str) -> str:
    """The ratio of the means over draws."""
    ratio = ratio_interval(means[rule], means["sjf"])
    return f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def turned(played: Mapping[str, Any], rules: Sequence[str]) -> str:
    """Mean JCTs in seconds, a row a rule, workloads by name."""
    names = sorted(played)
    rows = [[rule, *(_jct(played[name], rule) for name in names)] for rule in rules]
    return table(["", *names], rows)


def all_tables() -> dict[str, str]:
    """Every table of the page: what it is -> Markdown."""
    judged, transferred, unseen = found(""), found("_transfer"), found("_unseen")
    family = found("_family")
    left_out = [row for row in transferred["compared"] if row["learned"] in ("left out", "alone")]
    return {
        "judge": means(judged["workloads"], JUDGED),
        "judge, ratios": ratios(judged["compared"]),
        "transfer": means(transferred["workloads"], TRANSFER),
        "transfer, ratios": ratios(left_out),
        "family": turned(family["workloads"], FAMILY),
        "family, ratios": ratios(family["compared"]),
        "unseen": means(unseen["workloads"], UNSEEN, ("jobs", "servers")),
        "unseen, ratios": ratios(unseen["compared"]),
        "redrawn": redrawn_table(found("_redrawn")["workloads"]),
        "tails": tails_table(found("_tails")),
    }


def tables(options: argparse.Namespace) -> None:
    """Print them."""
    del options
    for name, text in all_tables().items():
        print(f"{name}\n\n{text}\n")
