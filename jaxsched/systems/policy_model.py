"""Policies that are more than scores of actions, as learners need them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxsched.algorithms.agents import Agents, reading
from jaxsched.algorithms.critics import Critic
from jaxsched.algorithms.regression import AgentLoss
from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy
from jaxsched.types import PRNGKey, PyTree, Specs
from jaxsched.wrappers.privileged_state import playing_inside, seen


def _as_it_is(env: Environment) -> Environment:
    return env


class PolicyModel(NamedTuple):
    """Components of one kind of policy: agents that learn, or a rule that a search tunes.

    Attributes:
      agents: the policy's agents; None: it is tuned by search alone.
      critic: ``critic(kind, agents)`` with that kind of value network, for PPO.
      value: network of a state's value, for branching.
      losses: loss of each agent against the imitated action, for branching.
      scale: factor on differences in ranking losses, for branching.
      greedy: the agents' greedy policy for a single environment, if there is a faster one.
      init: ``(key, specs) -> params``, initial parameters of a search.
      decide: ``(params, observation, mask) -> action`` of one environment, for a search; None: the
        policy is not tuned by search.
      learns_in: the environment with the history that the agents need.
      teacher: the policy that they imitate, by name, in ``learns_in`` of the environment.
      rounded: ``rounded()``, the model whose networks multiply in bfloat16 in training; None:
        there is none.
    """

    agents: Agents | None = None
    critic: Callable[[str, Agents], Critic] | None = None
    value: Any = None
    losses: tuple[AgentLoss, ...] = ()
    scale: float = 1.0
    greedy: Policy | None = None
    init: Callable[[PRNGKey, Specs], PyTree] | None = None
    decide: Callable[[PyTree, PyTree, PyTree], PyTree] | None = None
    learns_in: Callable[[Any], Environment] = _as_it_is
    teacher: Callable[[str], Policy] | None = None
    rounded: Callable[[], "PolicyModel"] | None = None


def beside_critic(model: PolicyModel) -> PolicyModel:
    """The model for observations with the privileged state, which only a critic reads.

    ``teacher`` then acts in that environment, as a rival.
    """
    teacher, agents = model.teacher, model.agents
    return model._replace(
        agents=None if agents is None else reading(agents, seen),
        greedy=None if model.greedy is None else playing_inside(model.greedy),
        teacher=None if teacher is None else lambda name: playing_inside(teacher(name)),
    )
