"""M: one policy for all arrival rates, by imitation and whole-episode search."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.chic.common import ACT, QUICK_RATES, RATES, reductions, rivals, workload
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, change, hundred, mean_of, plain
from benchmarks.papers.settings import Workload

PRESETS = {"chic": "search", "chic_pair": "search-pair"}
RULES = {"chic": "search", "chic_pair": "search, pair"}
TRACE = Workload("chic-mixed")
NOTE = (
    "trained and chosen on sequences of all rates together; tested on sequences of a seed that is "
    "used for nothing else; intervals are 95 % bootstraps over seeds and sequences"
)


def one_policy(lab: Lab) -> Outcome:
    """One policy and one of pairs, at every rate, against Optimus and the best rules."""
    rates = lab.choose(RATES, QUICK_RATES)
    studies = {name: Study(lab.recipe(preset), TRACE) for name, preset in PRESETS.items()}
    trained = lab.train_all(studies)
    samples: dict[float, dict[str, Sample]] = {}
    for rate in rates:
        tables = lab.test_tables(workload(rate), studies["chic"].recipe)
        learned = {name: lab.play(trained[name], tables) for name in PRESETS}
        samples[rate] = learned | rivals(
            lab, tables, names=("optimus", "optimus_event", "search", "search, pair")
        )
    others = [name for name in next(iter(samples.values())) if name != "optimus"]
    table = Table(
        "completion time against Optimus every 600 s (%)",
        ["rate /h", "Optimus (s)", *others],
        [
            [
                f"{rate:g}",
                mean_of(row["optimus"], ACT),
                *(hundred(change(row[name], row["optimus"], ACT)) for name in others),
            ]
            for rate, row in samples.items()
        ],
        digits=2,
    )
    paired = Table(
        "learned against the best rule of its actions (%)",
        ["rate /h", *PRESETS],
        [
            [f"{rate:g}", *(hundred(change(row[n], row[RULES[n]], ACT)) for n in PRESETS)]
            for rate, row in samples.items()
        ],
        digits=2,
    )

    def draw(figure: Any) -> None:
        shares: dict[str, figures.Points] = {
            name: [hundred(change(row[name], row["optimus"], ACT)) for row in samples.values()]
            for name in others
        }
        axes = figure.subplots()
        figures.lines(
            axes, list(samples), shares, x_label="workloads per hour", y_label="against Optimus (%)"
        )

    values = {f"{rate:g}": {n: plain(s) for n, s in row.items()} for rate, row in samples.items()}
    return Outcome([table, paired], _checks(samples), values, draw, [NOTE])


def _checks(samples: dict[float, dict[str, Sample]]) -> list[Check]:
    checks = reductions(samples)
    for name, rule in RULES.items():
        over = {rate: change(row[name], row[rule], ACT) for rate, row in samples.items()}
        rate = max(over, key=lambda r: over[r].estimate)
        item = f"{name} over {rule}; largest, at {rate:g} /h"
        checks.append(beside(item, "-", percent(over[rate])))
    return checks
