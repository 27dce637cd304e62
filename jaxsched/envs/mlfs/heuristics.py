"""Rules as policies, which answer one offer after the other (specification, sections 3.3 and 9).

The order of tasks is the environment's; a policy chooses among the servers that can take the task
on offer.
"""

from functools import cache

import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.simulator.hosts import HOSTS
from jaxsched.envs.mlfs.simulator.placing import offered
from jaxsched.envs.mlfs.simulator.state import State
from jaxsched.envs.mlfs.simulator.tables import Params
from jaxsched.types import Array, PRNGKey, PyTree

__all__ = ["HOSTS", "heuristic"]


def answer(env: MLFS, state: State, params: Params) -> Array:
    """What the heuristic of the environment's order says to the offer of a state, int32."""
    rules = env.rules_of(params)
    return HOSTS[env.order](rules, params, state, offered(rules, params, state))


@cache
def heuristic(env: MLFS, name: str = "") -> Policy:
    """The heuristic that goes with the environment's order.

    Where the environment itself places whole slots by it (``decide`` "rule"), the one action.

    Args:
      env: the environment.
      name: what tables call it; that of the order by default.
    """

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        if env.decide == "rule":
            return jnp.int32(0), memory
        return answer(env, view.state, view.params), memory

    return Policy(name or env.order, no_memory, act, privileged=True)
