"""T3: Wilcoxon signed-rank tests on the completion time and the fee of each job."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS
from jaxsched.evaluation import run_episodes
from jaxsched.jobs import JobTable
from jaxsched.papers import figures
from jaxsched.papers.das.common import CLUSTERS, outcome, test_tables, train
from jaxsched.papers.das.published import WILCOXON
from jaxsched.papers.lab import Lab
from jaxsched.papers.outcome import Check, Outcome, Table, at_most, not_judged, reported
from jaxsched.papers.policies import Policies
from jaxsched.statistics import Floats

LEVEL = 0.05
DEMANDED = ("small", "medium")
QUICK_CLUSTERS = ("small",)
METRICS = ("JCT", "fee")


class SignedRank(NamedTuple):
    """p-values of a Wilcoxon signed-rank test.

    Attributes:
      less: the first values are below the second ones.
      different: two-sided.
    """

    less: float
    different: float


def wilcoxon_tests(lab: Lab) -> Outcome:
    """T3, Table 3: DAS against RIFLING, job by job, on the same episodes."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    trained = train(lab, ("RIFLING", "DAS"), clusters)
    tables = test_tables(lab)
    rows: list[list[Any]] = []
    found: dict[str, dict[str, SignedRank]] = {}
    gaps: dict[str, dict[str, Floats]] = {}
    for cluster in clusters:
        lab.say(f"playing the test episodes on the {cluster} cluster")
        theirs, ours = (job_values(lab, p, tables) for p in trained[cluster].values())
        found[cluster] = {m: signed_rank(ours[m], theirs[m]) for m in METRICS}
        gaps[cluster] = {m: ours[m] - theirs[m] for m in METRICS}
        for metric in METRICS:
            tested, gap = found[cluster][metric], gaps[cluster][metric]
            shares = [float(np.mean(gap < 0)), float(np.mean(gap > 0))]
            paper = f"{getattr(WILCOXON[cluster], metric.lower()):.4f}"
            cells = [float(np.mean(gap)), float(np.median(gap)), *shares]
            p_values = [f"{p:.2g}" for p in tested]
            rows.append([f"{cluster}, {metric}", gap.size, *cells, *p_values, paper])
    table = Table(
        "DAS less RIFLING, job by job, mean over the seeds: JCT (min), fee ($)",
        [
            "what",
            "jobs",
            "mean",
            "median",
            "below",
            "above",
            "p, less",
            "p, two-sided",
            "paper's p",
        ],
        rows,
        digits=3,
    )

    def draw(figure: Any) -> None:
        for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
            curves = {c: _quantiles(by_metric[metric]) for c, by_metric in gaps.items()}
            unit = "min" if metric == "JCT" else "$"
            label = f"{metric}, DAS less RIFLING ({unit})"
            axes.axhline(0.0, color=figures.LEVEL_COLOUR, linewidth=0.8, linestyle=":")
            figures.curves(axes, curves, x_label="share of the jobs", y_label=label)
            axes.set_yscale("symlog", linthresh=0.1)

    values = {c: {m: t._asdict() for m, t in by_metric.items()} for c, by_metric in found.items()}
    note = "jobs of one episode are not independent of each other: p-values are too small"
    return outcome([table], checks_of(found), values, draw, note)


def checks_of(found: dict[str, dict[str, SignedRank]]) -> list[Check]:
    """The condition on completion times, and what the paper reports, by cluster and metric."""
    checks = []
    for cluster in CLUSTERS:
        paper = f"{WILCOXON[cluster].jct:.4f}"
        item = f"{cluster}: p of JCT, DAS below RIFLING"
        if cluster not in found:
            checks.append(not_judged(item, paper, f"< {LEVEL}", "not played"))
            continue
        p = found[cluster]["JCT"].less
        if cluster in DEMANDED:
            checks.append(at_most(item, paper, p, LEVEL, shown=_short, strict=True))
        else:
            checks.append(reported(item, paper, _short(p)))
        p = found[cluster]["fee"].less
        paper = f"{WILCOXON[cluster].fee:.4f}"
        checks.append(reported(f"{cluster}: p of fee, DAS below RIFLING", paper, _short(p)))
    return checks


def job_values(lab: Lab, trained: Policies, tables: Sequence[JobTable]) -> dict[str, Floats]:
    """Completion time (min) and fee ($) of each job, ``[jobs]``, means over the seeds."""
    env = trained.setup.play_env
    assert isinstance(env, DAS)
    params, episodes = lab.system.params(env, tables), np.arange(len(tables))
    policy = lab.policy(env, trained.setup.network, trained.setup.policy.name, trained.setup.play)
    recorder = lab.system.recorder(env)
    jct, fee = [], []
    for weights in trained.weights:
        played = run_episodes(
            env, policy, recorder, params, jnp.asarray(episodes), jax.random.key(0), weights
        )
        jobs = rec.per_job(env, params, episodes, played.records)
        there = np.isfinite(jobs.finish)
        jct.append((jobs.finish - jobs.submit)[there] / 60.0)
        fee.append(jobs.fee[there])
    return {"JCT": np.mean(jct, axis=0), "fee": np.mean(fee, axis=0)}


def signed_rank(first: Floats, second: Floats) -> SignedRank:
    """Of paired values; certain not to differ where all of them are equal."""
    from scipy import stats

    if np.array_equal(first, second):
        return SignedRank(1.0, 1.0)
    less = stats.wilcoxon(first, second, alternative="less")
    return SignedRank(float(less.pvalue), float(stats.wilcoxon(first, second).pvalue))


def _short(p: float) -> str:
    return f"{p:.2g}"


def _quantiles(values: Floats) -> list[tuple[float, float]]:
    shares = np.linspace(0.0, 1.0, 101)
    return list(zip(shares.tolist(), np.quantile(values, shares).tolist(), strict=True))
