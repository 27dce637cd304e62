"""The record that describes rigid jobs on servers to the library: no paper's system."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from jaxsched.core.policies import Policy
from jaxsched.envs.cluster.environment import MOST_POSITIONS, ClusterJobs
from jaxsched.envs.cluster.heuristics import (
    COMMITTED_RULES,
    RULES,
    SUSPENDING_RULES,
    TYPED_RULES,
    rule,
)
from jaxsched.envs.cluster.jobs import LOAD, PHILLY, RUN_TIMES, WORKLOAD, with_owners
from jaxsched.envs.cluster.learn import NOTES, PRESETS, WIDTHS, ClusterValue, JobScorer
from jaxsched.envs.cluster.show import cases, log
from jaxsched.envs.cluster.show.front_end import ClusterJobsReader
from jaxsched.systems import system
from jaxsched.systems.parts import Kind, Network, Rule, TraceSet

WORDS: dict[str, tuple[Kind, str, str, bool]] = {
    "fifo": ("baseline", "the oldest job; later ones wait for it", "order of arrival", False),
    "fifo-skip": ("baseline", "the oldest job that fits", "order of arrival", False),
    "lrf": ("baseline", "fewest GPUs first", "GPUs requested", False),
    "qssf": ("baseline", "least expected GPU time first", "run times of jobs that ended", False),
    "las": (
        "baseline",
        "least attained service first, by queues; suspends",
        "service so far",
        False,
    ),
    "spot": ("baseline", "highest priority first; suspends", "priorities", False),
    "srtf": ("reference", "shortest remaining time first; suspends", "run times", True),
    "srsf": ("reference", "least remaining GPU time first; suspends", "run times", True),
    "sjf": ("reference", "shortest job that fits", "run times", True),
    "sjf-block": ("reference", "shortest job; others wait for it", "run times", True),
    "spf": ("reference", "least GPU time first", "run times", True),
    "least-slowdown": (
        "baseline",
        "least relative slowdown on the GPUs on offer first; GPUs have types",
        "speeds on types of GPUs",
        False,
    ),
    "lcfs": ("baseline", "the youngest job; choices commit", "order of arrival", False),
    "sjf-narrow": (
        "reference",
        "shortest job, of equal ones fewest GPUs; choices commit",
        "run times",
        True,
    ),
    "lpf": ("reference", "longest job; choices commit", "run times", True),
    "f1": ("reference", "lowest score F1; choices commit", "run times", True),
}
"""Kind of each rule, what it does, what it reads, and whether it is clairvoyant."""
BEST = ("srtf", "sjf", "f1")  # where jobs may be suspended, where not, where choices commit
USUAL, ASKED = "jobs", "paper"  # networks: the default, and the name that benchmarks use for it


def _in_window(env: ClusterJobs, num_jobs: int, *, window: int) -> ClusterJobs:
    """By default rules see all waiting jobs, and may wait: then they equal the engine's orders.

    They know which jobs are there, so that no more positions are needed than there are jobs.
    """
    return replace(env, window=window or min(num_jobs, MOST_POSITIONS), may_wait=True)


def _plays(name: str, env: ClusterJobs | None) -> bool:
    """Whether the rule is used here: suspending rules with ``suspends``, each order once."""
    if name in TYPED_RULES:
        return env is not None and bool(env.cluster.gpu_types) and not env.commits
    if name in COMMITTED_RULES:
        return env is not None and env.commits and (name != "f1" or env.gpu_slots() == 1)
    if name in ("fifo-skip", "sjf-block"):
        return env is None or not env.commits
    return name not in SUSPENDING_RULES or (env is not None and env.suspends)


def _rule(name: str, kind: Kind, words: str, knows: str, clairvoyant: bool) -> Rule:
    def make(env: ClusterJobs, *, window: int) -> Policy:
        del window
        order, mode = {**RULES, **SUSPENDING_RULES, **COMMITTED_RULES, **TYPED_RULES}[name]
        return rule(env, order, mode)._replace(name=name)

    return Rule(
        kind,
        words,
        make,
        _in_window,
        knows=knows,
        clairvoyant=clairvoyant,
        best=name in BEST,
        usual=partial(_plays, name),
    )


def _in_words(env: ClusterJobs, chosen: Mapping[str, Any]) -> dict[str, str]:
    """A phrase for the jobs that rules see."""
    del env
    window = chosen["window"]
    seen = f"the {window} oldest jobs" if window else "all jobs in the system"
    return {"heuristics": f"choose from {seen}"}


def _network(env: ClusterJobs, kind: str) -> Network:
    """``jobs`` scores every job separately, ``linear`` without hidden layers; others are flat."""
    kind = USUAL if kind == ASKED else kind
    if kind in WIDTHS:
        hidden, wait = WIDTHS[kind]
        return JobScorer(env.window, hidden, wait, **_seen(env))
    return system.fully_connected(env, kind)


def _seen(env: ClusterJobs) -> dict[str, Any]:
    """Options that add entries to observations."""
    return {
        "suspends": env.suspends,
        "sees_run_times": env.sees_run_times,
        "has_types": bool(env.cluster.gpu_types),
        "has_slots": env.gpu_slots() > 1,
    }


def _value(env: ClusterJobs, kind: str) -> Any:
    if kind in WIDTHS:
        return ClusterValue(env.window, **_seen(env))
    return system.fully_connected_value(env, kind)


SYSTEM = system.System(
    name="cluster",
    title="Rigid jobs on servers, as the leaderboard replays them",
    decides="which waiting job starts next; with suspension, which jobs run",
    environment=ClusterJobs,
    metrics=system.Metrics(
        "avg_jct",
        shown=(
            "avg_jct",
            "median_jct",
            "p99_jct",
            "max_jct",
            "avg_wait",
            "p99_wait",
            "bounded_slowdown",
            "utilization",
            "makespan",
            "preemptions",
            "finished",
        ),
        own=log.OWN_METRICS,
    ),
    policies={name: _rule(name, *words) for name, words in WORDS.items()},
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet(PHILLY.name, PHILLY.name),
        num_jobs=100,
        from_rigid=with_owners,
        mapping=RUN_TIMES,
        load=LOAD,
    ),
    log=system.EpisodeLog(log.recorder, log.summarise, recording=log.recording),
    options=system.Options({"window": 0}, words=_in_words),
    networks=system.Networks(_network, _value, default=USUAL),
    recipes=system.Recipes(PRESETS, NOTES),
    cases=system.Cases(cases.read, cases.WHOLE),
    front_end=system.FrontEnd(ClusterJobsReader),
    training=system.Training(
        planning_horizon_s=86_400.0,
        horizon_s=86_400.0,
    ),
)
