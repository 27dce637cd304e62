"""Types that systems give to training, comparisons and evaluations."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.learner import Learner
from jaxsched.core.policies import Play, Policy, one_of
from jaxsched.core.training import LoopConfig
from jaxsched.jobs.schedule import Schedule
from jaxsched.types import DiscreteSpec, PyTree

Kind = Literal["baseline", "reference"]


def _as_it_is(env: Any, num_jobs: int, **options: Any) -> Any:
    del num_jobs, options
    return env


def _everywhere(env: Any) -> bool:
    del env
    return True


class Rule(NamedTuple):
    """A policy without training: a heuristic of a system.

    Attributes:
      kind: a baseline of the paper, or a reference policy of ours.
      description: one line.
      make: ``make(env, **options)``, the policy in an environment that ``plays_in`` made, or a
        function from observations to scores, of which the best legal one is taken; the options are
        those of the system's heuristics, if it has any.
      plays_in: ``plays_in(env, num_jobs, **options)``, the environment that it plays in on the
        cluster of ``env``; ``num_jobs`` of the longest table to be played.
      slow: takes minutes, so that it is evaluated only when asked for by name.
      clairvoyant: knows what no scheduler can, such as hidden run times.
      knows: facts about jobs that its decisions read, in a few words.
      apart: not comparable with the others, as it may end jobs early, for example.
      best: the best rule known, which comparisons name first; of several the first that is
        evaluated.
      usual: ``usual(env)``, whether it is evaluated on that cluster (None: the usual one) by
        default.
      takes_options: whether ``make`` takes the options.
    """

    kind: Kind
    description: str
    make: Callable[..., Any]
    plays_in: Callable[..., Any] = _as_it_is
    slow: bool = False
    clairvoyant: bool = False
    knows: str = ""
    apart: bool = False
    best: bool = False
    usual: Callable[[Any], bool] = _everywhere


class PresetInfo(NamedTuple):
    """Purpose of a recipe.

    Attributes:
      purpose: one line.
      takes: duration of one training and its device, if it was timed.
    """

    purpose: str
    takes: str = ""


class TraceSet(NamedTuple):
    """The job tables that a recipe uses, as the argument ``traces`` names them.

    Attributes:
      train: training tables.
      test: test tables, evaluated once, at the end.
      validation: tables on which policies are chosen; None: the training tables.
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


class Heuristic(NamedTuple):
    """A heuristic and the environment that it plays in."""

    env: Environment
    policy: Policy
    weights: PyTree = ()


class Shipped(NamedTuple):
    """A heuristic with weights, like a trained policy.

    Attributes:
      env: the environment that it plays in.
      kind: of its network, as ``Networks.policy_of`` knows it.
      weights: those that come with the system.
    """

    env: Environment
    kind: str
    weights: PyTree


def compiled_together(heuristics: Sequence[Heuristic]) -> list[Heuristic]:
    """The same heuristics; those of one environment share a policy and so a compiled program."""
    shared = []
    for env, policy, weights in heuristics:
        group = tuple(dict.fromkeys(other.policy for other in heuristics if other.env == env))
        if len(group) == 1:
            shared.append(Heuristic(env, policy, weights))
        else:
            shared.append(Heuristic(env, one_of(group), jnp.int32(group.index(policy))))
    return shared


class TrainingSetup(NamedTuple):
    """One stage of a recipe, as the training driver runs it.

    Attributes:
      name: of the stage, a word.
      env: environment to learn in.
      play_env: environment in which the learned policy is scored, tested and exported.
      learner: the algorithm.
      loop: sizes of the loop.
      params_at: environment parameters at a training progress in [0, 1] (curricula).
      policy: the policy of the learner's network parameters.
      play: whether that policy takes the best action or draws one.
      network: kind of the network, as ``Networks.policy`` knows it.
      gradient_steps: gradient steps of each update, for the display.
      evaluate_every: updates between evaluations on the validation tables.
      checkpoint_every: updates between checkpoints of the whole stage.
      variants: differences from the paper's recipe, one line each.
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

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update: its rollout, and at most those of branching.

        See :class:`~jaxsched.core.learner.Branching`; each rollout of a candidate counts with its
        full length.
        """
        if self.learner.branching is None:  # parameters may have to be recorded first
            return self.loop.steps_per_update
        params = self.params_at(0.0)
        spec = self.env.action_spec(params)
        num_actions = spec.num_actions if isinstance(spec, DiscreteSpec) else None
        plays = self.learner.branching.config
        tried = plays.most_steps(num_actions, self.env.max_steps(params))
        return self.loop.steps_per_update + self.loop.num_envs * tried

    @property
    def env_steps(self) -> int:
        """Environment steps of the whole stage."""
        return self.loop.num_updates * self.steps_per_update


def always(params: Any) -> Callable[[float], Any]:
    """The same environment parameters at every training progress."""
    return lambda progress: params


class Played(NamedTuple):
    """One policy on the episodes of an evaluation.

    Attributes:
      metrics: name -> float64 ``[E]``.
      curves: name -> float64 ``[n]``, means over the episodes.
      schedule: schedules of the episodes asked for; empty if records do not suffice.
    """

    metrics: dict[str, Any]
    curves: dict[str, Any]
    schedule: list[Schedule]


class Network(Protocol):
    """A flax module that gives a score for each action."""

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """``init(key, observation) -> weights``."""

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """``apply(weights, observation) -> scores``, ``[..., D]`` to ``[..., A]``."""

    def describe(self) -> Sequence[Any]:
        """The network as steps of ``jaxsched.networks.description``."""
