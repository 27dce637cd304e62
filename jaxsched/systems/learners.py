"""Learners by the type of their settings: what recipes name, and what a program adds of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from jaxsched.algorithms.actor_critic import actor_critic
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.branching import branching
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, cross_entropy
from jaxsched.algorithms.dqn import DQNConfig, dqn, explore_uniformly
from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.imitation import ImitationConfig, imitation
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.algorithms.softmax import best_legal
from jaxsched.core.learner import Learner
from jaxsched.errors import JaxschedError


class Parts(NamedTuple):
    """What a learner is made of.

    Attributes:
      config: its settings.
      network: the policy's.
      value: makes the value network, of learners that have one.
      explore: how actions that explore are drawn; None: as the learner does.
      act: ``(scores, mask) -> action``, where the action is not one choice of several; None: it is.
    """

    config: Any
    network: Any
    value: Callable[[], Any]
    explore: Any = None
    act: Callable[[Any, Any], Any] | None = None


class Known(NamedTuple):
    """A learner that recipes can name.

    Attributes:
      name: what its stage and policy are called where nobody says otherwise.
      make: ``make(parts) -> learner``.
    """

    name: str
    make: Callable[[Parts], Learner]


def register(config: type, name: str, make: Callable[[Parts], Learner]) -> None:
    """Have recipes whose settings are of that type learn with another learner.

    Args:
      config: a frozen dataclass, see :mod:`jaxsched.algorithms.settings`.
      name: of the stage and the policy, a word.
      make: ``make(parts) -> learner``.

    Raises:
      JaxschedError: there is a learner with settings of that type.
    """
    if config in _KNOWN:
        raise JaxschedError(f"register: there is a learner with {config.__name__} already")
    _KNOWN[config] = Known(name, make)


def is_known(config: Any) -> bool:
    """Whether these are settings of a learner that recipes can name."""
    return type(config) in _KNOWN


def known(config: Any) -> Known:
    """The learner whose settings these are.

    Raises:
      JaxschedError: there is none.
    """
    if not is_known(config):
        names = ", ".join(one.__name__ for one in _KNOWN)
        raise JaxschedError(f"learner is {type(config).__name__}; accepted: {names}")
    return _KNOWN[type(config)]


def with_updates(config: Any, num_updates: int) -> Any:
    """The settings for so many updates, where they depend on it."""
    return (
        replace(config, total_updates=num_updates) if hasattr(config, "total_updates") else config
    )


def _cross_entropy(parts: Parts) -> Learner:
    dropout = parts.config.dropout and getattr(parts.network, "dropout", 1.0) > 0
    return cross_entropy(parts.network, replace(parts.config, dropout=dropout))


def _branching(parts: Parts) -> Learner:
    value = parts.value() if parts.config.critic else None
    return branching(parts.network, parts.config, value)


_KNOWN: dict[type, Known] = {
    DQNConfig: Known(
        "dqn",
        lambda parts: dqn(parts.network, parts.config, parts.explore or explore_uniformly),
    ),
    PPOConfig: Known("ppo", lambda parts: ppo(parts.network, parts.value(), parts.config)),
    ActorCriticConfig: Known(
        "actor_critic",
        lambda parts: actor_critic(parts.network, parts.value(), parts.config, parts.explore),
    ),
    BranchingConfig: Known("branching", _branching),
    EvolutionConfig: Known(
        "search",
        lambda parts: search_of(parts.network, parts.config, parts.act or best_legal),
    ),
    CrossEntropyConfig: Known("cross_entropy", _cross_entropy),
    ImitationConfig: Known("imitation", lambda parts: imitation(parts.network, parts.config)),
}
