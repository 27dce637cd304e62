"""Whose turn it is within a slot, and when the slot ends (specification, section 3).

The slot's jobs take turns in batches of ``J``, in order of arrival, each closed by a void or when
nothing of it fits. Or, as in DL2's published simulator (``rows = "window"``), the agent sees the
first ``J`` that are not at both limits, and a void ends the slot. There what does not fit is not
masked (``misfit = "end_slot"``) but ends the slot, and no slot ends by itself.

Axes: ``N`` rows of the job table, ``J`` rows of the window.
"""

import jax.numpy as jnp

from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    Increment,
    Rules,
    options,
    parameter_servers,
    workers,
)
from jaxsched.ops import bit_sets as bits
from jaxsched.types import Array


def rows_of(rules: Rules, state: ClusterState, empty_row: int) -> Array:
    """The jobs that the agent sees, the empty row's index for none; int32 ``[J]``."""
    place = jnp.arange(rules.window, dtype=jnp.int32)
    if rules.rows == "window":
        return bits.nth(_unlimited(rules, state), place, empty_row)
    return bits.nth(state.active, state.batch * rules.window + place, empty_row)


def _unlimited(rules: Rules, state: ClusterState) -> Array:
    """The slot's jobs without those that have all they may, uint32 ``[V]``."""
    full = workers(state.tasks) >= rules.max_workers
    if rules.cluster.needs_ps:
        full &= parameter_servers(state.tasks) >= rules.max_ps
    return state.active & ~bits.to_words(full)


def first_turn(rules: Rules, state: ClusterState, info: Array) -> tuple[Array, Array]:
    """The first batch of a slot, and whether there is anything to decide in it.

    Args:
      rules: the rules.
      state: the slot just opened.
      info: of all jobs, int32 ``[N]``.
    """
    if rules.misfit == "end_slot":
        return jnp.int32(0), jnp.bool_(True)
    return _next_batch(rules, state, info, jnp.int32(0))


def next_turn(
    rules: Rules, state: ClusterState, info: Array, increment: Increment
) -> tuple[Array, Array]:
    """The batch after an action, and whether the slot goes on.

    Args:
      rules: the rules.
      state: after the action, its ``batch`` that of the action.
      info: of all jobs, int32 ``[N]``.
      increment: what the action did.
    """
    following = state.batch + ~increment.placed
    if rules.misfit == "mask":
        return _next_batch(rules, state, info, following)
    if rules.rows == "window":
        return jnp.int32(0), increment.placed
    more = following * rules.window < jnp.sum(bits.count(state.active))
    return following, more & ~increment.failed


def _next_batch(
    rules: Rules, state: ClusterState, info: Array, first: Array
) -> tuple[Array, Array]:
    """The first batch from ``first`` on in which something fits, and whether there is one."""
    able = bits.to_words(options(rules, state.tasks, info, state.fits) > 0) & state.active
    none = info.shape[-1] - 1
    if rules.rows == "window":
        nearest = bits.first_from(able, jnp.int32(0), none)
        seen = bits.rank(_unlimited(rules, state), nearest) < rules.window
        return jnp.int32(0), (first == 0) & (nearest < none) & seen
    start = bits.nth(state.active, first * rules.window, none)
    nearest = bits.first_from(able, start, none)
    return bits.rank(state.active, nearest) // rules.window, nearest < none
