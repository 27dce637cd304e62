"""T3: Wilcoxon signed-rank tests on the completion time and the fee of each job.

Axes: ``S`` seeds, ``J`` jobs, ``E`` episodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import figures
from benchmarks.papers.das.common import (
    CLUSTERS,
    COMPARED,
    EPISODES,
    NUM_SHIPPED,
    outcome,
    test_tables,
    train,
)
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested
from benchmarks.papers.policies import Policies
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.show import log
from jaxsched.envs.das.show.paper import WILCOXON
from jaxsched.jobs import JobTable
from jaxsched.results.statistics import Floats
from jaxsched.systems import functions

Integers = NDArray[np.int64]
QUICK_CLUSTERS = ("small",)
METRICS = ("JCT", "fee")
SHIPPED_JOBS, ALL_JOBS, ALL_EPISODES = "shipped jobs", "all jobs", "all episodes"
LEAST = 1e-300


class SignedRank(NamedTuple):
    """A Wilcoxon signed-rank test of paired values.

    Attributes:
      p: two-sided.
      below: the first values tend to be the smaller ones.
    """

    p: float
    below: bool


class JobValues(NamedTuple):
    """What a policy makes of each job, sums over the seeds.

    Attributes:
      jct: completion times, whole seconds ``[J]``.
      fee: GPU-seconds that are paid for, whole numbers ``[J]``.
      episode: that each job belongs to, ``[J]``.
    """

    jct: Integers
    fee: Integers
    episode: Integers


Tests = dict[str, dict[str, SignedRank]]
"""By metric and by what is paired."""


def wilcoxon_tests(lab: Lab) -> Outcome:
    """T3, Table 3: DAS against RIFLING on the same episodes."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    trained = train(lab, COMPARED, clusters)
    tables = test_tables(lab)
    rows: list[list[Any]] = []
    found: dict[str, Tests] = {}
    gaps: dict[str, dict[str, Floats]] = {}
    for cluster in clusters:
        lab.say(f"playing the test episodes on the {cluster} cluster")
        both = [job_values(lab, trained[cluster][name], tables) for name in ("DAS", "RIFLING")]
        price = float(trained[cluster]["DAS"].setup.play_env.params(tables).price)
        units = {"JCT": 1 / 60.0, "fee": price / 3600.0}
        found[cluster], gaps[cluster] = {}, {}
        for metric in METRICS:
            ours, theirs = (getattr(values, metric.lower()) for values in both)
            tested = tests_of(ours, theirs, both[0].episode)
            gap = (ours - theirs) * units[metric] / len(lab.settings.seeds)
            found[cluster][metric], gaps[cluster][metric] = tested, gap
            shares = [float(np.mean(gap < 0)), float(np.mean(gap > 0))]
            paper = f"{getattr(WILCOXON[cluster], metric.lower()):.4f}"
            cells = [float(np.mean(gap)), float(np.median(gap)), *shares]
            p_values = [_short(test.p) for test in tested.values()]
            rows.append([f"{cluster}, {metric}", gap.size, *cells, *p_values, paper])
    table = Table(
        "DAS less RIFLING, job by job, mean over the seeds: JCT (min), fee ($); two-sided p",
        [
            "what",
            "jobs",
            "mean",
            "median",
            "below",
            "above",
            *(f"p, {what}" for what in (SHIPPED_JOBS, ALL_JOBS, ALL_EPISODES)),
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

    values = {
        c: {m: {what: t._asdict() for what, t in tests.items()} for m, tests in row.items()}
        for c, row in found.items()
    }
    notes = (
        f"judged on the jobs of the {NUM_SHIPPED} shipped episodes, as the paper does; jobs of one "
        "episode are not independent of each other, so p-values of jobs are too small; those of "
        "the episodes' means are not",
        EPISODES,
    )
    return outcome(lab, COMPARED, [table], checks_of(found), values, draw, *notes)


def tests_of(first: Integers, second: Integers, episode: Integers) -> dict[str, SignedRank]:
    """Tests of the shipped episodes' jobs, of all jobs, of the episodes' sums.

    Args:
      first: of one policy, ``[J]``.
      second: of the other one.
      episode: that each job belongs to; all have equally many jobs.
    """
    shipped = episode < NUM_SHIPPED
    sums = [np.bincount(episode, x).astype(np.int64) for x in (first, second)]
    return {
        SHIPPED_JOBS: signed_rank(first[shipped], second[shipped]),
        ALL_JOBS: signed_rank(first, second),
        ALL_EPISODES: signed_rank(*sums),
    }


def checks_of(found: dict[str, Tests]) -> list[Check]:
    """What the paper reports, by cluster and metric."""
    checks = []
    for cluster in CLUSTERS:
        for metric in METRICS:
            paper = f"{getattr(WILCOXON[cluster], metric.lower()):.4f}"
            item = f"{cluster}: p of {metric}, DAS below RIFLING"
            if cluster not in found:
                checks.append(not_tested(item, paper, "not played"))
                continue
            test = found[cluster][metric][SHIPPED_JOBS]
            checks.append(
                beside(item, paper, _short(test.p) + ("" if test.below else ", not below"))
            )
    return checks


def job_values(lab: Lab, trained: Policies, tables: Sequence[JobTable]) -> JobValues:
    """What the policies of all seeds make of each job.

    Args:
      lab: with the system.
      trained: the policies.
      tables: what they play.
    """
    env = trained.setup.play_env
    assert isinstance(env, DAS)
    params, episodes = env.params(tables), np.arange(len(tables))
    policy = functions.network_policy(
        lab.system, env, trained.setup.network, trained.setup.policy.name, trained.setup.play
    )
    recorder = lab.system.log.recorder(env)
    jct, paid, there = [], [], np.zeros(0, bool)
    for weights in trained.weights:
        played = run_episodes(
            env, policy, recorder, params, jnp.asarray(episodes), jax.random.key(0), weights
        )
        jobs = log.per_job(env, params, episodes, played.records)
        there = np.isfinite(jobs.finish)
        jct.append((jobs.finish - jobs.submit)[there].astype(np.int64))
        paid.append((jobs.num_gpus * (jobs.finish - jobs.start))[there].astype(np.int64))
    return JobValues(np.sum(jct, axis=0), np.sum(paid, axis=0), np.nonzero(there)[0])


def signed_rank(first: Integers, second: Integers) -> SignedRank:
    """Of paired values; certain not to differ where all of them are equal."""
    from scipy import stats

    if np.array_equal(first, second):
        return SignedRank(1.0, below=False)
    below = bool(stats.wilcoxon(first, second, alternative="less").pvalue < 0.5)
    return SignedRank(float(stats.wilcoxon(first, second).pvalue), below)


def _short(p: float) -> str:
    return f"{p:.2g}" if p >= LEAST else f"< {LEAST:g}"


def _quantiles(values: Floats) -> list[tuple[float, float]]:
    shares = np.linspace(0.0, 1.0, 101)
    return list(zip(shares.tolist(), np.quantile(values, shares).tolist(), strict=True))
