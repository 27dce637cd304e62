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
    """What one kind of policy is made of: agents that learn, or a rule that is searched for.

    Attributes:
      agents: the policy's; None: it is found by search alone.
      critic: ``critic(kind, agents)`` of that kind of value network, for PPO.
      value: network of a state's value, for branching.
      losses: loss of each agent against the imitated action, for branching.
      scale: of differences in losses of rankings, for branching.
      greedy: the agents' greedy policy for a single environment, if there is a faster one.
      init: ``(key, specs) -> params``, where a search starts.
      decide: ``(params, observation, mask) -> action`` of one environment, for a search; None: the
        policy is not found by search.
      learns_in: the environment that adds what the agents remember.
      teacher: whom they imitate, by name, in ``learns_in`` of the environment.
      rounded: ``rounded()``, the same with networks that multiply in bfloat16 while learning; None:
        they do not.
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
    """The same where observations carry the whole state, which a critic alone reads.

    ``teacher`` then plays in that environment, as a rival.
    """
    teacher, agents = model.teacher, model.agents
    return model._replace(
        agents=None if agents is None else reading(agents, seen),
        greedy=None if model.greedy is None else playing_inside(model.greedy),
        teacher=None if teacher is None else lambda name: playing_inside(teacher(name)),
    )
