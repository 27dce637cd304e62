"""Whose turn it is within a slot, and when the slot ends (specification, section 3).

The slot's jobs take turns in batches of ``J``, in order of arrival, each closed by a void or when
nothing of it fits. Or, as in DL2's published simulator (``rows = "window"``), the agent sees the
first ``J`` that are not at both limits, and a void ends the slot. There what does not fit is not
masked (``misfit = "end_slot"``) but ends the slot, and no slot ends by itself.

Axes: ``N`` rows of the job table, ``J`` rows of the window.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    Increment,
    Rules,
    is_long,
    options,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.tables import JobTables, whole
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


def first_turn(rules: Rules, state: ClusterState, jobs: JobTables) -> tuple[Array, Array]:
    """The first batch of a slot, and whether there is anything to decide in it.

    Args:
      rules: the rules.
      state: the slot just opened.
      jobs: job tables.
    """
    if rules.misfit == "end_slot":
        return jnp.int32(0), jnp.bool_(True)
    return _next_batch(rules, state, jobs, jnp.int32(0))


def next_turn(
    rules: Rules, state: ClusterState, jobs: JobTables, increment: Increment
) -> tuple[Array, Array]:
    """The batch after an action, and whether the slot goes on.

    Args:
      rules: the rules.
      state: after the action, its ``batch`` that of the action.
      jobs: job tables.
      increment: what the action did.
    """
    following = state.batch + ~increment.placed
    if rules.misfit == "mask":
        return _next_batch(rules, state, jobs, following)
    if rules.rows == "window":
        return jnp.int32(0), increment.placed
    more = following * rules.window < jnp.sum(bits.count(state.active))
    return following, more & ~increment.failed


def _next_batch(
    rules: Rules, state: ClusterState, jobs: JobTables, first: Array
) -> tuple[Array, Array]:
    """The first batch from ``first`` on in which something fits, and whether there is one."""
    none = jobs.empty_row
    if rules.rows == "window":
        nearest = _nearest(rules, state, jobs, jnp.int32(0))
        seen = bits.rank(_unlimited(rules, state), nearest) < rules.window
        return jnp.int32(0), (first == 0) & (nearest < none) & seen
    start = bits.nth(state.active, first * rules.window, none)
    nearest = _nearest(rules, state, jobs, start)
    return bits.rank(state.active, nearest) // rules.window, nearest < none


def _nearest(rules: Rules, state: ClusterState, jobs: JobTables, start: Array) -> Array:
    """The first of the slot's jobs from ``start`` on that may get something; else the empty row."""
    none = jobs.empty_row
    if not is_long(state):
        info = whole(jobs.info, state.episode)
        able = bits.to_words(options(rules, state.tasks, info, state.fits) > 0) & state.active
        return bits.first_from(able, start, none)
    # As a rule it is near: a few words at a time are looked at.
    few, info = bits.FEW_WORDS, jobs.info.reshape(-1)

    def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        word = jnp.minimum(carry[0], state.active.shape[0] - few)
        job, size = bits.WORD * word, bits.WORD * few
        own = jax.lax.dynamic_slice(info, (state.episode * (none + 1) + job,), (size,))
        tasks = jax.lax.dynamic_slice(state.tasks, (job,), (size,))
        able = bits.to_words(options(rules, tasks, own, state.fits) > 0)
        able &= jax.lax.dynamic_slice(state.active, (word,), (few,))
        found = bits.first_from(able, start - job, bits.NEVER)
        return carry[0] + few, jnp.where(found < bits.NEVER, job + found, none)

    def goes_on(carry: tuple[Array, Array]) -> Array:
        word, nearest = carry
        return (nearest == none) & (word < state.active.shape[0]) & (state.fits != 0)

    first = bits.first_from(state.active, start, none)
    return jax.lax.while_loop(goes_on, look, (first // bits.WORD, jnp.int32(none)))[1]
