"""Rules as policies, which answer one offer after the other (specification, sections 3.3 and 9).

The order of tasks is the environment's; a policy chooses among the servers that can take the task
on offer. The linear rule, ours, was found by search on training workloads: the server of the least
cost, a weighted sum of what the observation says about each, takes the task.

Axes: ``S`` servers, ``F`` features.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.heuristics import HOSTS
from jaxsched.envs.mlfs.rules.observation import (
    NUM_GLOBAL,
    NUM_SERVER,
    NUM_TASK,
    SERVER_NAMES,
    TASK_NAMES,
)
from jaxsched.envs.mlfs.rules.offers import offered
from jaxsched.envs.mlfs.rules.state import State
from jaxsched.envs.mlfs.rules.tables import Params
from jaxsched.types import Array, PRNGKey, PyTree


def rule_answer(env: MLFS, state: State, params: Params) -> Array:
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
        return rule_answer(env, view.state, view.params), memory

    return Policy(name or env.order, no_memory, act, privileged=True)


FEATURES = (
    *("gpu_use", "cpu_use", "mem_use", "bandwidth_use"),
    *("least_gpu", "most_gpu", "local_share", "delay"),
)
"""Entries of the servers, and the share of a moved task's time that the move takes."""

FOUND = (0.1, 0.0, -0.1, 0.15, -0.3, 0.15, -1.5, 1.6)
"""Costs of the features (``benchmarks/once/mlfs_search.py``, rounded): where the task's
communication stays inside, without moving it, and of such servers rather one that is in use
already."""


def host_features(env: MLFS, observation: Array) -> Array:
    """Float32 ``[S, F]`` of an observation."""
    servers = observation[NUM_GLOBAL + NUM_TASK :].reshape(env.num_servers, NUM_SERVER)
    work = 10.0 * observation[NUM_GLOBAL + TASK_NAMES.index("work")]  # minutes
    move = env.move_work / 1000.0
    share = move / jnp.maximum(work + move, 1e-3)
    columns = {name: servers[:, index] for index, name in enumerate(SERVER_NAMES)}
    columns["delay"] = columns["moves"] * share
    return jnp.stack([columns[name] for name in FEATURES], axis=-1)


@cache
def linear_host(env: MLFS, name: str = "linear") -> Policy:
    """The policy; its weights are the costs, those found by search where there are none."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del key
        costs = np.array(FOUND, np.float32) if isinstance(weights, tuple) else weights
        cost = host_features(env, view.observation) @ costs
        cost = jnp.where(view.mask[:-1], cost, jnp.inf)
        return jnp.argmin(cost).astype(jnp.int32), memory

    return Policy(name, no_memory, act)
