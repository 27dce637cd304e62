"""Whose turn it is within a slot, when it ends, and slots that start with bundles (section 3).

The slot's jobs take turns in batches of ``J``, in order of arrival, each closed by a void or when
nothing of it fits. Or, as in DL2's published simulator (``rows = "window"``), the agent sees the
first ``J`` that are not at both limits, and a void ends the slot. There what does not fit is not
masked (``misfit = "end_slot"``) but ends the slot, and no slot ends by itself.

With the option ``assign_bundle`` every active job starts each slot with a bundle. Then a slot can
be full before any decision, and pass without one. Where bundles go to servers of their own, as in
DL2's published simulator, all are given at once; elsewhere loops that run once per bundle make this
option slow.

Axes: ``N`` rows of the job table, ``J`` rows of the window, ``S`` servers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2.rules import BUNDLE, KINDS, WORKER, Rules, empty_servers, feasible, tables
from jaxsched.envs.dl2.rules.dynamics import (
    ONE_PS,
    ONE_WORKER,
    ClusterState,
    Increment,
    SlotReport,
    end_slot,
    give,
    is_long,
    is_open,
    merge,
    options,
    parameter_servers,
    refit,
    workers,
)
from jaxsched.envs.dl2.rules.tables import NUM_MODELS, JobTables, SpeedTables, lookup, whole
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.batching import any_across_batch, select
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


def give_bundles(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, wanted: Array
) -> ClusterState:
    """One bundle (one worker with all-reduce) to each active job, in order, if it fits."""
    if rules.cluster.alone:
        return _give_at_once(rules, state, jobs, speed, wanted)
    kind = jnp.int32(BUNDLE if rules.cluster.needs_ps else WORKER)

    def nearest(state: ClusterState, start: Array) -> Array:
        """The next active job of which a bundle fits, the empty row if there is none."""
        fits = feasible(rules.cluster, state.servers, bundles=True)
        kinds = fits >> KINDS * tables.model_of(whole(jobs.info, state.episode))
        able = bits.to_words((kinds >> kind) & 1 > 0) & state.active
        return bits.first_from(able, start, jobs.empty_row)

    def one(carry: tuple[ClusterState, Array]) -> tuple[ClusterState, Array]:
        state, job = carry
        model = tables.model_of(lookup(jobs.info, state.episode, job))
        state = give(rules, state, speed, job, model, kind, job < jobs.empty_row)[0]
        return state, nearest(state, job + 1)

    first = nearest(state, jnp.where(wanted, 0, jobs.empty_row))
    state, _ = jax.lax.while_loop(
        lambda carry: any_across_batch(carry[1] < jobs.empty_row), one, (state, first)
    )
    return state._replace(fits=jnp.where(wanted, refit(rules, state), state.fits))


def _give_at_once(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, wanted: Array
) -> ClusterState:
    """The same where no server holds two bundles: the first S jobs get one each, in order.

    Sets of jobs take the place of look-ups, which compilers for CPUs do not vectorise.
    """
    cluster = rules.cluster
    num = cluster.num_servers
    place = jnp.arange(num + 1, dtype=jnp.int32)
    first = bits.nth(state.active, place, jobs.empty_row)  # job of each server, and the next one
    models = tables.model_of(whole(jobs.info, state.episode))
    both = cluster.placement[:, :2] + cluster.placement[:, 2:]
    kinds, kind_of = np.unique(both, axis=0, return_inverse=True)
    taken = jnp.zeros((2, num), jnp.int32)  # need and load
    for kind, (need, load) in enumerate(kinds.tolist()):
        alike = _any_of(models, np.flatnonzero(kind_of == kind))
        there = bits.members(state.active & bits.to_words(alike), first[:num])
        taken += jnp.where(there, jnp.array([[need], [load]], jnp.int32), 0)
    empty = empty_servers(cluster)
    servers = empty._replace(free=empty.free - taken[0], order=empty.order + taken[1])

    served = bits.to_flags(state.active & bits.below(first[num] - bits.starts(state.active)))
    rate = jnp.zeros_like(state.rate)
    for model in range(NUM_MODELS):
        rate = jnp.where(served & (models == model), speed.rate[model, 1, 1], rate)
    given = state._replace(
        servers=servers, tasks=jnp.where(served, ONE_WORKER + ONE_PS, 0), rate=rate
    )
    return select(wanted, given._replace(fits=refit(rules, given)), state)


def _any_of(models: Array, some: Any) -> Array:
    """Whether each job is of one of these types, bool ``[N]``."""
    found = jnp.zeros(models.shape, bool)
    for model in some.tolist():
        found |= models == model
    return found


def open_with_bundles(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, opened: Array
) -> tuple[ClusterState, SlotReport]:
    """Give the bundles of a slot that was just opened, and let full slots pass.

    Args:
      rules: the rules.
      state: a slot in which nothing is allocated, where ``opened``.
      jobs: job tables.
      speed: how fast they train.
      opened: bool scalar; false changes nothing.

    Returns:
      The first state in which something can be placed (or the end), and what happened until then.
    """

    def settled(state: ClusterState) -> tuple[ClusterState, Array]:
        batch, found = first_turn(rules, state, jobs)
        passes = opened & ~found & is_open(state)
        return state._replace(batch=jnp.where(opened & found, batch, state.batch)), passes

    def body(carry: tuple) -> tuple:
        state, passes, report = carry
        state, latest = end_slot(rules, state, jobs, speed, passes)
        state, passes = settled(give_bundles(rules, state, jobs, speed, passes))
        return state, passes, merge(report, latest)

    # Not the end of a slot: everything in the report is zero, of the right shapes.
    nothing = end_slot(rules, state, jobs, speed, jnp.bool_(False))[1]
    state, passes = settled(give_bundles(rules, state, jobs, speed, opened))
    if rules.misfit == "end_slot":  # no slot passes by itself
        return state, nothing
    state, _, report = jax.lax.while_loop(lambda c: c[1], body, (state, passes, nothing))
    return state, report


def first_with_bundles(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables
) -> ClusterState:
    """The state after a reset: the first slot with its bundles.

    No step has opened this slot. If it is full, void is its only action.
    """
    state = give_bundles(rules, state, jobs, speed, jnp.bool_(True))
    batch, found = first_turn(rules, state, jobs)
    state = state._replace(batch=jnp.where(found, batch, 0))
    return state._replace(rows=rows_of(rules, state, jobs.empty_row))
