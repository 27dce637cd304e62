"""Heuristics of DAS (specification, section 9).

Those that look at free resources before each placement play the decision on a copy and return
the affinities that they used (and, for Tetris, the order): the environment then does the same.

Axes: ``N`` positions, ``M`` machines; free resources are in whole numbers.
"""

from collections.abc import Callable
from functools import cache, partial
from math import lcm

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.simulator.dynamics import State, real_positions
from jaxsched.envs.das.simulator.placement import (
    Demand,
    Free,
    fitting,
    place,
    rank_of,
    rows_in_turn,
    take,
)
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

Order = Callable[[DAS, State], Array]
Row = Callable[[Free], Array]
INT32_END = 2**31

RULES = {
    "fifo_firstfit": ("fifo", "firstfit"),
    "fifo_loadbalance": ("fifo", "loadbalance"),
    "drf_firstfit": ("drf", "firstfit"),
    "drf_loadbalance": ("drf", "loadbalance"),
    "eager": ("fifo", "firstfit"),
    "lazy": ("fifo", "firstfit"),
}
"""Order and placement of each heuristic but Tetris; ``lazy`` is meant for the lazy environment."""
NAMES = (*RULES, "tetris")


def baseline(name: str, env: DAS) -> Policy:
    """The policy of that name; ``lazy`` needs an environment with the option ``lazy``.

    Raises:
      JaxschedError: unknown name, or a heuristic that this cluster has no exact form of.
    """
    if name not in NAMES:
        raise JaxschedError(f"das: unknown policy {name!r}; known are {', '.join(NAMES)}")
    if name == "lazy" and not env.lazy:
        raise JaxschedError(
            "das: the heuristic lazy plays in a lazy environment; accepted: lazy=True"
        )
    if name == "tetris":
        _check_tetris(env.cluster)
    return _policy(name, env)


@cache
def _policy(name: str, env: DAS) -> Policy:
    """The same object for the same heuristic and environment: programs are compiled once."""
    if name == "tetris":
        decide: Callable[[State], Action] = partial(tetris, env)
    else:
        order, placing = RULES[name]
        decide = partial(in_order, env, ORDERS[order], PLACEMENTS[placing])

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Action, PyTree]:
        del weights, key
        return decide(view.state), memory

    return Policy(name, no_memory, act, privileged=True)


def fifo(env: DAS, state: State) -> Array:
    """Priorities of the positions, earlier first, float32 ``[N]``."""
    del state
    return -jnp.arange(env.window, dtype=jnp.float32)


def drf(env: DAS, state: State) -> Array:
    """Priorities by dominant share, ascending, float32 ``[N]``.

    Shares are compared in units of one over the capacities' least common multiple: exact where
    that times the machines is below 2**24.
    """
    demand = state.window.demand
    unit = lcm(*env.cluster.capacity)
    shares = [
        demand.instances * request * (unit // capacity)
        for request, capacity in zip(demand.requests, env.cluster.capacity, strict=True)
    ]
    return -jnp.maximum(jnp.maximum(shares[0], shares[1]), shares[2])


def firstfit(free: Free) -> Array:
    """Affinity to machines of lower index, float32 ``[M]``."""
    return -jnp.arange(free[0].shape[0], dtype=jnp.float32)


def loadbalance(free: Free) -> Array:
    """Affinity to machines with more free GPUs, float32 ``[M]``."""
    return free[0]


ORDERS: dict[str, Order] = {"fifo": fifo, "drf": drf}
PLACEMENTS: dict[str, Row] = {"firstfit": firstfit, "loadbalance": loadbalance}


def in_order(env: DAS, order: Order, row: Row, state: State) -> Action:
    """A fixed order, and affinities of what is free right before each placement."""
    priority = order(env, state)
    rank = rank_of(priority, real_positions(state))
    affinity = rows_in_turn(env.cluster.free(state.used), _wanted(state), rank, row)
    return {"priority": priority, "affinity": affinity}


def tetris(env: DAS, state: State) -> Action:
    """The job and machine whose requests and free resources align best, one job at a time.

    Scores are whole numbers; machines are compared by their ranks, which float32 holds exactly.
    """
    demand, index = _wanted(state), jnp.arange(env.window)
    unit = lcm(*env.cluster.capacity)
    weights = [(unit // capacity) ** 2 for capacity in env.cluster.capacity]

    def score(free: Free) -> Array:
        parts = [
            request.astype(jnp.int32) * amount.astype(jnp.int32)[:, None] * weight
            for request, amount, weight in zip(demand.requests, free, weights, strict=True)
        ]
        return parts[0] + parts[1] + parts[2]

    def body(k: Array, carry: tuple) -> tuple:
        free, waits, priority, affinity = carry
        fit, value = fitting(free, demand), score(free)
        possible = waits & (jnp.sum(fit, axis=0) >= demand.instances)
        best = jnp.where(possible, jnp.max(jnp.where(fit >= 1, value, -1), axis=0), -1)
        position = jnp.argmax(best)
        found = best[position] >= 0
        row = _by_whole_score(value[:, position])
        job = jax.tree.map(lambda x: jnp.where(found, x[position], 0.0), demand)
        free = take(free, job, place(free, job, row))
        here = found & (index == position)
        priority = jnp.where(here, -k.astype(jnp.float32), priority)
        return free, waits & ~here, priority, jnp.where(here[:, None], row, affinity)

    nothing = jnp.zeros((env.window, env.num_servers), jnp.float32)
    carry = (
        env.cluster.free(state.used),
        demand.instances > 0,
        -(env.window + index).astype(jnp.float32),
        nothing,
    )
    _, _, priority, affinity = jax.lax.fori_loop(0, env.window, body, carry)
    return {"priority": priority, "affinity": affinity}


def _by_whole_score(score: Array) -> Array:
    """Affinities (float32 ``[M]``) in the order of whole scores; equal where these are."""
    return -jnp.sum(score[None, :] > score[:, None], axis=-1).astype(jnp.float32)


def _wanted(state: State) -> Demand:
    """What the real positions ask for, leaves ``[N]``; nothing in others."""
    demand = state.window.demand
    return demand._replace(instances=jnp.where(real_positions(state), demand.instances, 0.0))


def _check_tetris(cluster: Cluster) -> None:
    largest = 3 * lcm(*cluster.capacity) ** 2
    if largest >= INT32_END:
        raise JaxschedError(
            f"das: tetris scores reach {largest} on machines of {cluster.capacity}; accepted: "
            f"below {INT32_END}"
        )
