"""What a system tells the rest of the library about itself.

The command line, the training driver and the comparisons work on this record alone; they import a
system only by name, through ``jaxsched.systems.registry``.

Required are a name, the environment, its heuristics and the metric that policies are judged by.
Everything else is a capability with a default that serves a small system: job records and metrics
from the standard record (``jaxsched.core.recorder``), a small network and a recipe that trains it,
names and facts from the specs and options.
"""

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Generic, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import Play, Policy, greedy_scores, real_outputs, sampled_scores
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.metrics import METRICS, STANDARD, Metric, of_log
from jaxsched.networks.mlp import MLP, ValueMLP, sizes_of
from jaxsched.ops.arrays import to_device
from jaxsched.systems import gpu
from jaxsched.systems.departures import Departures
from jaxsched.systems.environments import E
from jaxsched.systems.figures import Figures
from jaxsched.systems.hands_over import HandsOver
from jaxsched.systems.parts import (
    Heuristic,
    Kind,
    Network,
    Played,
    PolicyInfo,
    PresetInfo,
    Rule,
    TraceSet,
    TrainingSetup,
)
from jaxsched.systems.plain import PURPOSES, plain_recipes
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.stages import budget, stages_of
from jaxsched.systems.workload import Workload
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import ArraySpec, DiscreteSpec, PRNGKey, PyTree

__all__ = [
    "Heuristic",
    "Kind",
    "Network",
    "Played",
    "PolicyInfo",
    "PresetInfo",
    "Rule",
    "System",
    "TraceSet",
    "TrainingSetup",
]

P = TypeVar("P")  # its parameters
R = TypeVar("R")  # a recipe


class System(HandsOver[E], ABC, Generic[E, P, R]):
    """One system: environment, heuristics, metrics, recipes, what it shows and hands over.

    Attributes:
      best_rule: name of the best rule known, which comparisons name first; empty: none is.
      primary_metric: what policies are chosen and judged by, one of ``metrics``.
      policies: heuristics by name, in the order of tables.
      title: one line.
      decides: what an action decides, in a few words.
      source: the paper.
      metrics: names of metrics, in the order of tables.
      own_metrics: those that ``jaxsched.jobs.metrics.METRICS`` does not have.
      workload: kinds of jobs and named traces.
      num_jobs: of each table made of a real trace.
      unfinished_score: of a job, where episodes may be cut.
      heuristic_options: option of the heuristics -> its default.
      model_shares: share of each model id among jobs of real traces, whose models are drawn.
      figures: what a report draws beside the usual bars.
      planning_horizon_s: how far look-ahead policies play on, unless told otherwise.
      plain_network: kind of the network of plain recipes.
      episode_steps: room for an episode in plain recipes; 0: they play no whole ones.
      learning_horizon_s: of the discount in plain recipes.
      cases_in_double: golden cases are played in float64.
      preset_notes: what each of ``presets`` is for.
      departures: the paper's recipe, and how differences from it are said.
      former_settings: words of ``--set`` before recipes had named stages, and today's.
    """

    best_rule: str = ""
    primary_metric: str
    policies: Mapping[str, PolicyInfo]

    title: str = ""
    decides: str = ""
    source: str = ""
    metrics: tuple[str, ...] = STANDARD
    own_metrics: Mapping[str, Metric] = {}
    workload: Workload = Workload()
    num_jobs: int = 100
    unfinished_score: float | None = None
    heuristic_options: Mapping[str, Any] = {}
    model_shares: tuple[float, ...] = (1.0,)
    figures: Figures = Figures()
    planning_horizon_s: float = float("inf")
    plain_network: str = "mlp-64-64"
    episode_steps: int = 1024
    learning_horizon_s: float = 3600.0
    cases_in_double: bool = False
    preset_notes: Mapping[str, PresetInfo] = {}
    departures: Departures = Departures()
    former_settings: Mapping[str, str] = {}

    @property
    def behaviour_version(self) -> int:
        """Of the environment."""
        return self.environment_type.behaviour_version

    @property
    def traces(self) -> TraceSet:
        """Of evaluations without a recipe; the first named trace, with other seeds for the test.

        Raises:
          JaxschedError: the system has no named traces.
        """
        if not self.workload.traces:
            raise JaxschedError(f"{self.name}: has no named traces; name a file of job tables")
        first = self.workload.traces[0].name
        return TraceSet(first, first)

    @property
    def presets(self) -> Mapping[str, R]:
        """The system's own recipes by name; a small Q-network unless it has any, or no choices."""
        plain = self.plain_presets
        return {"quick": cast(R, plain["plain-dqn"])} if plain else {}

    @property
    def plain_presets(self) -> Mapping[str, Recipe]:
        """A recipe for every learner (:mod:`jaxsched.systems.plain`); none if there is no network.

        A system without a network of its own has them if its action is one choice of several.
        """
        env = self.plain_environment()
        if not isinstance(env.action_spec(None), DiscreteSpec):
            return {}
        return plain_recipes(
            env,
            network=self.plain_network,
            horizon_s=self.learning_horizon_s,
            episode_steps=self.episode_steps,
            traces=self.traces if self.workload.traces else None,
        )

    @property
    def all_presets(self) -> Mapping[str, R | Recipe]:
        """The system's own recipes, the plain ones, and what :mod:`jaxsched.systems.gpu` adds."""
        plain = self.plain_presets
        return {**self.presets, **plain, **gpu.gpu_presets(plain)}

    def preset_info(self, name: str) -> PresetInfo:
        """What the recipe of that name is for; no words where nothing is known.

        Raises:
          JaxschedError: no such preset.
        """
        self.preset(name)
        notes = {"quick": PURPOSES["plain-dqn"], **PURPOSES, **gpu.PURPOSES, **self.preset_notes}
        return notes.get(name, PresetInfo(""))

    def plain_environment(self) -> E:
        """What plain recipes learn in; here the usual cluster with the reward of look-aheads."""
        return self.planning_environment(self.environment())

    def planning_environment(self, env: E) -> E:
        """``env`` with the reward that a look-ahead adds up; here ``env`` itself.

        States are the same, and so are schedules.
        """
        return env

    def params(self, env: E, tables: Sequence[JobTable]) -> P:
        """Environment parameters for these job tables: what the environment's ``params`` makes."""
        made: P = cast(Any, env).params(list(tables))
        return made

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Tables of rigid jobs (or already this system's) as this system's jobs."""
        return list(tables)

    def mapping(self, env: E, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """How real traces are mapped onto this system; gaps or load rescaled where given.

        Args:
          env: whose cluster the jobs are for: a load is the load of that one.
          mean_gap_s: mean gap that is asked for.
          load: load that is asked for.
        """
        return MappingConfig.on(
            self.cluster_gpus(env),
            mean_gap_s=mean_gap_s,
            load=load,
            model_shares=self.model_shares,
        )

    def heuristic(self, name: str, env: E, num_jobs: int, options: Mapping[str, Any]) -> Heuristic:
        """The heuristic of that name, on the cluster of ``env``.

        The same objects for equal arguments: they are static arguments of the evaluation.

        Args:
          name: one of ``policies``.
          env: the cluster.
          num_jobs: of the longest table to be played.
          options: some of ``heuristic_options``.

        Raises:
          JaxschedError: no such policy, or an option with a bad value.
        """
        del num_jobs
        self.checked_options(options)
        make = self.policy_info(name).make
        assert make is not None, f"{self.name}: {name} has no ``make``"
        return Heuristic(env, _made(make, env))

    def network(self, env: E, kind: str) -> Network:
        """The recipe's network of that kind; here widths such as ``mlp-64-64``.

        The number of actions must follow from the options: the spec is asked without parameters.

        Raises:
          JaxschedError: no such kind, or actions that are not one choice of several.
        """
        hidden = sizes_of(kind)
        return MLP(self._num_actions(env), hidden)

    def measured(
        self, env: E, params: P, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics of each episode, float64 ``[E]``; here those that the standard record has.

        Args:
          env: the environment the records come from.
          params: its parameters.
          episodes: int ``[E]``, the episodes played.
          records: of ``recorder``, NumPy arrays ``[E, ...]``.
        """
        del env, params, episodes
        return of_log(records)

    def curves(self, records: Any) -> dict[str, np.ndarray]:
        """Means over the episodes by name, float64 ``[n]``; here none."""
        del records
        return {}

    def stages(self, recipe: R | Recipe, tables: Sequence[JobTable]) -> Sequence[TrainingSetup]:
        """Environment, learner and loop of a recipe's stages.

        Each stage starts from the policy that the one before it chose.
        """
        return stages_of(self, cast(Recipe, recipe), tables)

    def claims(
        self, env: E, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """The paper's claims beside what was measured, rows of the report's table; here none.

        Args:
          env: the cluster.
          summary: policy -> metric or curve figure -> mean over the episodes.
          learned: which of the policies is the learned one; it finishes (nearly) all jobs.
        """
        del env, summary, learned
        return []

    def published(
        self, env: E, tables: Sequence[JobTable], summary: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Any] | None:
        """Figures that others published for this cluster beside those measured; here none.

        Args:
          env: the cluster.
          tables: the episodes.
          summary: policy -> metric -> mean over the episodes.

        Returns:
          ``title``, ``columns`` and ``rows``, all of words.
        """
        del env, tables, summary
        return None

    def facts(self, env: E, options: Mapping[str, Any]) -> dict[str, str]:
        """The cluster and the heuristics' options in words, shown with results.

        Raises:
          JaxschedError: the system's heuristics have no such option.
        """
        return {**env.facts(), **self.option_facts(env, self.checked_options(options))}

    def option_facts(self, env: E, chosen: Mapping[str, Any]) -> dict[str, str]:
        """The heuristics' options in words, defaults filled in."""
        del env
        words = (f"{name.replace('_', ' ')} {value}" for name, value in chosen.items())
        return {"heuristics": ", ".join(words)} if chosen else {}

    def shipped_digest(self, recipe: Any | None = None) -> str:
        """Of the shipped parameters that a recipe learns from; of all of them without a recipe.

        Empty if there are none.
        """
        del recipe
        return ""

    def recipe_traces(self, recipe: Any) -> TraceSet:
        """The tables that a recipe uses; those of the system unless it names its own."""
        return recipe.traces or self.traces

    def budget(self, recipe: Any) -> int:
        """Environment steps of all loops of a recipe, of one seed."""
        return budget(recipe)

    def network_policy(self, env: E, kind: str, name: str, play: Play) -> Policy:
        """The policy whose weights are the parameters of that network.

        The same object at each call: evaluations are compiled for it.
        """
        real = isinstance(env.action_spec(None), ArraySpec)
        return _scoring(self.network(env, kind), name, "output" if real else play)

    def value_network(self, env: E, kind: str) -> Any:
        """The value network of that kind; here widths such as ``mlp-64-64``.

        Raises:
          JaxschedError: no such kind.
        """
        del env
        return ValueMLP(sizes_of(kind))

    def policy_model(self, env: E, kind: str, **options: Any) -> PolicyModel | None:
        """What a policy of that kind is made of while it learns in ``env``; here None.

        None: it is scores of actions, or outputs of ``network``.
        """
        del env, kind, options
        return None

    def teacher(self, name: str, env: E) -> Policy:
        """Who is imitated in ``env``; here the heuristic of that name.

        Raises:
          JaxschedError: nobody has that name.
        """
        return self.heuristic(name, env, self.num_jobs, {}).policy

    def init_weights(self, env: E, kind: str, params: Any) -> PyTree:
        """Network parameters of the right structure, shapes and dtypes (values arbitrary)."""
        observation = env.observation_spec(params).zeros()
        return self.network(env, kind).init(jax.random.key(0), observation[None])

    def weights_spec(self, env: E, kind: str, params: Any) -> PyTree:
        """What ``init_weights`` gives, as ``jax.ShapeDtypeStruct`` leaves on the default device."""
        spec = jax.eval_shape(lambda: self.init_weights(env, kind, params))
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), spec)

    def play(
        self,
        env: E,
        policy: Policy,
        params: Any,
        weights: PyTree = (),
        *,
        schedule: Sequence[int] = (),
        key: PRNGKey | None = None,
    ) -> Played:
        """One policy on every episode of ``params``.

        Args:
          env: the environment.
          policy: the decision rule.
          params: environment parameters.
          weights: the policy's network parameters, if it has any.
          schedule: episodes whose schedule is wanted.
          key: for policies and environments that draw; that of seed 0 by default.

        Raises:
          JaxschedError: an episode did not end within the environment's step bound.
        """
        episodes = np.arange(env.num_episodes(params))
        outcome = run_episodes(
            env,
            policy,
            self.recording(env).recorder if len(schedule) else self.recorder(env),
            params,
            to_device(episodes, jnp.int32),
            jax.random.key(0) if key is None else key,
            weights,
        )
        if not bool(jnp.all(outcome.finished)):
            raise JaxschedError(f"{policy.name}: an episode did not end within its step bound")
        records = jax.tree.map(np.asarray, outcome.records)
        return Played(
            self.measured(env, params, episodes, records),
            self.curves(records),
            self.schedules(env, params, episodes, records, schedule),
        )

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The heuristics' options, defaults filled in.

        Raises:
          JaxschedError: the system's heuristics have no such option.
        """
        for name in options:
            if name not in self.heuristic_options:
                known = ", ".join(self.heuristic_options) or "none"
                raise JaxschedError(
                    f"{self.name}: heuristics have no option {name!r}; known: {known}"
                )
        return {**self.heuristic_options, **options}

    def score(self, played: Played, tables: Sequence[JobTable]) -> float:
        """What policies are chosen by: the mean of the primary metric over the episodes.

        A job that did not finish before its episode was cut counts as ``unfinished_score``.
        """
        values = np.asarray(played.metrics[self.primary_metric], np.float64)
        if self.unfinished_score is not None:
            done = np.asarray(played.metrics["finished"], np.float64)
            total = np.array([len(table) for table in tables], np.float64)
            values = (values * done + self.unfinished_score * (total - done)) / total
        return float(values.mean())

    @property
    def score_sign(self) -> float:
        """1 where a higher score is the better one, -1 where a lower one is."""
        return 1.0 if self.metric(self.primary_metric).better == "higher" else -1.0

    def best_of(self, scores: Sequence[float | None]) -> int:
        """Place of the best score, the first of equals; 0 where none is known."""
        known = [
            (self.score_sign * score, -place)
            for place, score in enumerate(scores)
            if isinstance(score, int | float) and not math.isnan(score)
        ]
        return -max(known)[1] if known else 0

    def metric(self, name: str) -> Metric:
        """How to show a metric, and what it is."""
        return self.own_metrics[name] if name in self.own_metrics else METRICS[name]

    def policy_info(self, name: str) -> PolicyInfo:
        """What is known of a heuristic.

        Raises:
          JaxschedError: no such policy.
        """
        if name not in self.policies:
            known = ", ".join(self.policies)
            raise JaxschedError(f"{self.name}: unknown policy {name!r}; known are {known}")
        return self.policies[name]

    def preset(self, name: str) -> Any:
        """The recipe of that name.

        Raises:
          JaxschedError: no such preset.
        """
        known = self.all_presets
        if name not in known:
            names = ", ".join(known)
            raise JaxschedError(f"{self.name}: unknown preset {name!r}; known are {names}")
        return known[name]

    def policy_names(self, *kinds: Kind, env: E | None = None) -> tuple[str, ...]:
        """Names of the heuristics of these kinds, in table order, of ``usual_policies``."""
        usual = self.usual_policies(env)
        return tuple(name for name in usual if self.policies[name].kind in kinds)

    def usual_policies(self, env: E | None = None) -> list[str]:
        """Names of the heuristics that play unless others are asked for: all but slow ones.

        Args:
          env: the cluster, for systems in which that matters; the usual one by default.
        """
        del env
        return [name for name, info in self.policies.items() if not info.slow]


@cache
def _made(make: Any, env: Environment) -> Policy:
    policy: Policy = make(env)
    return policy


_MAKE = {"greedy": greedy_scores, "sampled": sampled_scores, "output": real_outputs}


def _scoring(network: Any, name: str, play: str) -> Policy:
    """The policy of a network's scores, kept where the network can be told from others."""
    try:
        hash(network)
    except TypeError:
        return _kept_scoring.__wrapped__(network, name, play)
    return _kept_scoring(network, name, play)


@lru_cache(maxsize=64)
def _kept_scoring(network: Any, name: str, play: str) -> Policy:
    return _MAKE[play](name, network.apply)
