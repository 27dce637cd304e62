"""Ant lion optimisation with a step of differential evolution.

The ant lion optimiser (Mirjalili, The Ant Lion Optimizer, 2015) lets ants walk around traps that
shrink; a mutation and crossover of differential evolution (Storn and Price, 1997) keeps the
population apart, as the scheduler MALO does that DAS (section 9) compares itself with. Candidates
are vectors in ``[-1, 1]``. In each iteration

    antlion of each ant: by roulette on 1 / (cost - least cost + 0.001)
    ant = mean of a uniform step from the antlion and one from the elite, of width 1 / shrink
    mutant = elite + factor * (difference of two antlions)
    trial = coordinates of the mutant with probability crossover, else of the ant
    the least costly of antlions, ants and trials survive; the first of them is the elite

Axes: ``S`` population, ``D`` coordinates.
"""

import jax
import jax.numpy as jnp

from jaxsched.algorithms.annealing import Cost, Found, priced
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey

ROULETTE_FLOOR = 1e-3
SHRINK_AFTER = ((0.1, 2), (0.5, 3), (0.75, 4), (0.9, 5), (0.95, 6))  # share of iterations, power


def shrink_ratio(iteration: Array, iterations: int) -> Array:
    """How much narrower the walks are in iteration 1, 2, ...: 1, later ``10**p`` * share done."""
    share = iteration / iterations
    ratio = jnp.ones_like(share)
    for after, power in SHRINK_AFTER:
        ratio = jnp.where(share > after, 10.0**power * share, ratio)
    return ratio


def ant_lion(
    key: PRNGKey,
    start: Array,
    cost: Cost,
    *,
    iterations: int = 100,
    population: int = 50,
    factor: float | Array = 0.5,
    crossover: float | Array = 0.9,
) -> Found:
    """The vector of least cost that the ants come across; pure, for ``jit`` and ``vmap``.

    Args:
      key: typed key.
      start: float32 ``[D]`` in ``[-1, 1]``, one of the first antlions; the others are uniform.
      cost: what to minimise, of one ``[D]``; mapped over the population.
      iterations: I, static.
      population: S, static, at least 2.
      factor: weight of differences in mutants.
      crossover: share of a mutant in its trial.

    Raises:
      JaxschedError: a size is too small.
    """
    for name, number, least in (("iterations", iterations, 0), ("population", population, 2)):
        if number < least:
            raise JaxschedError(f"ant_lion: {name} is {number}; it must be at least {least}")
    size = (population, start.shape[0])

    def uniform(key: PRNGKey) -> Array:
        return jax.random.uniform(key, size, start.dtype, -1.0, 1.0)

    def survivors(crowd: Found) -> Found:
        """The S least costly; among equals those that come first."""
        order = jnp.argsort(crowd.cost, stable=True)[:population]
        chosen: Found = jax.tree.map(lambda x: x[order], crowd)
        return chosen

    def iterate(antlions: Found, step: tuple[Array, PRNGKey]) -> tuple[Found, None]:
        iteration, key = step
        keys = jax.random.split(key, 6)
        elite, width = antlions.candidate[0], 1.0 / shrink_ratio(iteration, iterations)
        weight = 1.0 / (antlions.cost - antlions.cost[0] + ROULETTE_FLOOR)
        chosen = jax.random.categorical(keys[0], jnp.log(weight), shape=(population,))
        around = antlions.candidate[chosen] + width * uniform(keys[1])
        ants = jnp.clip((around + elite + width * uniform(keys[2])) / 2, -1.0, 1.0)
        first = jax.random.randint(keys[3], (population,), 0, population, jnp.int32)
        ahead = jax.random.randint(keys[4], (population,), 1, population, jnp.int32)
        second = (first + ahead) % population
        difference = antlions.candidate[first] - antlions.candidate[second]
        mutants = jnp.clip(elite + factor * difference, -1.0, 1.0)
        trials = jnp.where(
            jax.random.uniform(keys[5], size, start.dtype) < crossover, mutants, ants
        )
        new = price(jnp.concatenate([ants, trials]))
        crowd = jax.tree.map(lambda *x: jnp.concatenate(x), antlions, new)
        return survivors(crowd), None

    def price(candidates: Array) -> Found:
        return jax.vmap(lambda candidate: priced(cost, candidate))(candidates)

    first_key, walk_key = jax.random.split(key)
    antlions = survivors(price(uniform(first_key).at[0].set(start)))
    steps = (
        jnp.arange(1, iterations + 1, dtype=start.dtype),
        jax.random.split(walk_key, iterations),
    )
    antlions, _ = jax.lax.scan(iterate, antlions, steps)
    elite: Found = jax.tree.map(lambda x: x[0], antlions)
    return elite
