"""Chic and Chic-Pair as the rest of the library sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.elastic.mapping import chic_jobs
from jaxsched.envs.chic import cases
from jaxsched.envs.chic import records as rec
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.features import features_of
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.intervals import OptimusIntervals, optimus
from jaxsched.envs.chic.paper import paper_rows
from jaxsched.envs.chic.presets import PRESETS
from jaxsched.envs.chic.recipe import (
    Recipe,
    hidden_of,
    learner_of,
    network_name,
    network_of,
    params_of,
    training_env,
    variants,
)
from jaxsched.envs.chic.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable
from jaxsched.networks.mlp import MLP
from jaxsched.systems.base import Played, PolicyInfo, Rule, System, TraceSet, TrainingSetup
from jaxsched.traces.mapping import MappingConfig


class ChicSystem(System):
    """Workers and parameter servers at every arrival and finish, by the cross-entropy method."""

    name = "chic"
    title = "Chic, Chic-Pair: experience-driven elastic scheduling"
    source = "Chic: experience-driven scheduling in machine learning clusters"
    behaviour_version = Chic.behaviour_version
    environment_type = Chic
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
    policies: Mapping[str, PolicyInfo] = {
        "optimus": PolicyInfo("baseline", "Optimus, decides every 600 s"),
        "optimus_300": PolicyInfo("baseline", "Optimus, decides every 300 s"),
        "random": PolicyInfo("yardstick", "uniform over units that fit"),
        "round_robin": PolicyInfo("yardstick", "next unit to the workload with the fewest"),
        "optimus_event": PolicyInfo("yardstick", "Optimus' rule at every arrival and finish"),
        "search": PolicyInfo("yardstick", "best static allocation of the window by search"),
    }
    presets = PRESETS
    traces = TraceSet("chic-1.80", "chic-1.80", num_test=30)
    num_jobs = 30
    unfinished_score = 1e6  # s, far beyond any that finishes

    def params(self, env: Environment, tables: Sequence[JobTable]) -> Params:
        """Parameters with the paper's scales."""
        assert isinstance(env, Chic | OptimusIntervals)
        return env.params(list(tables))

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Rigid jobs become workloads by the rank of their run times (section 11)."""
        return [chic_jobs(table) if table.schema == RIGID_JOBS else table for table in tables]

    def rule(self, name: str, env: Environment, num_jobs: int, options: Mapping[str, Any]) -> Rule:
        """A baseline or diagnostic; the mask of legal units holds for it."""
        del num_jobs
        self.checked_options(options)
        assert isinstance(env, Chic)
        if name not in self.policies:
            raise JaxschedError(
                f"chic: unknown policy {name!r}; known are {', '.join(self.policies)}"
            )
        return _rule(name, env)

    def facts(self, env: Environment, options: Mapping[str, Any]) -> dict[str, str]:
        """The cluster, the window and the action set."""
        self.checked_options(options)
        assert isinstance(env, Chic)
        gpus, cpus, memory = env.capacity
        return {
            "cluster": f"{gpus} GPUs, {cpus} CPU cores, {memory} GB",
            "window": f"{env.window} oldest workloads",
            "actions": "one worker and one server" if env.pair else "a worker or a server",
        }

    def network(self, env: Environment, kind: str) -> MLP:
        """The paper's network, or one of other widths."""
        assert isinstance(env, Chic)
        return network_of(env, hidden_of(kind))

    def recorder(self, env: Environment) -> Recorder:
        """Per-workload records."""
        return rec.recorder(env)

    def played(
        self, env: Environment, params: Any, episodes: Any, records: Any, schedule: Sequence[int]
    ) -> Played:
        """Metrics per episode."""
        del schedule
        records = jax.tree.map(np.asarray, records)
        return Played(rec.summarise(env, params, episodes, records), {}, [])

    def training(self, recipe: Recipe, tables: Sequence[JobTable]) -> list[TrainingSetup]:
        """Environment, learner and loop of a recipe."""
        name = "chic_pair" if recipe.env.pair else "chic"
        kind = network_name(recipe.hidden)
        setup = TrainingSetup(
            name="cross_entropy",
            env=training_env(recipe),
            play_env=recipe.env,
            learner=learner_of(recipe),
            loop=recipe.loop,
            params_at=params_of(recipe, tables),
            policy=self.network_policy(recipe.env, kind, name, recipe.play),
            play=recipe.play,
            network=kind,
            gradient_steps=recipe.learner.inner_steps,
            evaluate_every=recipe.evaluate_every,
            checkpoint_every=recipe.checkpoint_every,
            variants=variants(recipe),
        )
        return [setup]

    def claims(
        self, env: Environment, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Figures 4 and 5 at one arrival rate."""
        del env
        return paper_rows(summary, learned)

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def features(self, env: Environment) -> Mapping[str, Any]:
        """What the observation's entries mean."""
        assert isinstance(env, Chic)
        return features_of(env)

    def action_names(self, env: Environment) -> Sequence[str]:
        """Units of each row, then void."""
        assert isinstance(env, Chic)
        kinds = ("pair",) if env.pair else ("worker", "server")
        return [f"row{row}.{kind}" for row in range(env.window) for kind in kinds] + ["void"]

    def mapping(self, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """Gaps of two thousand seconds (1.8 per hour) unless asked otherwise."""
        if mean_gap_s is None and load is None:
            mean_gap_s = MEAN_GAP_S
        return MappingConfig(mean_gap_s=mean_gap_s, load=load)


MEAN_GAP_S = 2000.0
INTERVALS_S = {"optimus": 600.0, "optimus_300": 300.0}


@cache
def _rule(name: str, env: Chic) -> Rule:
    if name in INTERVALS_S:
        intervals = OptimusIntervals(capacity=env.capacity, interval=INTERVALS_S[name])
        return Rule(intervals, optimus(intervals)._replace(name=name))
    env = replace(env, void_outside="ends")  # void comes once the allocation is complete
    if name == "optimus_event":  # has no form in Chic-Pair: its tasks come one by one
        env = replace(env, pair=False)
    return Rule(env, baseline(name, env))


SYSTEM = ChicSystem()
