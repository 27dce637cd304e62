"""What a system hands over to the driver, the comparisons and the evaluator."""

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
        function from observations to scores, of which the best legal one counts; options are those
        of the system's heuristics, if it has any.
      plays_in: ``plays_in(env, num_jobs, **options)``, the environment that it plays in on the
        cluster of ``env``; ``num_jobs`` of the longest table to be played.
      slow: takes minutes, and so plays only where it is asked for by name.
      clairvoyant: knows what no scheduler can, such as hidden run times.
      knows: what of the jobs its decisions read, in a few words.
      apart: plays on other terms, such as ending jobs early, so that it is no rival of the others.
      best: the best one known, which comparisons name first; of several the first that plays.
      usual: ``usual(env)``, whether it plays in that cluster (None: the usual one) unless others
        are asked for.
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
    """What a recipe is for.

    Attributes:
      purpose: one line.
      takes: how long one training took and on what, where it was timed.
    """

    purpose: str
    takes: str = ""


class TraceSet(NamedTuple):
    """The job tables that a recipe uses, as the argument ``traces`` names them.

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


class Heuristic(NamedTuple):
    """A heuristic and the environment that it plays in."""

    env: Environment
    policy: Policy
    weights: PyTree = ()


class Shipped(NamedTuple):
    """A heuristic that is made of weights, as a trained policy is.

    Attributes:
      env: the environment that it plays in.
      kind: of its network, as ``Networks.plays`` knows it.
      weights: those that come with the system.
    """

    env: Environment
    kind: str
    weights: PyTree


def compiled_together(heuristics: Sequence[Heuristic]) -> list[Heuristic]:
    """The same, but those of one environment share a policy: what plays it is compiled once."""
    shared = []
    for env, policy, weights in heuristics:
        group = tuple(dict.fromkeys(other.policy for other in heuristics if other.env == env))
        if len(group) == 1:
            shared.append(Heuristic(env, policy, weights))
        else:
            shared.append(Heuristic(env, one_of(group), jnp.int32(group.index(policy))))
    return shared


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
      network: kind of the network, as ``Networks.policy`` knows it.
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

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update: of its rollout, and of what is played beside it at most.

        See :class:`~jaxsched.core.learner.Branching`; each play counts as if it had its full
        length.
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
      schedule: of the episodes that were asked for; empty where the records do not tell.
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
