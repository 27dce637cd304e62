"""DAS' learned policies as learners take them, and what their rewards may be relative to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents
from jaxsched.algorithms.critics import Critic, action_value, state_value
from jaxsched.algorithms.regression import AgentLoss
from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.agents import ORDERING, PLACEMENT, with_history
from jaxsched.envs.das.learning.critic import ActionValue, StateValue, critic_features
from jaxsched.envs.das.learning.linear import StartOrder, decide_linear, init_linear
from jaxsched.envs.das.learning.network_kinds import (
    Units,
    agents_of,
    policy_named,
    read_kind,
    teacher_of,
)
from jaxsched.envs.das.learning.network_policies import das_policy
from jaxsched.envs.das.learning.scored import Beginning, beginning, decide_scored
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.systems.policy_model import PolicyModel

CRITICS = ("action", "state")
RANKING_SCALE = 15.0
"""Of differences between the means of DAS' networks, which are squeezed into (-1, 1)."""


def policy_model(
    env: DAS,
    kind: str,
    *,
    units: Units = "real",
    order: StartOrder = "fifo",
    begins: Beginning = "linear",
) -> PolicyModel:
    """What a kind of policy is made of.

    Args:
      env: the cluster.
      kind: see ``kinds.py``.
      units: what counts in the losses: all positions that hold a job, or those whose part of the
        action has an effect (``effective.py``).
      order: of the linear rule that a search starts at: first come first served, or fewest GPUs
        first.
      begins: where the search for a richer rule starts.

    Raises:
      JaxschedError: no such kind.
    """
    policy, network = read_kind(kind)
    if policy == "linear":
        return PolicyModel(
            init=partial(init_linear, order=order),
            decide=lambda params, observation, mask: decide_linear(env, params, observation),
        )
    if policy == "scored":
        return PolicyModel(
            init=lambda key, specs: beginning(env, begins),
            decide=lambda params, observation, mask: decide_scored(env, params, observation),
        )
    own = policy == "das"
    return PolicyModel(
        agents=agents_of(policy, env, network, units),
        critic=partial(_critic, env),
        value=StateValue(env),
        losses=imitation_losses(policy),
        scale=RANKING_SCALE,
        plays=das_policy(env, network) if own and not network.remembers else None,
        learns_in=partial(with_history, options=network) if own else lambda learned_in: learned_in,
        teacher=lambda name: teacher_of(name, policy, env, network),
    )


def _critic(env: DAS, kind: str, agents: Agents) -> Critic:
    """Of actions, as the paper's, or of states."""
    if kind not in CRITICS:
        raise JaxschedError(f"das: value_network is {kind!r}; accepted: {', '.join(CRITICS)}")
    if kind == "action":
        return action_value(ActionValue(), agents, critic_features)
    return state_value(StateValue(env))


def imitation_losses(policy: str) -> tuple[AgentLoss, ...]:
    """What each policy learns of a teacher."""
    order, place = AgentLoss(ORDERING, "ranking"), AgentLoss(PLACEMENT, "ranking")
    losses: dict[str, tuple[AgentLoss, ...]] = {
        "das": (order, place),
        "dl2": (AgentLoss(ORDERING, "squared"),),
        "rifling": (place,),
    }
    return losses[policy]


@dataclass(frozen=True)
class RelativeTo:
    """The dense reward counts completion time and fee relative to what a heuristic gets.

    The return of an episode is then minus ``dense_scale`` times (completion time over the
    heuristic's plus ``fee_weight`` times fee over the heuristic's).

    Attributes:
      heuristic: which, or a rule; it plays each training episode once.
      fee_weight: of the relative fee, that of the relative completion time being 1.
    """

    heuristic: str
    fee_weight: float = 1.0

    def __call__(self, env: DAS, params: Params) -> Callable[[], Params]:
        """What makes such parameters.

        Raises:
          JaxschedError: no such heuristic, or another reward.
        """
        if env.reward != "dense":
            raise JaxschedError(
                f"das: adjust is relative to {self.heuristic} and env.reward is {env.reward!r}; "
                "accepted: 'dense'"
            )
        plain = replace(env, sampling="first", events_per_step=2)
        policy = policy_named(self.heuristic, plain)

        def relative() -> Params:
            found: Any = rec.play(plain, policy, params)
            return params._replace(
                jct_ref_min=jnp.asarray(found["avg_jct_min"], jnp.float32),
                fee_ref=jnp.asarray(found["avg_fee"] / self.fee_weight, jnp.float32),
            )

        return relative
