"""SCHED2 as the rest of the library sees it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxsched.core.policies import Policy
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.heuristics import BASELINES, DELAY, MODES, baseline
from jaxsched.envs.sched2.jobs import MODEL_SHARES, WORKLOAD
from jaxsched.envs.sched2.learn import DEPARTURES, FORMER_SETTINGS, NOTES, PRESETS, network
from jaxsched.envs.sched2.show import log
from jaxsched.envs.sched2.show.front_end import Sched2Reader, cluster_arrays
from jaxsched.envs.sched2.show.paper import paper_rows
from jaxsched.systems import system
from jaxsched.systems.parts import Kind, Rule, TraceSet


def _in_window(env: Sched2, num_jobs: int, *, window: int | None, mode: Any) -> Sched2:
    """Rules see as many jobs as the cluster's agent unless told otherwise, with 0 all of them."""
    del mode
    return env if window is None else replace(env, window=window or num_jobs)


def _rule(name: str, words: str, knows: str) -> Rule:
    def make(env: Sched2, *, window: int | None, mode: Any) -> Policy:
        del env, window
        return baseline(name, mode)

    kind: Kind = "baseline" if name in BASELINES else "reference"
    return Rule(kind, words, make, _in_window, knows=knows, best=name == DELAY)


def _in_words(env: Sched2, chosen: Mapping[str, Any]) -> dict[str, str]:
    """Jobs that heuristics see, and what happens to one that does not fit."""
    window = env.window if chosen["window"] is None else chosen["window"]
    first = f"the {window} oldest waiting jobs" if window else "all waiting jobs"
    misfit = "is skipped" if chosen["mode"] == "skip" else "blocks those behind it"
    return {"heuristics": f"choose from {first}; a job that does not fit {misfit}"}


def _planning(env: Sched2) -> Sched2:
    """With the dense reward, which charges waiting as it happens, and no forced steps."""
    return replace(env, auto_advance=True, reward="dense")


def _claims(env: Sched2, summary: system.Summary, learned: str) -> list[dict[str, Any]]:
    """Figures 7, 9 and 10, Table III and reuse."""
    del env
    baselines = {name: summary[name] for name in BASELINES if name in summary}
    return paper_rows(baselines, summary[learned])


RULES = {
    "fifo": ("first in, first out", "order of arrival"),
    "sif": ("shortest ideal time first", "ideal run times"),
    "dsif": ("shortest ideal time first, split jobs delayed up to 3x", "ideal run times"),
    "saf": (
        "shortest actual time first (oracle of the run time)",
        "run times where packing would place them now",
    ),
    "lrf": ("least required GPUs first", "GPUs asked for"),
    "spf": ("smallest product of GPUs and time first", "GPUs asked for, ideal run times"),
    "strict": ("oldest job that gets its best locality, else none", "order of arrival, free GPUs"),
    "strict_sif": (
        "shortest job that gets its best locality, if any",
        "ideal run times, free GPUs",
    ),
    DELAY: (
        "delay scheduling of 17 numbers, found by search",
        "ideal run times, free GPUs, waits",
    ),
}
"""What each rule does, and what it knows."""

SYSTEM = system.System(
    name="sched2",
    title="SCHED2: which job next, locality-aware packing",
    decides="which waiting job starts next; GPUs are packed by locality",
    environment=Sched2,
    metrics=system.Metrics(
        "avg_effectiveness",
        shown=(
            "avg_effectiveness",
            "avg_jct",
            "makespan",
            "avg_wait",
            "avg_run",
            "avg_slowdown",
            "utilization",
            "fragmentation",
            "relaxed_sensitive",
            "relaxed_insensitive",
            "wait_sensitive",
            "wait_insensitive",
            "reuse_fraction",
            "finished",
        ),
        own=log.OWN_METRICS,
        figures=log.FIGURES,
    ),
    policies={name: _rule(name, *words) for name, words in RULES.items()},
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("sched2-train-68", "sched2-test-68"),
        num_jobs=1000,
        mapping={"model_shares": MODEL_SHARES},
    ),
    log=system.EpisodeLog(log.recorder, log.summarise, log.mean_curves, log.recording),
    options=system.Options({"window": None, "mode": "skip"}, {"mode": MODES}, _in_words),
    networks=system.Networks(network, default="positions", aliases={"slots": "positions"}),
    recipes=system.Recipes(PRESETS, NOTES, DEPARTURES, FORMER_SETTINGS),
    training=system.Training(
        planning=_planning,
        planning_horizon_s=40_000.0,  # as long as the longest jobs, and two hundred arrivals
        horizon_s=7200.0,  # specification, section 10
        episode_steps=4000,  # of 1,000 jobs
    ),
    paper=system.Paper(
        "Luan et al., SCHED2: Scheduling Deep Learning Training via Deep RL", _claims
    ),
    cases=system.Cases(log.read_case, log.WHOLE),
    front_end=system.FrontEnd(Sched2Reader, cluster_arrays),
)
