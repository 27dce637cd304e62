"""What the rows of DAS share: clusters, recipes, studies, test tables, ratios."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.lab import NONE, Changes, Lab, Study
from benchmarks.papers.outcome import Outcome
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import Sample, plain
from benchmarks.papers.settings import CutWorkload
from jaxsched import traces
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.jobs import CLUSTERS as NUM_SERVERS
from jaxsched.envs.das.learn import changed_kind
from jaxsched.envs.das.learn.presets import QUICK
from jaxsched.envs.das.show.paper import BASE as BASE
from jaxsched.envs.das.show.paper import HEURISTICS as HEURISTICS
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.results.statistics import Interval, paired_difference
from jaxsched.systems.recipe import Recipe

CLUSTERS = tuple(NUM_SERVERS)
JCT, FEE = "avg_jct_min", "avg_fee"
IMITATION_ONLY: Changes = {"mappo.skip": True}
LEARNED: Mapping[str, tuple[str, Changes]] = {
    "DL2": ("dl2", NONE),
    "RIFLING": ("rifling", NONE),
    "DA": ("quick", {**IMITATION_ONLY, "network": changed_kind(QUICK.network, variant="DA")}),
    "DA+MC": ("quick", {**IMITATION_ONLY, "network": changed_kind(QUICK.network, variant="DA+MC")}),
    "DA+RWGP": (
        "quick",
        {**IMITATION_ONLY, "network": changed_kind(QUICK.network, variant="DA+RWGP")},
    ),
    "DAS": ("quick", IMITATION_ONLY),
}
"""Preset and changes of each learned policy.

DAS and its parts imitate the linear rule and stop there: what MAPPO makes of them is not better, at
twice the time (``jaxsched train das --preset quick`` has that stage).
"""

COMPARED = ("RIFLING", "DAS")
"""The learned policies of the rows that compare two."""

NUM_SHIPPED, NUM_FRESH = 4, 8
LEAST = NUM_SHIPPED + NUM_FRESH
"""Episodes of Table 1's ratios at least (section 12.1)."""

NUM_MORE, MORE_SEED = 52, 7302
"""Further fresh episodes, of a seed used nowhere else: fees of episodes scatter by one per cent, of
which the conditions ask for a half, so twelve episodes are few."""

FRESH = "fresh test episodes are from a seed that is used for nothing else"
INTERVALS = "intervals are 95 % bootstraps over seeds and episodes"
EPISODES = f"the test episodes are the four shipped ones and fresh ones; {FRESH}; {INTERVALS}"
CHOICE = (
    "policies are chosen on validation tables, of which half are other windows of the stream that "
    "is learnt on"
)


SHIPPED = CutWorkload("das-test")


def recipe_of(lab: Lab, policy: str, cluster: str, changes: Changes = NONE) -> Recipe:
    """The recipe of a learned policy on a cluster.

    Args:
      lab: with the settings.
      policy: one of ``LEARNED``.
      cluster: one of ``CLUSTERS``.
      changes: after all others.
    """
    preset, own = LEARNED[policy]
    suffix = "" if cluster == CLUSTERS[0] else f"-{cluster}"
    recipe: Recipe = lab.recipe(preset + suffix, {**own, **changes})
    return recipe


def study(lab: Lab, policy: str, cluster: str, changes: Changes = NONE) -> Study:
    """A learned policy on a cluster, its recipe perhaps changed."""
    recipe = recipe_of(lab, policy, cluster, changes)
    names = recipe.traces
    return Study(recipe, CutWorkload(names.train), CutWorkload(names.validation or names.train))


def label(policy: str, cluster: str, *what: str) -> str:
    """Of a training, for people."""
    return ", ".join([policy, cluster, *what])


def train(
    lab: Lab, policies: Sequence[str], clusters: Sequence[str]
) -> dict[str, dict[str, Policies]]:
    """Learned policies by cluster and name."""
    studies = {label(p, c): study(lab, p, c) for c in clusters for p in policies}
    trained = lab.train_all(studies)
    return {c: {p: trained[label(p, c)] for p in policies} for c in clusters}


def cluster_env(lab: Lab, cluster: str) -> DAS:
    """The environment in which policies are tested on a cluster."""
    env: DAS = recipe_of(lab, "DAS", cluster).env
    return env


def test_tables(lab: Lab, load: str = "normal", *, shipped: bool = True) -> list[JobTable]:
    """The episodes that rows play.

    Args:
      lab: with the settings; ``num_test`` is the number of fresh episodes.
      load: of the fresh episodes: low, normal or high.
      shipped: begin with the four shipped episodes.
    """
    count, num_jobs = lab.settings.num_test or NUM_FRESH, lab.settings.num_jobs
    parts = {f"das-{load}": CutWorkload(f"das-{load}").tables("test", count, num_jobs)}
    if shipped:
        parts = {SHIPPED.trace: SHIPPED.tables("test", NUM_SHIPPED, num_jobs)} | parts
    for name, tables in parts.items():
        words = f"{name}, test, {len(tables)} of {len(tables[0])} jobs"
        lab.digests[words] = digest_tables(tables)
    return [table for tables in parts.values() for table in tables]


def more_tables(count: int = NUM_MORE, num_jobs: int | None = None) -> list[JobTable]:
    """Fresh episodes beyond those of the other rows."""
    return traces.get("das-normal", seed=MORE_SEED, num_traces=count, num_jobs=num_jobs)


def heuristics_on(
    lab: Lab, names: Sequence[str], cluster: str, tables: Sequence[JobTable]
) -> dict[str, Sample]:
    """Heuristics on test episodes."""
    env = cluster_env(lab, cluster)
    lab.say(f"heuristics on the {cluster} cluster")
    return lab.heuristics({name: (name, env) for name in names}, tables)


def first_episodes(sample: Sample, count: int) -> Sample:
    """The sample's first episodes."""
    return {name: values[:, :count] for name, values in sample.items()}


def geometric_ratio(sample: Sample, base: Sample, metric: str) -> Interval:
    """Geometric mean of the ratios per episode, with its 95 % interval over seeds and episodes.

    Of samples of different numbers of episodes the first ones are compared.
    """
    count = min(sample[metric].shape[1], base[metric].shape[1])
    gap = paired_difference(np.log(sample[metric][:, :count]), np.log(base[metric][:, :count]))
    low, middle, high = (float(np.exp(x)) for x in (gap.low, gap.estimate, gap.high))
    return Interval(middle, low, high, gap.level)


def mean_ratio(
    samples: Mapping[str, Mapping[str, Sample]], policy: str, base: str, metric: str
) -> float:
    """Mean over clusters of the geometric ratios of two policies."""
    ratios = [geometric_ratio(s[policy], s[base], metric).estimate for s in samples.values()]
    return float(np.mean(ratios))


def ratio_bars(
    axes: Any,
    samples: Mapping[str, Mapping[str, Sample]],
    names: Sequence[str],
    metric: str,
    what: str,
    *,
    slant: bool = False,
) -> dict[str, list[Interval]]:
    """Draw policies' geometric ratios to FIFO-LoadBalance, bars by cluster; they are returned."""
    series = {
        cluster: [geometric_ratio(row[name], row[BASE], metric) for name in names]
        for cluster, row in samples.items()
    }
    axes.axhline(1.0, color=figures.LEVEL_COLOUR, linewidth=0.8, linestyle=":")
    figures.bars(axes, names, series, y_label=f"{what} over FIFO-LoadBalance's", slant=slant)
    return series


def values_of(samples: Mapping[str, Mapping[str, Sample]]) -> dict[str, Any]:
    """JSON-able."""
    return {c: {name: plain(s) for name, s in row.items()} for c, row in samples.items()}


def outcome(
    lab: Lab,
    policies: Sequence[str],
    tables: Sequence[Any],
    checks: Sequence[Any],
    values: Any,
    draw: Any,
    *notes: str,
) -> Outcome:
    """An outcome that says how its learned policies were trained and chosen."""
    return Outcome(
        tables, checks, values, draw, [*notes, CHOICE, *(trained_as(lab, p) for p in policies)]
    )


def trained_as(lab: Lab, policy: str) -> str:
    """What differs from the paper's recipe, in words; by cluster where clusters differ."""
    departures = lab.system.recipes.departures.of
    recipes = {cluster: recipe_of(lab, policy, cluster) for cluster in CLUSTERS}
    words = {cluster: "; ".join(departures(recipe)) for cluster, recipe in recipes.items()}
    if len(set(words.values())) == 1:
        return f"{policy}: {words[CLUSTERS[0]]}"
    return " | ".join(f"{policy}, {cluster}: {text}" for cluster, text in words.items())
