"""SCHED2 as the rest of the library sees it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.envs.sched2 import cases, recording
from jaxsched.envs.sched2 import records as rec
from jaxsched.envs.sched2.cluster_arrays import cluster_arrays
from jaxsched.envs.sched2.cluster_reader import Sched2Reader
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.figures import FIGURES
from jaxsched.envs.sched2.heuristics import baseline
from jaxsched.envs.sched2.networks import PositionQNetwork, QNetwork
from jaxsched.envs.sched2.paper import paper_rows
from jaxsched.envs.sched2.presets import DEPARTURES, FORMER_SETTINGS, NOTES, PRESETS
from jaxsched.envs.sched2.scoring import ScoringNetwork
from jaxsched.envs.sched2.traces import WORKLOAD
from jaxsched.envs.sched2.workload import MODEL_SHARES
from jaxsched.errors import JaxschedError
from jaxsched.networks.described import Described
from jaxsched.systems.base import (
    Heuristic,
    PolicyInfo,
    System,
    TraceSet,
)
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.recording import Recording, Staged

NETWORKS = ("paper", "positions", "scoring", "linear")


class Sched2System(System[Sched2, Params, Recipe]):
    """Locality-aware job selection with a deep Q-network."""

    name = "sched2"
    title = "SCHED2: which job next, locality-aware packing"
    decides = "which waiting job starts next; GPUs are packed by locality"
    source = "Luan et al., SCHED2: Scheduling Deep Learning Training via Deep RL"
    environment_type = Sched2
    best_rule = "delay"
    primary_metric = "avg_effectiveness"
    metrics = (
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
    )
    own_metrics = rec.OWN_METRICS
    planning_horizon_s = 40_000.0  # as long as the longest jobs, and two hundred arrivals
    plain_network = "positions"
    learning_horizon_s = 7200.0  # specification, section 10
    episode_steps = 4000  # of 1,000 jobs
    figures = FIGURES
    workload = WORKLOAD
    policies: Mapping[str, PolicyInfo] = {
        "fifo": PolicyInfo("baseline", "first in, first out", knows="order of arrival"),
        "sif": PolicyInfo("baseline", "shortest ideal time first", knows="ideal run times"),
        "dsif": PolicyInfo(
            "baseline",
            "shortest ideal time first, split jobs delayed up to 3x",
            knows="ideal run times",
        ),
        "saf": PolicyInfo(
            "baseline",
            "shortest actual time first (oracle of the run time)",
            knows="run times where packing would place them now",
        ),
        "lrf": PolicyInfo("baseline", "least required GPUs first", knows="GPUs asked for"),
        "spf": PolicyInfo(
            "baseline",
            "smallest product of GPUs and time first",
            knows="GPUs asked for, ideal run times",
        ),
        "strict": PolicyInfo(
            "reference",
            "oldest job that gets its best locality, else none",
            knows="order of arrival, free GPUs",
        ),
        "strict_sif": PolicyInfo(
            "reference",
            "shortest job that gets its best locality, if any",
            knows="ideal run times, free GPUs",
        ),
        "delay": PolicyInfo(
            "reference",
            "delay scheduling of 17 numbers, found by search",
            knows="ideal run times, free GPUs, waits",
        ),
    }
    renamed_networks: Mapping[str, str] = {"slots": "positions"}
    presets = PRESETS
    preset_notes = NOTES
    departures = DEPARTURES
    former_settings = FORMER_SETTINGS
    traces = TraceSet("sched2-train-68", "sched2-test-68")
    num_jobs = 1000
    model_shares = MODEL_SHARES
    heuristic_options: Mapping[str, Any] = {"window": None, "mode": "skip"}

    def planning_environment(self, env: Sched2) -> Sched2:
        """With the dense reward, which charges waiting as it happens, and no forced steps."""
        return replace(env, auto_advance=True, reward="dense")

    def heuristic(
        self, name: str, env: Sched2, num_jobs: int, options: Mapping[str, Any]
    ) -> Heuristic:
        """A baseline or reference policy.

        Its ``window`` is that of the cluster's agent by default, 0 for the whole queue.
        """
        chosen = self.checked_options(options)
        window = env.window if chosen["window"] is None else chosen["window"] or num_jobs
        return Heuristic(replace(env, window=window), baseline(name, chosen["mode"]))

    def option_facts(self, env: Sched2, chosen: Mapping[str, Any]) -> dict[str, str]:
        """Jobs that heuristics see, and what happens to one that does not fit."""
        window = env.window if chosen["window"] is None else chosen["window"]
        first = f"the {window} oldest waiting jobs" if window else "all waiting jobs"
        misfit = "is skipped" if chosen["mode"] == "skip" else "blocks those behind it"
        return {"heuristics": f"choose from {first}; a job that does not fit {misfit}"}

    def network(self, env: Sched2, kind: str) -> Described:
        """The paper's network or a variant.

        ``positions`` shares weights between the positions; ``scoring`` is a small one that starts
        as ``strict_sif``, ``linear`` that without hidden layers.

        Raises:
          JaxschedError: no such kind, or one that reads an outlook that the environment lacks.
        """
        if kind == "paper":
            return QNetwork(env.num_servers, env.gpus_per_server, env.window + 1)
        if kind == "positions":
            return PositionQNetwork(env.num_servers, env.gpus_per_server, env.window)
        if kind not in ("scoring", "linear"):
            raise JaxschedError(
                f"sched2: unknown network {kind!r}; known are {', '.join(NETWORKS)}"
            )
        if not env.outlook:
            raise JaxschedError(f"sched2: the network {kind!r} reads the outlook; set env.outlook")
        return ScoringNetwork(env.window, *(((), ()) if kind == "linear" else ()))

    def recorder(self, env: Sched2) -> Recorder:
        """Per-job records."""
        return rec.recorder(env)

    def measured(
        self, env: Sched2, params: Any, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics per episode."""
        return rec.summarise(env, params, episodes, records)

    def curves(self, records: Any) -> dict[str, np.ndarray]:
        """The curves of Figures 4 and 9."""
        return rec.mean_curves(records)

    def claims(
        self, env: Sched2, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Figures 7, 9 and 10, Table III and reuse."""
        del env
        baselines = {name: summary[name] for name in self.policy_names("baseline")}
        return paper_rows(baselines, summary[learned])

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def recording(self, env: Sched2) -> Recording:
        """How episodes become pictures."""
        return recording.recording(env)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played."""
        return recording.staged(case)

    def cluster_arrays(self, env: Sched2) -> ClusterArrays:
        """Plain arrays of a cluster, for exports."""
        return cluster_arrays(env)

    def cluster_reader(self) -> Sched2Reader:
        """How front ends describe the cluster."""
        return Sched2Reader()


SYSTEM = Sched2System()
