"""F5, M and F7: heads, history length, prior mean, and load."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.das.common import (
    BASE,
    CLUSTERS,
    COMPARED,
    EPISODES,
    FEE,
    FRESH,
    INTERVALS,
    JCT,
    geometric_ratio,
    heuristics_on,
    label,
    mean_ratio,
    outcome,
    ratio_bars,
    recipe_of,
    study,
    test_tables,
    train,
    values_of,
)
from benchmarks.papers.lab import NONE, Changes, Lab
from benchmarks.papers.outcome import Outcome, Table, beside, not_tested, percent, show
from benchmarks.papers.samples import Sample, mean_of
from jaxsched.envs.das.learn import changed_kind, read_kind
from jaxsched.results.statistics import Interval

HEADS, HISTORY = (1, 2, 4, 8), (4, 6, 8, 10)
QUICK_HEADS, QUICK_HISTORY = (1, 4), (4, 8)
QUICK_CLUSTERS = ("small",)
WITHIN = 0.05
MEANS = ("learned", "zero")
WORDS = {JCT: "JCT (min)", FEE: "fee ($)"}
LOADS, QUICK_LOADS = ("low", "normal", "high"), ("low", "high")
PLAYED = (BASE, *COMPARED)


def heads_and_history(lab: Lab) -> Outcome:
    """F5, Fig. 5: each alone, the other as in the recipe."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    kind = recipe_of(lab, "DAS", clusters[0]).network
    _, usual = read_kind(kind)
    plain = f"heads {usual.heads}, history {usual.history}"
    sweeps = {
        name: {v: plain if v == getattr(usual, name) else f"{name} {v}" for v in values}
        for name, values in (
            ("heads", lab.choose(HEADS, QUICK_HEADS)),
            ("history", lab.choose(HISTORY, QUICK_HISTORY)),
        )
    }
    changes: dict[str, Changes] = {plain: NONE}
    for name, points in sweeps.items():
        changes |= {
            p: {"network": changed_kind(kind, **{name: v})} for v, p in points.items() if p != plain
        }
    samples = _changed(lab, clusters, changes)
    means = {
        metric: {point: _mean_of_clusters(samples, point, metric) for point in changes}
        for metric in (JCT, FEE)
    }
    ratios = {point: mean_ratio(samples, point, plain, JCT) for point in changes}
    table = Table(
        "DAS by heads and history: mean of the clusters; JCT over the recipe's, geometric mean",
        ["changed", "JCT (min)", "fee ($)", "ratio of JCT"],
        [[point, means[JCT][point], means[FEE][point], ratios[point]] for point in changes],
        digits=3,
    )
    worst = max(ratios, key=lambda point: abs(ratios[point] - 1.0))
    item = f"JCT at every point against the recipe's ({plain}); farthest, {worst}"
    checks = [beside(item, "close", abs(ratios[worst] - 1.0), shown=percent)]
    changes_of_mean = {p: mean / means[JCT][plain] - 1.0 for p, mean in means[JCT].items()}
    worst = max(changes_of_mean, key=lambda point: abs(changes_of_mean[point]))
    item = f"mean JCT, as drawn, at every point; farthest, {worst} ({changes_of_mean[worst]:+.1%})"
    checks.append(beside(item, "close", abs(changes_of_mean[worst]), shown=percent))
    for name, metric, paper in (("heads", FEE, "4"), ("history", JCT, "8")):
        found = {value: means[metric][point] for value, point in sweeps[name].items()}
        best = min(found, key=lambda value: found[value])
        checks.append(beside(f"{name} with the least {WORDS[metric]}", paper, str(best)))

    def draw(figure: Any) -> None:
        rows = figure.subplots(2, 2, sharex="col")
        for axes, metric in zip(rows, (JCT, FEE), strict=True):
            for place, (name, points) in zip(axes, sweeps.items(), strict=True):
                series = {"DAS": [means[metric][point] for point in points.values()]}
                words = {"x_label": name, "y_label": WORDS[metric]}
                figures.lines(place, list(points), series, **words)
                place.get_legend().remove()
                place.set_xticks(list(points))

    return outcome(lab, ("DAS",), [table], checks, values_of(samples), draw, EPISODES)


def prior_means(lab: Lab) -> Outcome:
    """M, section 10.4: the Gaussian process with a learned and with a zero prior mean."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    kind = recipe_of(lab, "DAS", clusters[0]).network
    changes = {
        name: NONE if other == kind else {"network": other}
        for name in MEANS
        for other in [changed_kind(kind, mean=name)]
    }
    samples = _changed(lab, clusters, changes)
    tables = test_tables(lab)
    for cluster in clusters:
        samples[cluster] |= heuristics_on(lab, (BASE, "random"), cluster, tables)
    cells: list[list[Any]] = [
        [cluster, name, *(geometric_ratio(row[name], row[BASE], m) for m in (JCT, FEE))]
        for cluster, row in samples.items()
        for name in row
        if name != BASE
    ]
    title = "DAS by prior mean: JCT and fee over FIFO-LoadBalance's, geometric means"
    checks = [
        beside(
            f"{cluster}: JCT, zero mean over learned",
            "-",
            show(geometric_ratio(row["zero"], row["learned"], JCT), 3),
        )
        for cluster, row in samples.items()
    ]

    def draw(figure: Any) -> None:
        for axes, metric in zip(figure.subplots(1, 2), (JCT, FEE), strict=True):
            names = [name for name in samples[clusters[0]] if name != BASE]
            ratio_bars(axes, samples, names, metric, "JCT" if metric == JCT else "fee")

    table = Table(title, ["cluster", "prior mean", "JCT", "fee"], cells, digits=3)
    return outcome(lab, ("DAS",), [table], checks, values_of(samples), draw, EPISODES)


def _changed(
    lab: Lab, clusters: Sequence[str], changes: Mapping[str, Changes]
) -> dict[str, dict[str, Sample]]:
    """DAS on the test episodes by cluster and point, each point with its changes of the recipe."""
    trained = lab.train_all(
        {
            label("DAS", cluster, point): study(lab, "DAS", cluster, change)
            for cluster in clusters
            for point, change in changes.items()
        }
    )
    tables = test_tables(lab)
    return {
        c: {point: lab.play(trained[label("DAS", c, point)], tables) for point in changes}
        for c in clusters
    }


def _mean_of_clusters(samples: dict[str, dict[str, Sample]], name: str, metric: str) -> float:
    return float(np.mean([row[name][metric].mean() for row in samples.values()]))


def loads(lab: Lab) -> Outcome:
    """F7, Fig. 7: the same policies on fresh episodes of each load."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    trained = train(lab, COMPARED, clusters)
    samples: dict[str, dict[str, Sample]] = {}
    gains: dict[str, dict[str, Interval]] = {}
    levels = lab.choose(LOADS, QUICK_LOADS)
    rows: list[list[Any]] = []
    episodes = {load: test_tables(lab, load, shipped=False) for load in levels}
    for load, tables in episodes.items():
        for cluster in clusters:
            lab.say(f"playing {load} load on the {cluster} cluster")
            played = heuristics_on(lab, (BASE,), cluster, tables)
            played |= {name: lab.play(p, tables) for name, p in trained[cluster].items()}
            key = f"{load}, {cluster}"
            samples[key] = played
            gains[key] = {
                metric: _gain(geometric_ratio(played["DAS"], played["RIFLING"], metric))
                for metric in (JCT, FEE)
            }
            cells = [mean_of(played[n], m) for m in (JCT, FEE) for n in PLAYED]
            rows.append([key, *cells, *(gains[key][m] for m in (JCT, FEE))])
    table = Table(
        "by load: mean JCT (min), fee ($); gain of DAS over RIFLING, 1 - geometric mean of ratios",
        ["load", *PLAYED, *(f"{name}, $" for name in PLAYED), "gain of JCT", "gain of fee"],
        rows,
        digits=3,
    )
    mean = {
        metric: {
            load: float(np.mean([gains[f"{load}, {c}"][metric].estimate for c in clusters]))
            for load in levels
        }
        for metric in (JCT, FEE)
    }
    more = mean[JCT]["high"] - mean[JCT]["low"]
    item = "gain of JCT at high load less that at low, mean of the clusters"
    checks = [beside(item, "grows with load", more, shown=percent)]
    if "normal" in levels:
        most = max(levels, key=lambda load: mean[FEE][load])
        checks.append(beside("load with the largest gain of fee", "normal", most))
    else:
        why = "normal load was not played"
        checks.append(not_tested("load with the largest gain of fee", "normal", why))
    minutes = {load: _minutes(samples, load, clusters) for load in levels}
    words = ", ".join(f"{load} {show(value)}" for load, value in minutes.items())
    checks.append(beside("minutes less than RIFLING, mean of the clusters", "grows", words))

    def draw(figure: Any) -> None:
        for axes, metric in zip(figure.subplots(1, 2), (JCT, FEE), strict=True):
            series = {c: [gains[f"{load}, {c}"][metric] for load in levels] for c in clusters}
            what = "JCT" if metric == JCT else "fee"
            figures.bars(axes, levels, series, y_label=f"gain of {what} over RIFLING")

    notes = (
        f"{len(episodes[levels[0]])} fresh episodes of each load; {FRESH}; {INTERVALS}",
        f"trained on {recipe_of(lab, 'DAS', clusters[0]).traces.train}, normal load",
    )
    return outcome(lab, COMPARED, [table], checks, values_of(samples), draw, *notes)


def _gain(ratio: Interval) -> Interval:
    """By which share a ratio is below 1."""
    return Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low, ratio.level)


def _minutes(samples: dict[str, dict[str, Sample]], load: str, clusters: Any) -> float:
    rows = [samples[f"{load}, {cluster}"] for cluster in clusters]
    return float(np.mean([row["RIFLING"][JCT].mean() - row["DAS"][JCT].mean() for row in rows]))
