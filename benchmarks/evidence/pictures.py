"""Pictures of the pages: a policy against the best rule by congestion."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.judge import by_tenth
from benchmarks.evidence.parts import Contest
from benchmarks.evidence.sources import plays
from benchmarks.papers import figures
from benchmarks.papers.samples import hundred


def by_congestion(path: Path, contest: Contest) -> None:
    """Change of every metric, from the quietest to the most congested tenth."""
    played, learned = plays(contest.learned.file, contest.learned.part), contest.learned.policy

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(contest.metrics), squeeze=False)[0]
        for axes, metric in zip(panels, contest.metrics, strict=True):
            found = by_tenth(played, learned, contest.rule, contest.ranked_by, metric)
            points = [hundred(v.change) for _, v in found]
            tenths = range(1, len(points) + 1)
            axes.axhline(0.0, color=figures.LEVEL_COLOUR, linewidth=1.0)
            figures.lines(
                axes,
                list(tenths),
                {learned: points},
                x_label="tenth by congestion",
                y_label=f"change against {contest.rule} (%)",
                title=played.metrics[metric]["label"],
            )
            figures.no_legend(axes)

    figures.save(path, draw)


def learning(path: Path, file: str) -> None:
    """The validation score over the training: mean, least and most of the seeds."""
    curve = plays(file).curve
    assert curve is not None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        length = min(len(series["y"]) for series in curve["series"])
        x = np.mean([series["x"][:length] for series in curve["series"]], axis=0)
        y = np.array([series["y"][:length] for series in curve["series"]])
        label = "one seed" if len(y) == 1 else f"mean of {len(y)} seeds, least and most"
        axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=figures.COLOURS[0], alpha=0.2)
        figures.curves(
            axes,
            {label: list(zip(x, y.mean(axis=0), strict=True))},
            x_label=curve["x_label"],
            y_label=curve["y_label"],
        )

    figures.save(path, draw)
