"""T1: completion time and fee of all policies on the three clusters (Table 1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks.papers.das.common import (
    BASE,
    CLUSTERS,
    EPISODES,
    FEE,
    HEURISTICS,
    JCT,
    LEARNED,
    LEAST,
    MORE_SEED,
    NUM_SHIPPED,
    first_episodes,
    geometric_ratio,
    heuristics_on,
    mean_ratio,
    more_tables,
    outcome,
    ratio_bars,
    test_tables,
    train,
    values_of,
)
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested, show
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import Sample, mean_of
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learn.policies import init_weights
from jaxsched.envs.das.show import paper as published
from jaxsched.envs.das.show.paper import TABLE_1
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.results.statistics import ratio_interval
from jaxsched.types import PyTree

WITHOUT_WEIGHTS = (*HEURISTICS, "linear", "random")
UNTRAINED = "untrained"
SLOW_EPISODES = {
    "mosa": {"small": LEAST, "medium": LEAST, "large": LEAST},
    "malo": {"small": NUM_SHIPPED, "medium": 2, "large": 1},
}
"""How many the meta-heuristics play, which take up to half a minute (MOSA) and seven minutes (MALO)
each."""

QUICK_SLOW_EPISODES = {"mosa": {"small": LEAST}, "malo": {"small": 1}}
QUICK_CLUSTERS = ("small",)
METRICS = {"JCT": JCT, "fee": FEE}
UNITS = {"JCT": "completion time (min)", "fee": "fee ($)"}

Samples = Mapping[str, Mapping[str, Sample]]
"""By cluster and policy."""


def table_1(lab: Lab) -> Outcome:
    """T1, Table 1."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    trained = train(lab, tuple(LEARNED), clusters)
    more = _more_tables(lab)
    tables = [*test_tables(lab), *more]
    samples = {}
    for cluster in clusters:
        samples[cluster] = _play(lab, cluster, tables, trained[cluster])
        jax.clear_caches()  # compiled programs of one cluster are of no use on another
    shown = [
        *(_means(samples, name) for name in METRICS),
        _shipped(samples),
        *(_ratios(samples, name) for name in METRICS),
    ]
    few = "; ".join(
        f"{name}: {', '.join(f'{min(n, len(tables))} ({c})' for c, n in counts.items())}"
        for name, counts in _slow_episodes(lab).items()
    )
    notes = [f"meta-heuristics are compared on the first of {len(tables)} episodes ({few})"]
    if more:
        notes.append(f"the last {len(more)} episodes are drawn from seed {MORE_SEED}")

    def draw(figure: Any) -> None:
        for axes, name in zip(figure.subplots(1, 2), METRICS, strict=True):
            _draw(axes, samples, name)

    checks, values = checks_of(samples), values_of(samples)
    return outcome(lab, tuple(LEARNED), shown, checks, values, draw, *notes, EPISODES)


def _play(
    lab: Lab, cluster: str, tables: Sequence[JobTable], trained: Mapping[str, Policies]
) -> dict[str, Sample]:
    """Everyone on one cluster, in the order of the tables."""
    samples = heuristics_on(lab, WITHOUT_WEIGHTS, cluster, tables)
    for name, counts in _slow_episodes(lab).items():
        samples |= heuristics_on(lab, (name,), cluster, tables[: counts[cluster]])
    for name, policies in trained.items():
        lab.say(f"playing {name} on the {cluster} cluster")
        samples[name] = lab.play(policies, tables)
    if "DAS" in trained:
        weights = untrained(lab, trained["DAS"], tables)
        samples[UNTRAINED] = lab.play(trained["DAS"], tables, weights=weights)
    return samples


def _more_tables(lab: Lab) -> list[JobTable]:
    """Fresh episodes beyond those of the other rows; none in quick runs."""
    if lab.quick:
        return []
    tables = more_tables(num_jobs=lab.settings.num_jobs)
    words = f"das-normal, seed {MORE_SEED}, {len(tables)} of {len(tables[0])} jobs"
    lab.digests[words] = digest_tables(tables)
    return tables


def _slow_episodes(lab: Lab) -> Mapping[str, Mapping[str, int]]:
    """How many episodes the meta-heuristics play on each cluster."""
    return QUICK_SLOW_EPISODES if lab.quick else SLOW_EPISODES


def untrained(lab: Lab, trained: Policies, tables: Sequence[JobTable]) -> list[PyTree]:
    """Fresh weights of a policy's network, one set per seed."""
    env, kind = trained.setup.play_env, trained.setup.network
    assert isinstance(env, DAS)
    specs = env.specs(env.params(tables))
    return [init_weights(env, kind, jax.random.key(seed), specs) for seed in trained.seeds]


def checks_of(samples: Samples) -> list[Check]:
    """DAS against FIFO-LoadBalance, the best heuristic and others, and what else the paper claims.

    Args:
      samples: of the heuristics, ``random``, ``untrained`` and the learned policies, by cluster.
    """
    checks = [check for cluster in CLUSTERS for check in _cluster_checks(samples, cluster)]
    checks += _mean_checks(samples)
    if any(row["DAS"][JCT].shape[1] > LEAST for row in samples.values()):
        checks += _least_checks(samples)
    checks += [check for cluster in samples for check in _random_checks(samples, cluster)]
    small = samples.get("small")
    if small is not None:
        ratio = geometric_ratio(small["DAS"], small[UNTRAINED], JCT)
        item = "small: JCT over an untrained network's"
        checks.append(beside(item, "-", ratio, shown=_three))
    return checks + _claims(samples)


def _cluster_checks(samples: Samples, cluster: str) -> list[Check]:
    if cluster not in samples:
        return [not_tested(f"{cluster}: JCT and fee", "-", "not played")]
    row = samples[cluster]
    checks = []
    for name, metric in METRICS.items():
        ratio = geometric_ratio(row["DAS"], row[BASE], metric)
        item = f"{cluster}: {name} over FIFO-LoadBalance's"
        checks.append(beside(item, f"{_paper_ratio(cluster, name):.3f}", ratio, shown=_three))
    best = min(HEURISTICS, key=lambda name: row[name][JCT].mean())
    item = f"{cluster}: mean JCT over the best heuristic's, {best}"
    ratio = ratio_interval(row["DAS"][JCT], row[best][JCT])
    paper = f"{published.best_ratio(cluster).jct:.3f}"
    return [*checks, beside(item, paper, ratio, shown=_three)]


def _least_checks(samples: Samples) -> list[Check]:
    """The ratios again, on few episodes."""
    few = {
        cluster: {name: first_episodes(row[name], LEAST) for name in (BASE, "DAS")}
        for cluster, row in samples.items()
    }
    checks, words = [], f"first {LEAST} episodes"
    for name, metric in METRICS.items():
        for cluster, row in few.items():
            ratio = geometric_ratio(row["DAS"], row[BASE], metric)
            item = f"{cluster}, {words}: {name} over FIFO-LoadBalance's"
            checks.append(beside(item, "-", ratio, shown=_three))
        if set(few) == set(CLUSTERS):
            item = f"mean of the clusters' ratios of {name}, {words}"
            checks.append(beside(item, "-", mean_ratio(few, "DAS", BASE, metric), shown=_three))
    return checks


def _random_checks(samples: Samples, cluster: str) -> list[Check]:
    """No learned policy is worse than random; of each metric the one that is farthest behind."""
    row, checks = samples[cluster], []
    for name, metric in METRICS.items():
        ratios = {
            policy: geometric_ratio(row[policy], row["random"], metric)
            for policy in LEARNED
            if policy in row
        }
        worst = max(ratios, key=lambda policy: ratios[policy].estimate)
        item = f"{cluster}: {name} over random's, worst learned policy ({worst})"
        checks.append(beside(item, "-", ratios[worst], shown=_three))
    return checks


def _mean_checks(samples: Samples) -> list[Check]:
    """Of the mean of the clusters' ratios."""
    item = "mean of the clusters' ratios of {}"
    if set(samples) != set(CLUSTERS):
        why = "not all clusters were played"
        return [not_tested(item.format(name), "-", why) for name in METRICS]
    checks = []
    for name, metric in METRICS.items():
        paper = float(np.mean([_paper_ratio(cluster, name) for cluster in CLUSTERS]))
        ratio = mean_ratio(samples, "DAS", BASE, metric)
        checks.append(beside(item.format(name), f"{paper:.3f}", ratio, shown=_three))
    return checks


def _claims(samples: Samples) -> list[Check]:
    """What the paper says of DAS against RIFLING and against its parts; nothing is required."""

    def gap(metric: str) -> float:
        return float(np.mean([s["RIFLING"][metric].mean() - s["DAS"][metric].mean() for s in rows]))

    rows = list(samples.values())
    checks = []
    if all("RIFLING" in row for row in rows):
        saved = gap(FEE) * published.JOBS_PER_DAY
        minutes = f"{published.MINUTES_SAVED:g}"
        dollars = f"> {published.DOLLARS_SAVED:,.0f}"
        checks = [
            beside("minutes less than RIFLING, mean of the clusters", minutes, show(gap(JCT))),
            beside(f"$ saved by {published.JOBS_PER_DAY:,} jobs", dollars, f"{saved:,.0f}"),
        ]
    parts = [n for n in LEARNED if n.startswith("DA") and all(n in row for row in rows)]
    for name, metric in METRICS.items():
        ratios = {part: mean_ratio(samples, part, BASE, metric) for part in parts}
        words = ", ".join(f"{part} {ratio:.3f}" for part, ratio in ratios.items())
        checks.append(beside(f"{name} over FIFO-LoadBalance's, mean", "DAS least", words))
    return checks


def _paper_ratio(cluster: str, name: str) -> float:
    ours, base = (getattr(TABLE_1[p][cluster], name.lower()) for p in ("DAS", BASE))
    return float(ours / base)


def _three(value: Any) -> str:
    return show(value, 3)


def _means(samples: Samples, name: str) -> Table:
    """Means over all episodes beside Table 1."""
    clusters, metric = list(samples), METRICS[name]
    most = max(s[metric].shape[1] for row in samples.values() for s in row.values())
    rows: list[list[Any]] = []
    for policy in _names(samples):
        ours = [
            mean_of(row[policy], metric) if row[policy][metric].shape[1] == most else None
            for row in samples.values()
        ]
        known = [cell.estimate for cell in ours if cell is not None]
        paper = [_published(policy, cluster, name) for cluster in clusters]
        cells = [cell for pair in zip(ours, paper, strict=True) for cell in pair]
        rows.append([policy, *cells, _average(known), _average(paper)])
    columns = [words for cluster in [*clusters, "average"] for words in (cluster, "paper")]
    title = f"{UNITS[name]}, mean of {most} episodes, and Table 1 of the paper"
    return Table(title, ["policy", *columns], rows, 1 if name == "JCT" else 2)


def _shipped(samples: Samples) -> Table:
    """Means over the shipped episodes alone."""
    rows: list[list[Any]] = []
    for policy in _names(samples):
        cells: list[Any] = []
        for row in samples.values():
            sample = first_episodes(row[policy], NUM_SHIPPED)
            whole = sample[JCT].shape[1] == NUM_SHIPPED
            cells += [float(sample[m].mean()) if whole else None for m in METRICS.values()]
        rows.append([policy, *cells])
    columns = [f"{cluster}, {name}" for cluster in samples for name in METRICS]
    title = f"completion time (min) and fee ($), mean of the {NUM_SHIPPED} shipped episodes"
    return Table(title, ["policy", *columns], rows, 2)


def _ratios(samples: Samples, name: str) -> Table:
    """Geometric means of the ratios per episode."""
    rows: list[list[Any]] = [
        [
            policy,
            *(geometric_ratio(r[policy], r[BASE], METRICS[name]) for r in samples.values()),
            mean_ratio(samples, policy, BASE, METRICS[name]),
        ]
        for policy in _names(samples)
    ]
    title = f"{name} over FIFO-LoadBalance's, geometric mean of the ratios per episode"
    return Table(title, ["policy", *samples, "mean"], rows, 3)


def _draw(axes: Any, samples: Samples, name: str) -> None:
    names = [policy for policy in _names(samples) if policy != BASE]
    series = ratio_bars(axes, samples, names, METRICS[name], name, slant=True)
    ends = [end for points in series.values() for p in points for end in (p.low, p.high)]
    axes.set_ylim(max(min([*ends, 1.0]) - 0.02, 0.0), min(max([*ends, 1.0]) + 0.02, 2.0))


def _names(samples: Samples) -> list[str]:
    """Policies in the paper's order, then the others."""
    found = list(next(iter(samples.values())))
    return [name for name in TABLE_1 if name in found] + [n for n in found if n not in TABLE_1]


def _published(policy: str, cluster: str, name: str) -> float | None:
    row = TABLE_1.get(policy)
    return float(getattr(row[cluster], name.lower())) if row else None


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
