"""What a system tells the rest of the library about itself.

The command line, the training driver and the comparisons work on this record alone; they import a
system only by name, through ``jaxsched.registry``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.evaluation import Recorder, run_episodes
from jaxsched.jobs import JobTable
from jaxsched.learner import Learner
from jaxsched.policies import Policy, greedy_scores
from jaxsched.traces.mapping import MappingConfig
from jaxsched.training import LoopConfig
from jaxsched.types import PyTree

Kind = Literal["baseline", "yardstick", "diagnostic"]


class PolicyInfo(NamedTuple):
    """A rule-based policy of a system."""

    kind: Kind
    description: str


class TrainingSetup(NamedTuple):
    """All that the training driver needs of a recipe.

    Attributes:
      env: environment to learn in.
      learner: the algorithm.
      loop: sizes of the loop.
      params_at: environment parameters at a training progress in [0, 1] (curricula).
      policy: the greedy policy of the learner's network parameters.
      network: kind of the network, as ``System.network`` knows it.
      gradient_steps: gradient steps of each update, for the display.
      variants: what differs from the paper's recipe, one line each.
    """

    env: Environment
    learner: Learner
    loop: LoopConfig
    params_at: Callable[[float], Any]
    policy: Policy
    network: str
    gradient_steps: int
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
        """The network as steps of ``jaxsched.network_description``."""


class System(ABC):
    """One published system: environment, policies, metrics, presets."""

    name: str
    title: str
    source: str
    behaviour_version: int
    primary_metric: str
    metrics: tuple[str, ...]  # keys of ``metrics.METRICS``, in table order
    policies: Mapping[str, PolicyInfo]
    presets: Mapping[str, Any]
    train_trace: str
    test_trace: str

    @abstractmethod
    def environment(self, **options: Any) -> Environment:
        """An environment with these static options (the paper's where left out)."""

    @abstractmethod
    def environment_options(self, env: Environment) -> dict[str, Any]:
        """The static options of an environment, JSON-able."""

    @abstractmethod
    def params(self, env: Environment, tables: Sequence[JobTable]) -> Any:
        """Environment parameters for these job tables."""

    @abstractmethod
    def policy(self, name: str, mode: str) -> Policy:
        """The rule-based policy of that name."""

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
    def training(self, recipe: Any, tables: Sequence[JobTable]) -> TrainingSetup:
        """Environment, learner and loop of a recipe."""

    @abstractmethod
    def claims(self, summary: Mapping[str, Mapping[str, float]], learned: str) -> list[dict]:
        """The paper's claims beside what was measured, rows of the report's table.

        Args:
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
        """What the observation's entries mean: ``jaxsched.export.Feature`` by name."""

    @abstractmethod
    def action_names(self, env: Environment) -> Sequence[str]:
        """A name for each action."""

    def network_policy(self, env: Environment, kind: str, name: str) -> Policy:
        """The greedy policy whose weights are the parameters of that network."""
        return greedy_scores(name, self.network(env, kind).apply)

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
        """Names of the rule-based policies of these kinds, in table order."""
        return tuple(name for name, info in self.policies.items() if info.kind in kinds)
