"""The learner protocol: a record of pure functions over a batch of environments.

Every algorithm is a function from its settings to a ``Learner``; the training loop
(:mod:`jaxsched.core.training`) knows nothing else of it.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from jaxsched.core.monte_carlo import Closing, LookAhead, LookAheadParams
from jaxsched.core.policies import Policy
from jaxsched.core.sharding import whole_layout
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

Metrics = dict[str, Array]


class InitFn(Protocol):
    """Builds the learner's state: networks, optimiser, replay, counters."""

    def __call__(self, key: PRNGKey, specs: Specs, params: PyTree | None = None) -> Any:
        """``params`` are network parameters to start from; drawn with ``key`` if absent."""


class ActFn(Protocol):
    """Chooses actions for a batch of observations."""

    def __call__(
        self, learner_state: Any, observation: PyTree, mask: PyTree, key: PRNGKey, /, greedy: bool
    ) -> tuple[PyTree, PyTree]:
        """Leaves are ``[B, ...]``; returns ``(action, extras)``; ``greedy`` is static."""


class UpdateFn(Protocol):
    """Learns from one rollout."""

    def __call__(
        self, learner_state: Any, rollout: Rollout, key: PRNGKey, /
    ) -> tuple[Any, Metrics]:
        """Returns the new state and float32 scalars with the same names at each call."""


class Size(NamedTuple):
    """What a learner needs of one size of the training loop.

    Attributes:
      of: ``"num_envs"``, ``"rollout_length"``, ``"num_random_streams"`` (of the environments, if
        each has its own), or ``"decisions"``: the product of the first two.
      rule: how it relates to ``number``.
      number: see ``rule``.
      because: the settings that this follows from, for the message.
    """

    of: Literal["num_envs", "rollout_length", "num_random_streams", "decisions"]
    rule: Literal["equal to", "a multiple of", "at most"]
    number: int
    because: str

    def holds(self, size: int) -> bool:
        """Whether a size is as needed."""
        if self.rule == "a multiple of":
            return size % self.number == 0
        return size == self.number if self.rule == "equal to" else size <= self.number


class Needs(NamedTuple):
    """What a learner needs of the training loop, which checks it before anything is compiled.

    Attributes:
      whole_episodes: each environment plays one whole episode per rollout
        (:class:`~jaxsched.wrappers.fixed_length.FixedLength` of the rollout's length).
      sizes: of the loop.
    """

    whole_episodes: bool = False
    sizes: tuple[Size, ...] = ()


class Branching(NamedTuple):
    """Alternatives that the training loop tries for a learner.

    At the states where a rollout leaves the environments every candidate action is played on a
    copy, and then the learner's greedy policy (:func:`jaxsched.core.look_ahead.branches`).

    Attributes:
      config: how many candidates, futures and steps.
      params: ``(learner_state) -> LookAheadParams``, horizon and discount.
      rivals: policies whose actions are the candidates beside the learner's own; their weights are
        the learner's state. Without any, candidates are choices of the environment.
      greedy: the learner's greedy policy for a single environment, without memory; its weights are
        the learner's state. ``act`` with a batch of one if absent.
      closing: what the observation that a play stops at is worth, if anything.
    """

    config: LookAhead
    params: Callable[[Any], LookAheadParams]
    rivals: tuple[Policy, ...] = ()
    greedy: Policy | None = None
    closing: Closing | None = None


class Learner(NamedTuple):
    """A learning algorithm as pure functions.

    Attributes:
      init: ``(key, specs, params=None) -> learner_state``.
      act: ``(learner_state, observation, mask, key, greedy) -> (action, extras)`` over a leading
        batch axis; ``greedy`` is a Python bool, ``extras`` any pytree that ``update`` needs.
      update: ``(learner_state, rollout, key) -> (learner_state, metrics)`` with a time-major
        ``[T, B, ...]`` rollout and a dictionary of float32 scalars.
      policy_params: ``(learner_state) -> params``, the network parameters that evaluators and
        exporters use.
      needs: what the rollouts have to be like.
      branching: what ``rollout.branches`` are to hold, if anything.
      layout: ``(learner_state) -> layout``, a tree of ``PartitionSpec``: how the state lies on
        several devices (:mod:`jaxsched.core.sharding`); all of it on each by default.
    """

    init: InitFn
    act: ActFn
    update: UpdateFn
    policy_params: Callable[[Any], PyTree]
    needs: Needs = Needs()
    branching: Branching | None = None
    layout: Callable[[Any], PyTree] = whole_layout
