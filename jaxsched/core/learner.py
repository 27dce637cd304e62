"""The learner protocol: a record of pure functions over a batch of environments.

Every algorithm is a function from its settings to a ``Learner``; the training loop
(:mod:`jaxsched.core.training`) knows nothing else of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

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
    """

    init: InitFn
    act: ActFn
    update: UpdateFn
    policy_params: Callable[[Any], PyTree]
