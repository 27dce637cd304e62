"""DAS as the rest of the library sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

from jaxsched.core.array_policy import ArrayPolicy
from jaxsched.core.evaluation import Recorder
from jaxsched.core.policies import Play, Policy, uniform_reals
from jaxsched.envs.das import cases, recording
from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.learning import kinds
from jaxsched.envs.das.learning.departures import DEPARTURES, FORMER_SETTINGS
from jaxsched.envs.das.learning.handed_over import array_policy
from jaxsched.envs.das.learning.linear import found_rule, rule_digest, rules_digest
from jaxsched.envs.das.learning.models import policy_model
from jaxsched.envs.das.learning.presets import NOTES, PRESETS
from jaxsched.envs.das.learning.scored import found_scored
from jaxsched.envs.das.mapping import gang_jobs
from jaxsched.envs.das.paper import paper_rows
from jaxsched.envs.das.searchers import SEARCHERS, searcher
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.envs.das.traces import WORKLOAD
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable
from jaxsched.systems.base import (
    Heuristic,
    Network,
    Played,
    PolicyInfo,
    Rule,
    System,
    TraceSet,
)
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.recording import Recording, Staged
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import PyTree

BUSY_GPUS = 45.0  # of the paper's workload, on every cluster
FEE_REFERENCE = 50.0  # dollars, about the fee without contention: keeps scores near minutes
FEE_WEIGHT = 3.0  # one per cent of fee counts as much as three of completion time


class DASSystem(System[DAS, Params, Recipe]):
    """An ordering agent and a placement agent for gang jobs that slow each other down."""

    name = "das"
    title = "DAS: dual-agent scheduler"
    decides = "order and machines of gang jobs that slow each other down"
    source = "DAS: A Dual-Agent Scheduler for Distributed Deep Learning Jobs, KDD 2023"
    environment_type = DAS
    best_rule = "shortest"
    primary_metric = "avg_jct_min"
    metrics = (
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
    )
    own_metrics = rec.OWN_METRICS
    planning_horizon_s = 20_000.0  # twice a job's usual time in the system
    workload = WORKLOAD
    policies: Mapping[str, PolicyInfo] = {
        "fifo_firstfit": PolicyInfo(
            "baseline", "first come first served, first fit", knows="order of arrival"
        ),
        "fifo_loadbalance": PolicyInfo(
            "baseline", "first come first served, most free GPUs", knows="order of arrival"
        ),
        "drf_firstfit": PolicyInfo(
            "baseline", "least dominant share first, first fit", knows="requests, shares held"
        ),
        "drf_loadbalance": PolicyInfo(
            "baseline", "least dominant share first, most free GPUs", knows="requests, shares held"
        ),
        "tetris": PolicyInfo(
            "baseline",
            "best alignment of requests and free resources",
            knows="requests, free resources",
        ),
        "mosa": PolicyInfo(
            "baseline",
            "simulated annealing of each decision",
            slow=True,
            knows="requests, GPUs in use, slow-down",
        ),
        "malo": PolicyInfo(
            "baseline",
            "ant lion search of each decision",
            slow=True,
            knows="requests, GPUs in use, slow-down",
        ),
        "lazy": PolicyInfo(
            "reference", "one job at a time in an idle cluster", knows="order of arrival"
        ),
        "linear": PolicyInfo(
            "reference",
            "linear rule found by search on training traces",
            knows="requests, waits, free resources",
        ),
        "shortest": PolicyInfo(
            "reference",
            "least GPU time first as estimated from group and user, placed as linear",
            knows="requests, run times estimated from group and user",
        ),
        "scored": PolicyInfo(
            "reference",
            "rule found by search on contended traces; listens to the same estimates",
            knows="requests, waits, run times estimated from group and user",
        ),
        "oracle": PolicyInfo(
            "reference",
            "least GPU time first, durations being known",
            clairvoyant=True,
            knows="true run times",
        ),
        "random": PolicyInfo(
            "reference", "uniformly random priorities and affinities", knows="nothing"
        ),
    }
    presets = PRESETS
    preset_notes = NOTES
    departures = DEPARTURES
    former_settings = FORMER_SETTINGS
    traces = TraceSet("das-train", "das-test")
    num_jobs = 1000

    def shipped_digest(self, recipe: Recipe | None = None) -> str:
        """Of the linear rule that is the recipe's teacher, if any; of all of them."""
        if recipe is None:
            return rules_digest()
        if not any(stage.teacher == "linear" for stage in recipe.stages):
            return ""
        return rule_digest(found_rule(recipe.env))

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Rigid jobs become gangs of instances (section 11)."""
        return [gang_jobs(table) if table.schema == RIGID_JOBS else table for table in tables]

    def heuristic(
        self, name: str, env: DAS, num_jobs: int, options: Mapping[str, Any]
    ) -> Heuristic:
        """A heuristic, a meta-heuristic or a reference policy."""
        del num_jobs
        self.checked_options(options)
        self.policy_info(name)
        return _heuristic(name, env)

    def network(self, env: DAS, kind: str) -> Network:
        """There is no network with a score per action.

        Raises:
          JaxschedError: always.
        """
        raise JaxschedError(
            f"das: the policy {kind!r} chooses priorities and affinities, not one of several "
            "actions; this command needs scores of actions"
        )

    def network_policy(self, env: DAS, kind: str, name: str, play: Play) -> Policy:
        """The policy of the plain environment with that network."""
        return kinds.policy_of(kind, env, name, play)

    def policy_model(self, env: DAS, kind: str, **options: Any) -> PolicyModel:
        """Agents that learn, or a rule that is searched for."""
        return policy_model(env, kind, **options)

    def array_policy(self, env: DAS, kind: str) -> ArrayPolicy:
        """Both agents with history, walk process and randomness as inputs and outputs."""
        return array_policy(kind, env)

    def rule(self, name: str, env: DAS) -> Rule | None:
        """The linear rules that were found by search."""
        if name == "linear":
            return Rule(env, name, found_rule(env))
        if name == "scored":
            env = replace(env, estimates=True)
            return Rule(env, name, found_scored(env))
        return None

    def init_weights(self, env: DAS, kind: str, params: Any) -> PyTree:
        """Weights of the right structure."""
        return kinds.init_weights(kind, env, jax.random.key(0), env.specs(params))

    def planning_environment(self, env: DAS) -> DAS:
        """With the dense reward, which charges time in the system and GPUs as they pass."""
        return replace(env, reward="dense")

    def recorder(self, env: DAS) -> Recorder:
        """Start and finish of each job."""
        return rec.recorder(env)

    def measured(
        self, env: DAS, params: Any, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics per episode."""
        return rec.summarise(env, params, episodes, records)

    def score(self, played: Played, tables: Sequence[JobTable]) -> float:
        """Geometric mean of the completion times, times the fee's to the power of three."""
        del tables
        jct, fee = (np.log(played.metrics[name]).mean() for name in ("avg_jct_min", "avg_fee"))
        return float(np.exp(jct + FEE_WEIGHT * (fee - np.log(FEE_REFERENCE))))

    def claims(
        self, env: DAS, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Table 1 on one cluster."""
        return paper_rows(summary, learned, env.num_servers)

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def recording(self, env: DAS) -> Recording:
        """How episodes become pictures."""
        return recording.recording(env)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played."""
        return recording.staged(case)

    def mapping(self, env: DAS, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """As many busy GPUs as in the paper's workload, unless asked otherwise."""
        gpus = self.cluster_gpus(env)
        if mean_gap_s is None and load is None:
            load = BUSY_GPUS / sum(gpus)
        return MappingConfig.on(gpus, max_duration_s=3 * 86400, mean_gap_s=mean_gap_s, load=load)


@cache
def _heuristic(name: str, env: DAS) -> Heuristic:
    if name == "random":
        return Heuristic(env, uniform_reals(name, env.action_spec()))
    if name in ("shortest", "scored"):
        env = replace(env, estimates=True)
    if name in kinds.RULE_NAMES:
        return Heuristic(env, kinds.policy_named(name, env))
    if name in SEARCHERS:
        return Heuristic(env, searcher(name, env))
    if name == "lazy":
        env = replace(env, lazy=True)
    return Heuristic(env, baseline(name, env))


SYSTEM = DASSystem()
