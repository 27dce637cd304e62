"""Chic and Chic-Pair as the rest of the library sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.elastic.mapping import TYPE_SHARES, chic_jobs
from jaxsched.envs.chic import cases, recording
from jaxsched.envs.chic import records as rec
from jaxsched.envs.chic.cluster_arrays import cluster_arrays
from jaxsched.envs.chic.cluster_reader import ChicReader
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.intervals import OptimusIntervals, optimus
from jaxsched.envs.chic.paper import paper_rows
from jaxsched.envs.chic.presets import DEPARTURES, FORMER_SETTINGS, NOTES, PAPER, PRESETS
from jaxsched.envs.chic.tables import Params
from jaxsched.envs.chic.traces import WORKLOAD
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable
from jaxsched.jobs.servers import Servers
from jaxsched.systems.base import (
    Heuristic,
    Network,
    PolicyInfo,
    System,
    TraceSet,
)
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.recording import Recording, Staged
from jaxsched.traces.mapping import MappingConfig


class ChicSystem(System[Chic, Params, Recipe]):
    """Workers and parameter servers at every arrival and finish, by the cross-entropy method."""

    name = "chic"
    title = "Chic, Chic-Pair: experience-driven elastic scheduling"
    decides = "workers and parameter servers of the first workloads, at every arrival and finish"
    source = "Chic: experience-driven scheduling in machine learning clusters"
    environment_type = Chic
    best_rule = "search"
    primary_metric = "avg_jct"
    metrics = (
        "avg_jct",
        "min_jct",
        "median_jct",
        "max_jct",
        "avg_wait",
        "makespan",
        "utilization",
        "steps",
        "phases",
        "finished",
    )
    own_metrics = rec.OWN_METRICS
    planning_horizon_s = 10_000.0  # some workloads' times in the system
    learning_horizon_s = 10_000.0
    workload = WORKLOAD
    cases_in_double = True
    policies: Mapping[str, PolicyInfo] = {
        "optimus": PolicyInfo(
            "baseline", "Optimus, decides every 600 s", knows="iterations left, speeds"
        ),
        "optimus_300": PolicyInfo(
            "baseline", "Optimus, decides every 300 s", knows="iterations left, speeds"
        ),
        "random": PolicyInfo("reference", "uniform over units that fit", knows="what fits"),
        "round_robin": PolicyInfo(
            "reference", "next unit to the workload with the fewest", knows="units held"
        ),
        "optimus_event": PolicyInfo(
            "reference",
            "Optimus' rule at every arrival and finish",
            knows="iterations left, speeds",
        ),
        "search": PolicyInfo(
            "reference",
            "best static allocation of the window by search",
            knows="iterations left, speeds",
        ),
    }
    presets = PRESETS
    preset_notes = NOTES
    departures = DEPARTURES
    former_settings = FORMER_SETTINGS
    traces = TraceSet("chic-1.80", "chic-1.80", num_test=30)
    num_jobs = 30
    model_shares = TYPE_SHARES
    unfinished_score = 1e6  # s, far beyond any that finishes

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Rigid jobs become workloads by the rank of their run times (section 11)."""
        return [chic_jobs(table) if table.schema == RIGID_JOBS else table for table in tables]

    def heuristic(
        self, name: str, env: Chic, num_jobs: int, options: Mapping[str, Any]
    ) -> Heuristic:
        """A baseline or diagnostic; the mask of legal units holds for it."""
        del num_jobs
        self.checked_options(options)
        self.policy_info(name)
        return _heuristic(name, env)

    def network(self, env: Chic, kind: str) -> Network:
        """The network of the paper's recipe, also as ``paper``, or one of other widths."""
        return super().network(env, PAPER.network if kind == "paper" else kind)

    def recorder(self, env: Chic) -> Recorder:
        """Per-workload records."""
        return rec.recorder(env)

    def measured(
        self, env: Chic, params: Any, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics per episode."""
        return rec.summarise(env, params, episodes, records)

    def claims(
        self, env: Chic, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Figures 4 and 5 at one arrival rate."""
        del env
        return paper_rows(summary, learned)

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def recording(self, env: Chic) -> Recording:
        """How episodes become pictures."""
        return recording.recording(env)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played."""
        return recording.staged(case)

    def cluster_arrays(self, env: Chic) -> ClusterArrays:
        """Plain arrays of a cluster, for exports."""
        return cluster_arrays(env)

    def cluster_reader(self) -> ChicReader:
        """How front ends describe the cluster."""
        return ChicReader()

    def cluster_gpus(self, env: Chic) -> tuple[int, ...]:
        """The GPUs of the one pool."""
        return (env.capacity[0],)

    def server_options(self, servers: Servers) -> dict[str, Any]:
        """There are no servers.

        Raises:
          JaxschedError: always.
        """
        raise JaxschedError(
            "chic: its cluster is one pool without servers; accepted: the option "
            "env.capacity=[GPUS,CORES,GB]"
        )

    def mapping(self, env: Chic, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """Gaps of two thousand seconds (1.8 per hour) unless asked otherwise."""
        if mean_gap_s is None and load is None:
            mean_gap_s = MEAN_GAP_S
        return super().mapping(env, mean_gap_s=mean_gap_s, load=load)


MEAN_GAP_S = 2000.0
INTERVALS_S = {"optimus": 600.0, "optimus_300": 300.0}


@cache
def _heuristic(name: str, env: Chic) -> Heuristic:
    if name in INTERVALS_S:
        intervals = OptimusIntervals(capacity=env.capacity, interval=INTERVALS_S[name])
        return Heuristic(intervals, optimus(intervals)._replace(name=name))
    env = replace(env, void_outside="ends")  # void comes once the allocation is complete
    if name == "optimus_event":  # has no form in Chic-Pair: its tasks come one by one
        env = replace(env, pair=False)
    return Heuristic(env, baseline(name, env))


SYSTEM = ChicSystem()
