"""Readings of Chic's text, each learnt by the paper's own method: a table and learning curves.

Axes: ``S`` seeds, ``E`` sequences, ``V`` validations.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chic_readings import NUM_TEST, OTHERS, OURS, READINGS, SHOWN
from benchmarks.evidence.judge import verdict
from benchmarks.evidence.recipes import UNTRAINED
from benchmarks.evidence.sources import Plays, plays, read
from benchmarks.papers import figures
from benchmarks.scripts import table
from jaxsched.pictures import COLOURS
from jaxsched.results.statistics import Interval

RIVALS = ("optimus", "search")
RATE = "1.8"
OF_CHANGES = ("masked", "unpenalised")
"""Words of readings that change the text."""

TOLD = (
    "`--preset paper` under each reading of the text; `benchmarks/chic_readings.py` says what each "
    "is, and had the list before any was run. The weights are those of least completion time on 30 "
    "validation sequences, every ten updates; a seed ends after 60 updates without a gain, or at "
    f"400. They are judged once, on {NUM_TEST} sequences at 1.8 workloads per hour that nothing "
    "was chosen on. *update chosen* is per seed, 0 the untrained network. *masked* and "
    "*unpenalised* are changes of the text, not readings."
)
NOT_RUN = "Readings that were not run, for want of time: {}."


def sections(file: str, picture: str) -> Iterator[str]:
    """All of it, under a heading."""
    yield from ["## The paper's recipe under each reading of its text", TOLD]
    played, told = plays(file, RATE), read(file)["readings"]
    head = ["reading", "seeds", "JCT (s)", *(f"against `{rival}`" for rival in RIVALS)]
    head += ["untrained, against `optimus`", "update chosen", "updates run"]
    rows = [
        [
            name,
            str(len(told[name]["chosen"])),
            *_cells(played, name),
            *_training(played, told, name),
        ]
        for name in sorted(told, key=lambda name: float(played.of(name, SHOWN).mean()))
    ]
    for other in OTHERS:
        words = f"`{other}`" + (" (our recipe, `--preset search`)" if other == OURS else "")
        rows.append([words, "1" if other == OURS else "-", *_cells(played, other), "-", "-", "-"])
    yield table(head, rows)
    if missing := [name for name in READINGS if name not in told]:
        yield NOT_RUN.format("; ".join(missing))
    yield f"`{played.command}`; file `{file}`."
    yield f"![validation completion time over the updates]({picture})"


def _cells(played: Plays, name: str) -> list[str]:
    changes = [
        "-" if name == rival else _per_cent(verdict(played, name, rival, SHOWN).change)
        for rival in RIVALS
    ]
    return [f"{played.of(name, SHOWN).mean():,.1f}", *changes]


def _training(played: Plays, told: dict[str, Any], name: str) -> list[str]:
    before = verdict(played, f"{name}{UNTRAINED}", RIVALS[0], SHOWN).change
    chosen = ", ".join(map(str, told[name]["chosen"]))
    return [_per_cent(before), chosen, str(told[name]["updates"][-1])]


def _per_cent(change: Interval) -> str:
    estimate, low, high = (100 * x for x in (change.estimate, change.low, change.high))
    return f"{estimate:+.2f} % [{low:+.2f}, {high:+.2f}]"


def draw(path: Path, file: str) -> None:
    """Completion time on the validation sequences over the updates, mean of the seeds."""
    told = read(file)["readings"]

    def on(figure: Any) -> None:
        axes = figure.subplots()
        lines = {
            name: list(zip(one["updates"], np.mean(one["validation"], axis=1), strict=True))
            for name, one in told.items()
        }
        figures.curves(axes, lines, x_label="updates", y_label="completion time, validation (s)")
        for line in axes.lines[len(COLOURS) :]:
            line.set_linestyle("--")
        axes.set_yscale("log")

    figures.save(path, on)
