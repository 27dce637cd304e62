"""DL2 as the rest of the library sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.policies import Policy
from jaxsched.elastic.mapping import TYPE_SHARES, dl2_jobs
from jaxsched.envs.dl2 import cases, recording
from jaxsched.envs.dl2 import records as rec
from jaxsched.envs.dl2.action_rules import ACTION_RULES, action_rule
from jaxsched.envs.dl2.cluster_arrays import cluster_arrays
from jaxsched.envs.dl2.cluster_reader import DL2Reader
from jaxsched.envs.dl2.departures import FORMER_SETTINGS, ByCluster
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import baseline
from jaxsched.envs.dl2.networks import policy_network, value_network
from jaxsched.envs.dl2.paper import paper_rows
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.presets import NOTES, PRESETS
from jaxsched.envs.dl2.published import published_claims, published_table
from jaxsched.envs.dl2.slotwise import DL2Slots
from jaxsched.envs.dl2.traces import WORKLOAD
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable
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

MEAN_GAP_S = 1400.0  # of the simulated cluster's workload
PUBLISHED_RULES = {
    "drf": ("dominant resource fairness", "requests, shares held"),
    "optimus": ("largest gain in time", "epochs left, true speeds"),
    "srtf": ("smallest share of epochs left first", "share of epochs left"),
    "fifo": ("first in, first out", "order of arrival"),
    "tetris": ("packing and long jobs", "requests, share of epochs left"),
}
"""What each rule does, and what it knows."""
IN_ARTEFACT = (
    *(f"{name}_artefact" for name in PUBLISHED_RULES),
    "optimus_actions",
    "probe_actions",
)
ASKED_FOR = ("drf_actions", "drf_tasks_actions", "void_actions")
"""Heuristics of the published simulator: those compared there, and those only by name."""


class DL2System(System[DL2, Params, Recipe]):
    """Elastic workers and parameter servers in slots, by imitation and then actor-critic."""

    name = "dl2"
    title = "DL2: elastic workers and parameter servers, slot by slot"
    decides = "workers and parameter servers of every job, slot by slot"
    source = "Peng et al., DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters"
    environment_type = DL2
    best_rule = "probe"
    primary_metric = "avg_jct_slots"
    metrics = (
        "avg_jct_slots",
        "avg_jct_coarse",
        "avg_jct",
        "avg_wait",
        "makespan",
        "makespan_coarse",
        "mean_slot_reward",
        "utilization",
        "cpu_utilization",
        "decisions",
        "slots",
        "finished",
    )
    own_metrics = rec.OWN_METRICS
    plain_network = "rows"
    episode_steps = 6144  # of 60 jobs on 60 servers
    learning_horizon_s = 12_000.0  # ten slots
    workload = WORKLOAD
    cases_in_double = True
    policies: Mapping[str, PolicyInfo] = {
        "drf": PolicyInfo("baseline", "dominant resource fairness", knows="requests, shares held"),
        "fifo": PolicyInfo(
            "baseline", "first in, first out, four bundles each", knows="order of arrival"
        ),
        "srtf": PolicyInfo(
            "baseline",
            "shortest remaining time first, four bundles each",
            knows="epochs left, usual speeds",
        ),
        "tetris": PolicyInfo(
            "baseline",
            "packing and short jobs, four bundles each",
            knows="requests, epochs left, usual speeds",
        ),
        "optimus": PolicyInfo(
            "baseline",
            "largest gain per share, speeds fitted online",
            knows="epochs left, speeds measured so far",
        ),
        "optimus_oracle": PolicyInfo(
            "reference",
            "Optimus that knows the noise-free speeds",
            clairvoyant=True,
            knows="epochs left, true speeds",
        ),
        "optimus_fill": PolicyInfo(
            "reference",
            "the same, going on where a task does not fit",
            knows="epochs left, speeds measured so far",
        ),
        "probe": PolicyInfo(
            "reference",
            "greedy, knows speeds and contention",
            clairvoyant=True,
            knows="epochs left, true speeds and contention",
        ),
        **{
            f"{name}_artefact": PolicyInfo(
                "baseline", f"{words}, as DL2's published simulator has it", knows=knows
            )
            for name, (words, knows) in PUBLISHED_RULES.items()
        },
        "optimus_actions": PolicyInfo(
            "reference",
            "its Optimus, through the agent's actions",
            knows="epochs left, true speeds",
        ),
        "probe_actions": PolicyInfo(
            "reference",
            "greedy by true speeds, through the actions",
            clairvoyant=True,
            knows="epochs left, true speeds",
        ),
        "drf_actions": PolicyInfo(
            "reference", "its DRF, through the agent's actions", knows="requests, shares held"
        ),
        "drf_tasks_actions": PolicyInfo(
            "reference",
            "the same, each bundle as a worker and then a parameter server",
            knows="requests, shares held",
        ),
        "void_actions": PolicyInfo("reference", "only what slots start with", knows="nothing"),
    }
    presets = PRESETS
    preset_notes = NOTES
    departures = ByCluster()
    former_settings = FORMER_SETTINGS
    traces = TraceSet("dl2-testbed", "dl2-testbed", num_test=10)
    num_jobs = 60
    model_shares = TYPE_SHARES
    unfinished_score = 1000.0  # slots, the length of an episode that is cut

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Rigid jobs become elastic ones by their run times (section 11)."""
        return [dl2_jobs(table) if table.schema == RIGID_JOBS else table for table in tables]

    def heuristic(
        self, name: str, env: DL2, num_jobs: int, options: Mapping[str, Any]
    ) -> Heuristic:
        """A baseline or reference policy, which decides slot by slot."""
        del num_jobs
        self.checked_options(options)
        self.policy_info(name)
        if name in ACTION_RULES:
            return Heuristic(env, _acting(name, env))
        slots = DL2Slots(**asdict(env))
        return Heuristic(slots, _baseline(name, slots))

    def usual_policies(self, env: DL2 | None = None) -> list[str]:
        """In the cluster of the published simulator its own heuristics, elsewhere all others."""
        if env is not None and env.demand_table == "artefact":
            return list(IN_ARTEFACT)
        return [name for name in self.policies if name not in (*IN_ARTEFACT, *ASKED_FOR)]

    def network(self, env: DL2, kind: str) -> Network:
        """The paper's network, the variant that shares weights by row, or other widths."""
        return policy_network(env, kind)

    def value_network(self, env: DL2, kind: str) -> Network:
        """The value network of the same make."""
        return value_network(env, kind)

    def teacher(self, name: str, env: DL2) -> Policy:
        """A rule that acts through the agent's actions, asked at every decision.

        Raises:
          JaxschedError: no such rule; others plan whole slots, which are recorded.
        """
        if name not in ACTION_RULES:
            raise JaxschedError(
                f"dl2: teacher is {name!r}; accepted where it is asked at every decision: "
                f"{', '.join(ACTION_RULES)}"
            )
        return _acting(name, env)

    def plain_environment(self) -> DL2:
        """With the paper's reward: the backlog falls too late for who begins at nothing."""
        return self.environment()

    def planning_environment(self, env: DL2) -> DL2:
        """With the backlog as the reward, where a step ends one slot at the most."""
        return env if env.assign_bundle else replace(env, reward="backlog")

    def recorder(self, env: DL2) -> Recorder:
        """Per-job records."""
        return rec.recorder(env)

    def measured(
        self, env: DL2, params: Any, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics per episode."""
        return rec.summarise(env, params, episodes, records)

    def claims(
        self, env: DL2, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Figure 9; in the published simulator the targets of its own saved numbers."""
        if env.demand_table == "artefact":
            return published_claims(summary, learned)
        return paper_rows(summary, learned)

    def published(
        self, env: DL2, tables: Sequence[JobTable], summary: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Any] | None:
        """The figures of the published simulator."""
        return published_table(tables, summary) if env.demand_table == "artefact" else None

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def recording(self, env: DL2) -> Recording:
        """How episodes become pictures."""
        return recording.recording(env)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played."""
        return recording.staged(case)

    def cluster_arrays(self, env: DL2) -> ClusterArrays | None:
        """Plain arrays of a cluster, for exports; not of the published simulator's observation."""
        return cluster_arrays(env) if env.observation == "paper" else None

    def cluster_reader(self) -> DL2Reader:
        """How front ends describe the cluster."""
        return DL2Reader()

    def mapping(self, env: DL2, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """The gaps of the simulated cluster's workload unless asked otherwise."""
        if mean_gap_s is None and load is None:
            mean_gap_s = MEAN_GAP_S
        return super().mapping(env, mean_gap_s=mean_gap_s, load=load)


@cache
def _acting(name: str, env: DL2) -> Policy:
    return action_rule(name, env)


@cache
def _baseline(name: str, env: DL2Slots) -> Policy:
    return baseline(name, env)


SYSTEM = DL2System()
