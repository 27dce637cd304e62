"""DAS as the rest of the library sees it."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from jaxsched.core.policies import Policy, uniform_reals
from jaxsched.envs.das import show
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import SEARCHERS, baseline, searcher
from jaxsched.envs.das.heuristics.weighted import (
    found_rule,
    found_scored,
    policy_named,
    rule_digest,
    rules_digest,
)
from jaxsched.envs.das.jobs import WORKLOAD, gang_jobs
from jaxsched.envs.das.learn.policies import (
    array_policy,
    init_weights,
    policy_model,
    policy_of,
)
from jaxsched.envs.das.learn.presets import DEPARTURES, FORMER_SETTINGS, NOTES, PRESETS, SIZES
from jaxsched.envs.das.show import log
from jaxsched.envs.das.show.front_end import DASReader
from jaxsched.envs.das.show.paper import paper_rows
from jaxsched.errors import JaxschedError
from jaxsched.systems import system
from jaxsched.systems.parts import Network, Played, Rule, Shipped, TraceSet
from jaxsched.systems.recipe import Recipe

FEE_REFERENCE = 50.0  # dollars, about the fee without contention: keeps scores near minutes
FEE_WEIGHT = 3.0  # one per cent of fee counts as much as three of completion time


BASELINES = {
    "fifo_firstfit": ("first come first served, first fit", "order of arrival"),
    "fifo_loadbalance": ("first come first served, most free GPUs", "order of arrival"),
    "drf_firstfit": ("least dominant share first, first fit", "requests, shares held"),
    "drf_loadbalance": ("least dominant share first, most free GPUs", "requests, shares held"),
    "tetris": ("best alignment of requests and free resources", "requests, free resources"),
    "mosa": ("simulated annealing of each decision", "requests, GPUs in use, slow-down"),
    "malo": ("ant lion search of each decision", "requests, GPUs in use, slow-down"),
}
REFERENCES = {
    "lazy": ("one job at a time in an idle cluster", "order of arrival"),
    "linear": ("linear rule found by search on training traces", "requests, waits, free resources"),
    "shortest": (
        "least GPU time first as estimated from group and user, placed as linear",
        "requests, run times estimated from group and user",
    ),
    "scored": (
        "rule found by search on contended traces; listens to the same estimates",
        "requests, waits, run times estimated from group and user",
    ),
    "oracle": ("least GPU time first, durations being known", "true run times"),
    "random": ("uniformly random priorities and affinities", "nothing"),
}
"""What each rule does, and what it knows."""
OPTIONS: dict[str, dict[str, Any]] = {"lazy": {"lazy": True}} | dict.fromkeys(
    ("shortest", "scored"), {"estimates": True}
)
"""Options of the environment of some."""


def _baseline(name: str, words: str, knows: str) -> Rule:
    make = partial(searcher if name in SEARCHERS else baseline, name)
    return Rule("baseline", words, make, knows=knows, slow=name in SEARCHERS)


def _reference(name: str, words: str, knows: str) -> Rule:
    def plays_in(env: DAS, num_jobs: int) -> DAS:
        del num_jobs
        return replace(env, **OPTIONS.get(name, {}))

    def make(env: DAS) -> Policy:
        if name == "random":
            return uniform_reals(name, env.action_spec())
        return policy_named(name, env)

    clairvoyant, best = name == "oracle", name == "shortest"
    return Rule("reference", words, make, plays_in, knows=knows, clairvoyant=clairvoyant, best=best)


def _no_scores(env: DAS, kind: str) -> Network:
    """There is no network with a score per action.

    Raises:
      JaxschedError: always.
    """
    del env
    raise JaxschedError(
        f"das: the policy {kind!r} chooses priorities and affinities, not one of several "
        "actions; this command needs scores of actions"
    )


def _shipped(env: DAS, name: str) -> Shipped | None:
    """The linear rules that were found by search."""
    if name == "linear":
        return Shipped(env, name, found_rule(env))
    if name == "scored":
        env = replace(env, estimates=True)
        return Shipped(env, name, found_scored(env))
    return None


def _digest(recipe: Recipe | None = None) -> str:
    """Of the linear rule that is the recipe's teacher, if any; of all of them."""
    if recipe is None:
        return rules_digest()
    if not any(stage.teacher == "linear" for stage in recipe.stages):
        return ""
    return rule_digest(found_rule(recipe.env))


def _planning(env: DAS) -> DAS:
    """With the dense reward, which charges time in the system and GPUs as they pass."""
    return replace(env, reward="dense")


def _score(played: Played) -> float:
    """Geometric mean of the completion times, times the fee's to the power of three."""
    jct, fee = (np.log(played.metrics[name]).mean() for name in ("avg_jct_min", "avg_fee"))
    return float(np.exp(jct + FEE_WEIGHT * (fee - np.log(FEE_REFERENCE))))


def _claims(env: DAS, summary: system.Summary, learned: str) -> list[dict[str, Any]]:
    """Table 1 on one cluster."""
    return paper_rows(summary, learned, env.num_servers)


SYSTEM = system.System(
    name="das",
    title="DAS: dual-agent scheduler",
    decides="order and machines of gang jobs that slow each other down",
    environment=DAS,
    metrics=system.Metrics(
        "avg_jct_min",
        shown=(
            "avg_jct_min",
            "avg_fee",
            "avg_wait",
            "avg_run",
            "avg_slowdown",
            "avg_inflation",
            "makespan",
            "utilization",
            "steps",
            "finished",
        ),
        own=log.OWN_METRICS,
        score=_score,
    ),
    policies={name: _baseline(name, *words) for name, words in BASELINES.items()}
    | {name: _reference(name, *words) for name, words in REFERENCES.items()},
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("das-train", "das-test"),
        num_jobs=1000,
        from_rigid=lambda table, _: gang_jobs(table),  # gangs of instances (section 11)
        mapping={"max_duration_s": 3 * 86400},
        busy_gpus=45.0,  # of the paper's workload, on every cluster
    ),
    log=system.EpisodeLog(log.recorder, log.summarise, recording=log.recording),
    networks=system.Networks(
        _no_scores,
        model=policy_model,
        policy_of=policy_of,
        init=init_weights,
        arrays=array_policy,
        shipped=_shipped,
    ),
    recipes=system.Recipes(PRESETS, NOTES, DEPARTURES, FORMER_SETTINGS, SIZES),
    training=system.Training(
        planning=_planning,
        planning_horizon_s=20_000.0,  # twice a job's usual time in the system
        shipped_digest=_digest,
    ),
    paper=system.Paper(
        "DAS: A Dual-Agent Scheduler for Distributed Deep Learning Jobs, KDD 2023", _claims
    ),
    cases=system.Cases(show.read, show.WHOLE),
    front_end=system.FrontEnd(DASReader),
)
