"""SCHED2 as the rest of the library sees it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxsched.core.policies import Policy
from jaxsched.envs.sched2 import cases, recording
from jaxsched.envs.sched2 import records as rec
from jaxsched.envs.sched2.cluster_arrays import cluster_arrays
from jaxsched.envs.sched2.cluster_reader import Sched2Reader
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.figures import FIGURES
from jaxsched.envs.sched2.heuristics import BASELINES, DELAY, MODES, baseline
from jaxsched.envs.sched2.networks import PositionQNetwork, QNetwork
from jaxsched.envs.sched2.paper import paper_rows
from jaxsched.envs.sched2.presets import DEPARTURES, FORMER_SETTINGS, NOTES, PRESETS
from jaxsched.envs.sched2.scoring import ScoringNetwork
from jaxsched.envs.sched2.traces import WORKLOAD
from jaxsched.envs.sched2.workload import MODEL_SHARES
from jaxsched.errors import JaxschedError
from jaxsched.networks.exportable import ExportableModule
from jaxsched.systems import system
from jaxsched.systems.parts import Kind, Rule, TraceSet

NETWORKS = ("paper", "positions", "scoring", "linear")


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


def _network(env: Sched2, kind: str) -> ExportableModule:
    """The paper's network or a variant.

    ``positions`` shares weights between the positions; ``scoring`` is a small one that starts as
    ``strict_sif``, ``linear`` that without hidden layers.

    Raises:
      JaxschedError: no such kind, or one that reads an outlook that the environment lacks.
    """
    if kind == "paper":
        return QNetwork(env.num_servers, env.gpus_per_server, env.window + 1)
    if kind == "positions":
        return PositionQNetwork(env.num_servers, env.gpus_per_server, env.window)
    if kind not in ("scoring", "linear"):
        raise JaxschedError(f"sched2: unknown network {kind!r}; known are {', '.join(NETWORKS)}")
    if not env.outlook:
        raise JaxschedError(f"sched2: the network {kind!r} reads the outlook; set env.outlook")
    return ScoringNetwork(env.window, *(((), ()) if kind == "linear" else ()))


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
        own=rec.OWN_METRICS,
        figures=FIGURES,
    ),
    policies={name: _rule(name, *words) for name, words in RULES.items()},
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("sched2-train-68", "sched2-test-68"),
        num_jobs=1000,
        mapping={"model_shares": MODEL_SHARES},
    ),
    log=system.EpisodeLog(rec.recorder, rec.summarise, rec.mean_curves, recording.recording),
    options=system.Options({"window": None, "mode": "skip"}, {"mode": MODES}, _in_words),
    networks=system.Networks(_network, default="positions", aliases={"slots": "positions"}),
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
    cases=system.Cases(cases.read, cases.WHOLE),
    front_end=system.FrontEnd(Sched2Reader, cluster_arrays),
)
