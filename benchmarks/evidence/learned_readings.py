"""Readings of a paper's text, each learnt by the paper's own method: tables and learning curves.

Axes: ``S`` seeds, ``E`` episodes, ``V`` validations.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.judge import verdict
from benchmarks.evidence.parts import LearnedReadings
from benchmarks.evidence.sources import Plays, plays, read
from benchmarks.papers import figures
from benchmarks.readings import NEW
from benchmarks.scripts import table
from jaxsched.errors import counted
from jaxsched.pictures import COLOURS
from jaxsched.report.summary import labelled
from jaxsched.results.statistics import Interval
from jaxsched.systems import functions, registry

NOT_RUN = "Readings that were not run, for want of time: {}."


def sections(given: LearnedReadings, picture: str) -> Iterator[str]:
    """All of it, under a heading."""
    study, document = given.study, read(given.file)
    told = document["readings"]
    yield from ["## The paper's recipe under each reading of its text", given.told]
    for world in study.worlds:
        played = plays(given.file, world)
        if words := given.worlds.get(world):
            yield words
        yield _table(given, played, told)
    if missing := [name for name in study.readings if name not in told]:
        yield NOT_RUN.format("; ".join(missing))
    minutes = sum(one["wall_s"] for one in told.values()) / 60
    cost = f"{minutes:.0f} minutes of training and validation, all seeds, {document['device']}"
    cores = counted(document["cores"], "core")
    yield f"`{played.command}`; file `{given.file}`; {cost}, the last reading on {cores}."
    metric = functions.metric(registry.get(study.system), study.shown)
    yield f"![{metric.label} on the validation episodes over the updates]({picture})"


def _table(given: LearnedReadings, played: Plays, told: dict[str, Any]) -> str:
    """Readings of one world, the best first, and the rules."""
    study, metrics = given.study, played.metrics
    head = ["reading", "seeds", labelled(metrics[study.shown])]
    head += [f"against `{rival}`" for rival in given.rivals]
    head += [labelled(metrics[metric]) for metric in given.more]
    before = study.start.removeprefix(", ")
    head += [f"{before}, against `{given.rivals[0]}`", "validation: first, last"]
    head += ["update chosen", "updates run"]
    sign = played.sign(study.shown)
    learned = [name for name in told if name in played.values]
    rows = [
        [
            name,
            str(len(told[name]["chosen"])),
            *_cells(given, played, name),
            *_training(given, played, told, name),
        ]
        for name in sorted(learned, key=lambda name: -sign * _mean(played, name, study.shown))
    ]
    for other in study.others:
        words = f"`{other}`" + (" (our recipe, `--preset search`)" if other == study.ours else "")
        seeds = str(len(played.of(other, study.shown))) if other in (study.ours, NEW) else "-"
        rows.append([words, seeds, *_cells(given, played, other), "-", "-", "-", "-"])
    return table(head, rows)


def _cells(given: LearnedReadings, played: Plays, name: str) -> list[str]:
    shown = given.study.shown
    changes = [
        "-" if name == rival else _per_cent(verdict(played, name, rival, shown).change)
        for rival in given.rivals
    ]
    return [
        _shown(played, name, shown),
        *changes,
        *(_shown(played, name, metric) for metric in given.more),
    ]


def _training(given: LearnedReadings, played: Plays, told: dict[str, Any], name: str) -> list[str]:
    rival, shown = given.rivals[0], given.study.shown
    before = verdict(played, f"{name}{given.study.start}", rival, shown).change
    chosen = ", ".join(map(str, told[name]["chosen"]))
    curve, digits = told[name]["validation"], played.metrics[shown]["digits"]
    ends = ", ".join(f"{np.mean(curve[at]):,.{digits}f}" for at in (0, -1))
    return [_per_cent(before), ends, chosen, str(told[name]["updates"][-1])]


def _mean(played: Plays, name: str, metric: str) -> float:
    return float(played.of(name, metric).mean())


def _shown(played: Plays, name: str, metric: str) -> str:
    return f"{_mean(played, name, metric):,.{played.metrics[metric]['digits']}f}"


def _per_cent(change: Interval) -> str:
    estimate, low, high = (100 * x for x in (change.estimate, change.low, change.high))
    return f"{estimate:+.2f} % [{low:+.2f}, {high:+.2f}]"


def draw(path: Path, given: LearnedReadings) -> None:
    """The metric of the choice on the validation episodes over the updates, mean of the seeds."""
    from matplotlib.ticker import ScalarFormatter

    told, study = read(given.file)["readings"], given.study
    metric = functions.metric(registry.get(study.system), study.shown)

    def on(figure: Any) -> None:
        axes = figure.subplots()
        lines = {
            name: list(zip(one["updates"], np.mean(one["validation"], axis=1), strict=True))
            for name, one in told.items()
        }
        unit = f" ({metric.unit})" if metric.unit else ""
        figures.curves(axes, lines, x_label="updates", y_label=f"{metric.label}, validation{unit}")
        shown = axes.get_legend().legend_handles
        for line, beside in list(zip(axes.lines, shown, strict=False))[len(COLOURS) :]:
            line.set_linestyle("--")
            beside.set_linestyle("--")
        if metric.better == "lower":
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(ScalarFormatter())
            axes.yaxis.set_minor_formatter(ScalarFormatter())

    figures.save(path, on)
