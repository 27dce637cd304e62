"""Heuristics of DAS (specification, section 9), and the meta-heuristics that search decisions.

Those that look at free resources before each placement play the decision on a copy and return
the affinities that they used (and, for Tetris, the order): the environment then does the same.
MOSA and MALO search each decision by its surrogate.

Axes: ``N`` positions, ``M`` machines; free resources are in whole numbers.
"""

from collections.abc import Callable
from functools import cache, partial
from math import lcm

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxsched.algorithms.annealing import anneal
from jaxsched.algorithms.ant_lion import ant_lion
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.rules import NUM_GPUS, Params, dynamics, machines
from jaxsched.envs.das.rules.dynamics import State, real_positions
from jaxsched.envs.das.rules.machines import Cluster
from jaxsched.envs.das.rules.placement import (
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
        _check_tetris(env)
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
    unit = lcm(*env.capacity)
    shares = [
        demand.instances * request * (unit // capacity)
        for request, capacity in zip(demand.requests, env.capacity, strict=True)
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
    affinity = rows_in_turn(env.free(state.used), _wanted(state), rank, row)
    return {"priority": priority, "affinity": affinity}


def tetris(env: DAS, state: State) -> Action:
    """The job and machine whose requests and free resources align best, one job at a time.

    Scores are whole numbers; machines are compared by their ranks, which float32 holds exactly.
    """
    demand, index = _wanted(state), jnp.arange(env.window)
    unit = lcm(*env.capacity)
    weights = [(unit // capacity) ** 2 for capacity in env.capacity]

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
        env.free(state.used),
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


def surrogate(env: DAS, state: State, params: Params, action: Action) -> tuple[Array, Array, Array]:
    """How good a decision looks without knowing durations (section 9).

    Args:
      env: the environment.
      state: a state in which a decision is due.
      params: its parameters.
      action: the candidate.

    Returns:
      f1, the GPUs that real jobs left unplaced ask for; f2, the GPUs of running jobs weighted with
      their contention; the cost, both per GPU of the cluster. float32 scalars.
    """
    decision = dynamics.decide(env, state, action["priority"], action["affinity"])
    after = dynamics.apply(env, state, params, decision)
    left = dynamics.real_positions(state) & ~decision.placed
    gpus = state.window.rows[NUM_GPUS]
    unplaced = jnp.sum(jnp.where(left, gpus, 0)).astype(jnp.float32)
    worst = machines.contention(env, after.running, after.used)
    slowed = jnp.sum(after.running.num_gpus * worst) / 100.0
    return unplaced, slowed, (unplaced + slowed) / (env.num_servers * env.gpus_per_server)


MOSA_ITERATIONS, MALO_ITERATIONS, MALO_POPULATION = 50, 100, 50


def first_candidate(env: DAS, real: Array) -> Action:
    """First come first served, first fit, within [-1, 1]."""
    count = jnp.maximum(jnp.sum(real, dtype=jnp.float32), 1.0)
    row = -jnp.arange(env.num_servers, dtype=jnp.float32) / env.num_servers
    return {
        "priority": -jnp.arange(env.window, dtype=jnp.float32) / count,
        "affinity": jnp.broadcast_to(row, (env.window, env.num_servers)),
    }


def neighbour(real: Array, key: PRNGKey, candidate: Action) -> Action:
    """Draw the priority or the affinities of one real position anew."""
    position_key, coin_key, value_key, row_key = jax.random.split(key, 4)
    chance = jax.random.gumbel(position_key, real.shape, jnp.float32)
    position = jnp.argmax(jnp.where(real, chance, -jnp.inf))
    priority, affinity = candidate["priority"], candidate["affinity"]
    orders = jax.random.bernoulli(coin_key, jnp.float32(0.5))
    value = jax.random.uniform(value_key, (), priority.dtype, -1.0, 1.0)
    row = jax.random.uniform(row_key, affinity.shape[1:], affinity.dtype, -1.0, 1.0)
    here = jnp.arange(real.shape[0]) == position
    return {
        "priority": jnp.where(here & orders, value, priority),
        "affinity": jnp.where((here & ~orders)[:, None], row, affinity),
    }


def mosa(
    env: DAS, state: State, params: Params, key: PRNGKey, iterations: int = MOSA_ITERATIONS
) -> Action:
    """The best decision that multi-objective simulated annealing finds."""
    real = real_positions(state)
    found = anneal(
        key,
        first_candidate(env, real),
        partial(_priced, env, state, params),
        partial(neighbour, real),
        iterations=iterations,
    )
    best: Action = found.candidate
    return best


def malo(
    env: DAS,
    state: State,
    params: Params,
    key: PRNGKey,
    iterations: int = MALO_ITERATIONS,
    population: int = MALO_POPULATION,
) -> Action:
    """The best decision that the modified ant lion optimiser finds."""
    start, unravel = ravel_pytree(first_candidate(env, real_positions(state)))

    def cost(candidate: Array) -> tuple[Array, Array]:
        return _priced(env, state, params, unravel(candidate))

    found = ant_lion(key, start, cost, iterations=iterations, population=population)
    best: Action = unravel(found.candidate)
    return best


SEARCHERS = {"mosa": mosa, "malo": malo}


def searcher(name: str, env: DAS) -> Policy:
    """The policy of that name, which reads the state.

    Raises:
      JaxschedError: unknown name.
    """
    if name not in SEARCHERS:
        raise JaxschedError(f"das: unknown searcher {name!r}; known are {', '.join(SEARCHERS)}")

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Action, PyTree]:
        del weights
        return SEARCHERS[name](env, view.state, view.params, key), memory

    return Policy(name, no_memory, act, privileged=True)


def _priced(env: DAS, state: State, params: Params, action: Action) -> tuple[Array, Array]:
    """Cost and objectives of a decision."""
    unplaced, slowed, cost = surrogate(env, state, params, action)
    return cost, jnp.stack([unplaced, slowed])
