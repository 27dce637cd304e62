"""Simulated annealing that also accepts what is no worse in any objective.

Simulated annealing (Kirkpatrick et al., Optimization by Simulated Annealing, 1983) with the
acceptance of dominating candidates of multi-objective annealing (Bandyopadhyay et al., A Simulated
Annealing-Based Multiobjective Optimization Algorithm: AMOSA, 2008), as DAS (section 9) compares
itself with::

    iterations times:
        accept a proposal that dominates the present candidate, or
        with probability exp(-scale * max(change of cost, 0) / temperature)
        temperature *= cooling

Axes: ``K`` objectives.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

Cost = Callable[[PyTree], tuple[Array, Array]]
"""``candidate -> (cost, objectives)``: float scalar and ``[K]``, to be made small."""


class Found(NamedTuple):
    """A candidate and what it costs."""

    candidate: PyTree
    cost: Array  # float32 scalar
    objectives: Array  # float32 [K]


class _Search(NamedTuple):
    present: Found
    best: Found
    temperature: Array


def dominates(a: Array, b: Array) -> Array:
    """Whether no objective of ``a`` is above that of ``b``; bool scalar from ``[K]``."""
    return jnp.all(a <= b)


def priced(cost: Cost, candidate: PyTree) -> Found:
    """A candidate with its cost; one that is not a number counts as infinite."""
    value, objectives = cost(candidate)
    value = jnp.asarray(value, jnp.float32)
    return Found(
        candidate,
        jnp.where(jnp.isnan(value), jnp.inf, value),
        jnp.asarray(objectives, jnp.float32),
    )


def anneal(
    key: PRNGKey,
    start: PyTree,
    cost: Cost,
    propose: Callable[[PRNGKey, PyTree], PyTree],
    *,
    iterations: int = 50,
    temperature: float | Array = 400.0,
    cooling: float | Array = 0.99,
    scale: float | Array = 1000.0,
) -> Found:
    """The candidate of least cost that annealing comes across; pure, for ``jit`` and ``vmap``.

    Args:
      key: typed key.
      start: first candidate, any pytree of arrays.
      cost: what to minimise.
      propose: ``(key, candidate) -> candidate`` of the same structure, a neighbour.
      iterations: proposals, static.
      temperature: at the first proposal.
      cooling: factor of the temperature after each proposal.
      scale: what a change of cost is multiplied by.

    Returns:
      The best candidate, the first of equals (``start`` included).

    Raises:
      JaxschedError: ``iterations`` is negative.
    """
    if iterations < 0:
        raise JaxschedError(f"anneal: iterations is {iterations}; it must be at least 0")

    def iterate(search: _Search, key: PRNGKey) -> tuple[_Search, None]:
        propose_key, accept_key = jax.random.split(key)
        present, best, heat = search
        proposal = priced(cost, propose(propose_key, present.candidate))
        rise = jnp.maximum(proposal.cost - present.cost, 0.0)
        chance = jnp.where(proposal.cost <= present.cost, 1.0, jnp.exp(-scale * rise / heat))
        accepted = jax.random.uniform(accept_key, dtype=jnp.float32) < chance
        accepted |= dominates(proposal.objectives, present.objectives)
        present = _choose(accepted, proposal, present)
        best = _choose(proposal.cost < best.cost, proposal, best)
        return _Search(present, best, heat * cooling), None

    first = priced(cost, jax.tree.map(jnp.asarray, start))
    search = _Search(first, first, jnp.asarray(temperature, jnp.float32))
    search, _ = jax.lax.scan(iterate, search, jax.random.split(key, iterations))
    return search.best


def _choose(condition: Array, on_true: Found, on_false: Found) -> Found:
    chosen: Found = jax.tree.map(
        lambda a, b: jnp.where(condition, a, b).astype(b.dtype), on_true, on_false
    )
    return chosen
