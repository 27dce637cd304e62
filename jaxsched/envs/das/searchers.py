"""Meta-heuristics that search each decision by its surrogate: MOSA and MALO (section 9).

Axes: ``N`` positions, ``M`` machines.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxsched.algorithms.annealing import anneal
from jaxsched.algorithms.ant_lion import ant_lion
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.simulator.dynamics import State, real_positions
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.envs.das.surrogate import surrogate
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

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
