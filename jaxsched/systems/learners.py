"""The registry of learners by the type of their settings; programs can add their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from jaxsched.algorithms.actor_critic import actor_critic
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.agents import Agents
from jaxsched.algorithms.branching import branching, branching_of_agents
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, cross_entropy
from jaxsched.algorithms.dqn import DQNConfig, dqn, explore_uniformly
from jaxsched.algorithms.evolution import EvolutionConfig, evolution, search_of
from jaxsched.algorithms.imitation import ImitationConfig, imitation
from jaxsched.algorithms.ppo import mappo, ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.algorithms.regression import RegressionConfig, regression
from jaxsched.algorithms.softmax import best_legal
from jaxsched.core.learner import Learner
from jaxsched.core.policies import Policy
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.systems.policy_model import PolicyModel


class Parts(NamedTuple):
    """Components from which a learner is made.

    Attributes:
      config: its settings.
      network: the policy's network; None with ``model``.
      value: makes the value network, for learners that have one.
      explore: distribution of exploring actions; None: the learner's own.
      credit: rewards of single decisions, see ``algorithms.actor_critic``; None: their group's
        reward.
      kept: which single decisions are learnt from, see there; None: all.
      augment: augmentation of decisions before they are imitated; None: none.
      act: ``(scores, mask) -> action``, where the action is not one choice of several; None: it is.
      model: of a policy that is more than scores of actions; None: the policy is scores.
      value_kind: kind of the value network that ``model.critic`` makes.
      rivals: policies whose actions branching of agents tries.
    """

    config: Any
    network: Any = None
    value: Callable[[], Any] = lambda: None
    explore: Any = None
    credit: Any = None
    kept: Any = None
    augment: Any = None
    act: Callable[[Any, Any], Any] | None = None
    model: PolicyModel | None = None
    value_kind: str = ""
    rivals: tuple[Policy, ...] = ()

    @property
    def agents(self) -> Agents:
        """The agents of the policy.

        Raises:
          JaxschedError: it has none.
        """
        if self.model is None or self.model.agents is None:
            what = "scores of actions" if self.model is None else "found by search"
            raise JaxschedError(
                f"learner is {type(self.config).__name__}; accepted: for agents, and the policy is "
                f"{what}"
            )
        return self.model.agents


class Known(NamedTuple):
    """A learner that recipes can name.

    Attributes:
      name: default name of its stage and policy.
      make: ``make(parts) -> learner``.
    """

    name: str
    make: Callable[[Parts], Learner]


def register(config: type, name: str, make: Callable[[Parts], Learner]) -> None:
    """Register a learner for recipes whose settings are of that type.

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
    """Whether a registered learner has settings of this type."""
    return type(config) in _KNOWN


def known(config: Any) -> Known:
    """The learner of these settings.

    Raises:
      JaxschedError: there is none.
    """
    if not is_known(config):
        names = ", ".join(one.__name__ for one in _KNOWN)
        raise JaxschedError(f"learner is {type(config).__name__}; accepted: {names}")
    return _KNOWN[type(config)]


def with_loop(config: Any, loop: LoopConfig) -> Any:
    """The settings, adapted to the sizes of the loop."""
    sizes = {"total_updates": loop.num_updates, "held_envs": loop.num_envs}
    own = {name: size for name, size in sizes.items() if hasattr(config, name)}
    return replace(config, **own) if own else config


def _cross_entropy(parts: Parts) -> Learner:
    dropout = parts.config.dropout and getattr(parts.network, "dropout", 1.0) > 0
    return cross_entropy(parts.network, replace(parts.config, dropout=dropout))


def _ppo(parts: Parts) -> Learner:
    if parts.model is None:
        return ppo(parts.network, parts.value(), parts.config)
    agents, critic = parts.agents, parts.model.critic
    assert critic is not None, "agents have a critic"
    return mappo(agents, critic(parts.value_kind, agents), parts.config)


def _branching(parts: Parts) -> Learner:
    """Branching; of agents ``alternatives`` counts their own action, the rivals' and samples."""
    config, model = parts.config, parts.model
    if model is None:
        return branching(parts.network, config, parts.value() if config.critic else None)
    own = 1 + len(parts.rivals)
    return branching_of_agents(
        parts.agents,
        config,
        model.losses,
        value=model.value,
        scale=model.scale,
        rivals=parts.rivals,
        draws=(config.alternatives or own) - own,
        greedy=model.greedy,
    )


def _search(parts: Parts) -> Learner:
    if parts.model is None:
        return search_of(parts.network, parts.config, parts.act or best_legal)
    init, decide = parts.model.init, parts.model.decide
    if init is None or decide is None:
        raise JaxschedError("learner is EvolutionConfig; accepted: for a rule, not for agents")
    return evolution(init, decide, parts.config)


_KNOWN: dict[type, Known] = {
    DQNConfig: Known(
        "dqn",
        lambda parts: dqn(parts.network, parts.config, parts.explore or explore_uniformly),
    ),
    PPOConfig: Known("ppo", _ppo),
    ActorCriticConfig: Known(
        "actor_critic",
        lambda parts: actor_critic(
            parts.network,
            parts.value(),
            parts.config,
            parts.explore,
            parts.credit,
            parts.kept,
        ),
    ),
    BranchingConfig: Known("branching", _branching),
    EvolutionConfig: Known("search", _search),
    RegressionConfig: Known("regression", lambda parts: regression(parts.agents, parts.config)),
    CrossEntropyConfig: Known("cross_entropy", _cross_entropy),
    ImitationConfig: Known(
        "imitation", lambda parts: imitation(parts.network, parts.config, parts.augment)
    ),
}
