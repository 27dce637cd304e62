"""What a system tells the rest of the library about itself.

The command line, the training driver and the comparisons work on this record alone; they import a
system only by name, through ``jaxsched.systems.registry``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.learner import Learner
from jaxsched.core.policies import Play, Policy, greedy_scores, sampled_scores
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import PyTree

Kind = Literal["baseline", "yardstick"]


class PolicyInfo(NamedTuple):
    """A rule-based policy of a system.

    Attributes:
      kind: a baseline of the paper, or a yardstick of ours.
      description: one line.
      slow: takes minutes, and so plays only where it is asked for by name.
    """

    kind: Kind
    description: str
    slow: bool = False


class TraceSet(NamedTuple):
    """The job tables that a recipe uses, as ``--trace`` names them.

    Attributes:
      train: what is learnt on.
      test: touched once, at the end.
      validation: what policies are chosen on; None: the training tables themselves.
      num_train: tables to draw for training, where ``train`` is a generator.
      num_validation: the same for validation.
      num_test: the same for the test.
    """

    train: str
    test: str
    validation: str | None = None
    num_train: int | None = None
    num_validation: int | None = None
    num_test: int | None = None


class Rule(NamedTuple):
    """A rule-based policy and the environment that it plays in."""

    env: Environment
    policy: Policy


class TrainingSetup(NamedTuple):
    """All that the training driver needs of one stage of a recipe.

    Attributes:
      name: of the stage, a word.
      env: environment to learn in.
      play_env: environment that the learned policy is scored, tested and handed over with.
      learner: the algorithm.
      loop: sizes of the loop.
      params_at: environment parameters at a training progress in [0, 1] (curricula).
      policy: the policy of the learner's network parameters.
      play: whether that policy takes the best action or draws one.
      network: kind of the network, as ``System.network`` knows it.
      gradient_steps: gradient steps of each update, for the display.
      evaluate_every: updates between evaluations on the validation tables.
      checkpoint_every: updates between checkpoints of the whole stage.
      variants: what differs from the paper's recipe, one line each.
    """

    name: str
    env: Environment
    play_env: Environment
    learner: Learner
    loop: LoopConfig
    params_at: Callable[[float], Any]
    policy: Policy
    play: Play
    network: str
    gradient_steps: int
    evaluate_every: int
    checkpoint_every: int
    variants: tuple[str, ...]


class Played(NamedTuple):
    """One policy on the episodes of an evaluation.

    Attributes:
      metrics: name -> float64 ``[E]``.
      curves: name -> float64 ``[n]``, means over the episodes.
      schedule: per episode, what a Gantt picture needs (system's own layout, JSON-able); empty
        unless asked for.
    """

    metrics: dict[str, Any]
    curves: dict[str, Any]
    schedule: list[dict[str, Any]]


class Network(Protocol):
    """A flax module that gives a score for each action."""

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """``init(key, observation) -> weights``."""

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """``apply(weights, observation) -> scores``, ``[..., D]`` to ``[..., A]``."""

    def describe(self) -> Sequence[Any]:
        """The network as steps of ``jaxsched.networks.description``."""


class System(ABC):
    """One published system: environment, policies, metrics, presets."""

    name: str
    title: str
    source: str
    behaviour_version: int
    environment_type: type[Any]  # a frozen dataclass that is an Environment
    primary_metric: str
    metrics: tuple[str, ...]  # keys of ``metrics.METRICS``, in table order
    policies: Mapping[str, PolicyInfo]
    presets: Mapping[str, Any]
    traces: TraceSet  # of evaluations without a recipe
    num_jobs: int  # of each table made of a real trace
    unfinished_score: float | None = None  # of a job, where episodes may be cut
    rule_options: Mapping[str, Any] = {}  # option of the rules -> its default

    def environment(self, **options: Any) -> Environment:
        """An environment with these static options (the paper's where left out).

        Raises:
          JaxschedError: no such option, or a bad value.
        """
        known = [field.name for field in fields(self.environment_type)]
        for name in options:
            if name not in known:
                raise JaxschedError(
                    f"{self.name}: unknown environment option {name!r}; known are "
                    f"{', '.join(known)}"
                )
        return self.environment_type(**options)

    def environment_options(self, env: Environment) -> dict[str, Any]:
        """The static options of an environment, JSON-able."""
        options = {field.name: getattr(env, field.name) for field in fields(self.environment_type)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}

    def shipped_digest(self, recipe: Any | None = None) -> str:
        """Of the shipped parameters that a recipe learns from; of all of them without a recipe.

        Empty if there are none.
        """
        del recipe
        return ""

    @abstractmethod
    def params(self, env: Environment, tables: Sequence[JobTable]) -> Any:
        """Environment parameters for these job tables."""

    @abstractmethod
    def rule(self, name: str, env: Environment, num_jobs: int, options: Mapping[str, Any]) -> Rule:
        """The rule-based policy of that name, on the cluster of ``env``.

        The same objects for equal arguments: they are static arguments of the evaluation.

        Args:
          name: one of ``policies``.
          env: the cluster.
          num_jobs: of the longest table to be played.
          options: some of ``rule_options``.

        Raises:
          JaxschedError: no such policy, or an option with a bad value.
        """

    @abstractmethod
    def network(self, env: Environment, kind: str) -> Network:
        """The recipe's network of that kind."""

    @abstractmethod
    def recorder(self, env: Environment) -> Recorder:
        """Gathers the records of one episode.

        The same object for equal environments: it is a static argument of the evaluation.
        """

    @abstractmethod
    def played(
        self, env: Environment, params: Any, episodes: Any, records: Any, schedule: Sequence[int]
    ) -> Played:
        """Metrics and curves of records ``[E, ...]``; schedules of the listed ones."""

    @abstractmethod
    def training(self, recipe: Any, tables: Sequence[JobTable]) -> Sequence[TrainingSetup]:
        """Environment, learner and loop of a recipe's stages.

        Each stage starts from the policy that the one before it chose.
        """

    @abstractmethod
    def claims(
        self, env: Environment, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict]:
        """The paper's claims beside what was measured, rows of the report's table.

        Args:
          env: the cluster.
          summary: policy -> metric or curve figure -> mean over the episodes.
          learned: which of the policies is the learned one.
        """

    @abstractmethod
    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case; the result has the layout of its ``expect``."""

    @abstractmethod
    def mapping(self, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """How real traces are mapped onto this system; gaps or load rescaled where given."""

    @abstractmethod
    def features(self, env: Environment) -> Mapping[str, Any]:
        """What the observation's entries mean: ``jaxsched.export.hand_over.Feature`` by name."""

    @abstractmethod
    def action_names(self, env: Environment) -> Sequence[str]:
        """A name for each action."""

    @abstractmethod
    def facts(self, env: Environment, options: Mapping[str, Any]) -> dict[str, str]:
        """The cluster and the rules' options in words, shown with results."""

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Tables of rigid jobs (or already this system's) as this system's jobs."""
        return list(tables)

    def gantt_cluster(self, env: Environment) -> dict[str, int] | None:
        """``num_servers`` and ``gpus_per_server`` of Gantt pictures; None: there are none."""
        del env
        return None

    def recipe_traces(self, recipe: Any) -> TraceSet:
        """The tables that a recipe uses; those of the system unless it names its own."""
        return getattr(recipe, "traces", self.traces)

    def budget(self, recipe: Any) -> int:
        """Environment steps that a recipe takes, of one seed."""
        return int(recipe.loop.num_updates * recipe.loop.steps_per_update)

    def network_policy(self, env: Environment, kind: str, name: str, play: Play) -> Policy:
        """The policy whose weights are the parameters of that network."""
        apply = self.network(env, kind).apply
        return greedy_scores(name, apply) if play == "greedy" else sampled_scores(name, apply)

    def init_weights(self, env: Environment, kind: str, params: Any) -> PyTree:
        """Network parameters of the right structure, shapes and dtypes (values arbitrary)."""
        observation = env.observation_spec(params).zeros()
        return self.network(env, kind).init(jax.random.key(0), observation[None])

    def play(
        self,
        env: Environment,
        policy: Policy,
        params: Any,
        weights: PyTree = (),
        *,
        schedule: Sequence[int] = (),
    ) -> Played:
        """One policy on every episode of ``params``.

        Args:
          env: the environment.
          policy: the decision rule.
          params: environment parameters.
          weights: the policy's network parameters, if it has any.
          schedule: episodes whose schedule is wanted.

        Raises:
          JaxschedError: an episode did not end within the environment's step bound.
        """
        episodes = np.arange(env.num_episodes(params))
        outcome = run_episodes(
            env,
            policy,
            self.recorder(env),
            params,
            jnp.asarray(episodes),
            jax.random.key(0),
            weights,
        )
        if not bool(jnp.all(outcome.finished)):
            raise JaxschedError(f"{policy.name}: an episode did not end within its step bound")
        return self.played(env, params, episodes, outcome.records, schedule)

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The rules' options, defaults filled in.

        Raises:
          JaxschedError: the system's rules have no such option.
        """
        for name in options:
            if name not in self.rule_options:
                known = ", ".join(self.rule_options) or "none"
                raise JaxschedError(f"{self.name}: rules have no option {name!r}; known: {known}")
        return {**self.rule_options, **options}

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

    def preset(self, name: str) -> Any:
        """The recipe of that name.

        Raises:
          JaxschedError: no such preset.
        """
        if name not in self.presets:
            known = ", ".join(self.presets)
            raise JaxschedError(f"{self.name}: unknown preset {name!r}; known are {known}")
        return self.presets[name]

    def policy_names(self, *kinds: Kind) -> tuple[str, ...]:
        """Names of the rule-based policies of these kinds, in table order, without slow ones."""
        usual = self.usual_policies()
        return tuple(name for name in usual if self.policies[name].kind in kinds)

    def usual_policies(self) -> list[str]:
        """Names of the rule-based policies that play unless others are asked for."""
        return [name for name, info in self.policies.items() if not info.slow]
