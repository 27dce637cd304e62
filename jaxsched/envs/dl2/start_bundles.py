"""The option ``assign_bundle``: every active job starts each slot with a bundle (section 3).

Then a slot can be full before any decision, and pass without one. Loops that run once per job make
this option slow; it is off by default.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.dl2 import tables
from jaxsched.envs.dl2.cluster import BUNDLE, WORKER
from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    Rules,
    SlotReport,
    SpeedTables,
    end_slot,
    give,
    is_open,
    merge,
    next_batch,
    refit,
    rows_of,
)
from jaxsched.envs.dl2.tables import JobTables, lookup, whole
from jaxsched.ops import bit_sets as bits
from jaxsched.types import Array


def give_bundles(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables, wanted: Array
) -> ClusterState:
    """One bundle (one worker with all-reduce) to each active job, in order, if it fits."""
    kind = jnp.int32(BUNDLE if rules.cluster.needs_ps else WORKER)

    def one(job: Array, state: ClusterState) -> ClusterState:
        job = jnp.asarray(job, jnp.int32)
        model = tables.model_of(lookup(jobs.info, state.episode, job))
        here = wanted & bits.contains(state.active, job)
        return give(rules, state, speed, job, model, kind, here)[0]

    state = jax.lax.fori_loop(0, jobs.empty_row, one, state)
    return state._replace(fits=jnp.where(wanted, refit(rules, state), state.fits))


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
        info = whole(jobs.info, state.episode)
        batch, found = next_batch(rules, state, info, jnp.int32(0))
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
    state, _, report = jax.lax.while_loop(lambda c: c[1], body, (state, passes, nothing))
    return state, report


def first_with_bundles(
    rules: Rules, state: ClusterState, jobs: JobTables, speed: SpeedTables
) -> ClusterState:
    """The state after a reset: the first slot with its bundles.

    No step has opened this slot. If it is full, void is its only action.
    """
    state = give_bundles(rules, state, jobs, speed, jnp.bool_(True))
    info = whole(jobs.info, state.episode)
    batch, found = next_batch(rules, state, info, jnp.int32(0))
    batch = jnp.where(found, batch, 0)
    return state._replace(batch=batch, rows=rows_of(rules, state.active, batch, jobs.empty_row))
