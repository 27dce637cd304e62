"""What the rows of Chic share: arrival rates, studies, the two policies and their rivals."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.papers.lab import NONE, Changes, Lab, Study
from benchmarks.papers.outcome import Check, beside, percent
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import Sample, below
from benchmarks.papers.settings import Workload
from jaxsched.envs.chic.show.paper import REDUCTION

RATES = (0.9, 1.35, 1.8, 2.25, 2.7)
QUICK_RATES = (0.9, 1.8, 2.7)
RATE = 1.8
ACT = "avg_jct"
PRESETS = {"chic": "quick", "chic_pair": "quick-pair"}
CHOICE = (
    "policies are chosen on validation tables; the test tables come from a seed that is used for "
    "nothing else; intervals are 95 % bootstraps over seeds and tables"
)


def workload(rate: float) -> Workload:
    """The paper's workload at an arrival rate per hour."""
    return Workload(f"chic-{rate:.2f}")


def study(lab: Lab, name: str, rate: float, changes: Changes = NONE) -> Study:
    """``chic`` or ``chic_pair`` at a rate, the recipe perhaps changed."""
    recipe = lab.recipe(PRESETS[name], changes)
    trace = workload(rate).trace
    traces = recipe.traces._replace(train=trace, test=trace, validation=trace)
    return Study(replace(recipe, traces=traces), workload(rate))


def label(name: str, rate: float, what: str = "") -> str:
    """Of a training, for people."""
    return f"{name} at {rate:g} /h{', ' if what else ''}{what}"


def train_both(lab: Lab, rate: float = RATE) -> dict[str, Policies]:
    """Chic and Chic-Pair at one rate, by name."""
    studies = {label(name, rate): study(lab, name, rate) for name in PRESETS}
    trained = lab.train_all(studies)
    return {name: trained[label(name, rate)] for name in PRESETS}


def rivals(lab: Lab, tables: Any, *, names: tuple[str, ...] = ()) -> dict[str, Sample]:
    """The rule-based policies on these tables; those of Chic-Pair end in ``, pair``.

    Args:
      lab: where they play.
      tables: test tables.
      names: only these, if any are given.
    """
    env = lab.recipe(PRESETS["chic"]).env
    pair = lab.recipe(PRESETS["chic_pair"]).env
    everyone = {
        "optimus": ("optimus", env),
        "optimus_300": ("optimus_300", env),
        "random": ("random", env),
        "random, pair": ("random", pair),
        "round_robin, pair": ("round_robin", pair),
        "optimus_event": ("optimus_event", env),
        "search": ("search", env),
        "search, pair": ("search", pair),
    }
    return lab.heuristics({name: everyone[name] for name in names or everyone}, tables)


def reductions(samples: Mapping[float, Mapping[str, Sample]]) -> list[Check]:
    """How far Chic and Chic-Pair are below Optimus, at the rate where that is least."""
    checks = []
    for name, paper in REDUCTION.items():
        gains = {rate: below(row[name], row["optimus"], ACT) for rate, row in samples.items()}
        rate = min(gains, key=lambda r: gains[r].estimate)
        checks.append(
            beside(
                f"{name} below Optimus at every rate; least, at {rate:g} /h",
                f">= {percent(paper)}",
                gains[rate],
                shown=percent,
            )
        )
    return checks
