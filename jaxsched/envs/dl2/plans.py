"""Plans of a slot: increments, one after another, from an empty allocation (section 9).

A rule-based policy is a loop over ``try_increment``: it chooses a job and what it should get, and
learns whether that could be placed. Axes: ``N`` rows of the job table, ``L``
increments, ``M`` job types.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2 import tables
from jaxsched.envs.dl2.cluster import BUNDLE, PS, WORKER, Servers, empty_servers, place_tasks
from jaxsched.envs.dl2.dynamics import Rules, is_active
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.slotwise import DL2Slots, SlotsState
from jaxsched.envs.dl2.tables import whole
from jaxsched.types import Array, PyTree


class Plan(NamedTuple):
    """What the jobs get in a slot, and in which order.

    Attributes:
      workers: int32 ``[N]``.
      ps: int32 ``[N]``.
      job: int32 ``[L]``, the increments in order; the empty row's index beyond the last. Empty
        (``L = 0``) unless the plan was asked to log them.
      kind: int8 ``[L]``, ``WORKER``, ``PS`` or ``BUNDLE`` (0 beyond the last).
      servers: int32 ``[L, 2]``, where its worker and its PS went; -1 where there is none.
      count: int32 scalar, number of increments.
    """

    workers: Array
    ps: Array
    job: Array
    kind: Array
    servers: Array
    count: Array  # type: ignore[assignment]


class Draft(NamedTuple):
    """A plan in the making."""

    servers: Servers
    plan: Plan


class Slot(NamedTuple):
    """What a scheduler sees at the start of a slot; per job ``[N]``, in order of arrival.

    Attributes:
      rules: the static rules.
      params: the environment's parameters.
      active: bool, whom it may serve.
      model: int32, job types.
      left: float, remaining epochs by the estimate.
      state: all there is.
    """

    rules: Rules
    params: Params
    active: Array
    model: Array
    left: Array
    state: SlotsState

    @property
    def bundle(self) -> int:
        """The kind of increment that lets a job train: a bundle, or a worker with all-reduce."""
        return BUNDLE if self.rules.cluster.needs_ps else WORKER

    def seconds(self, w: Array, p: Array) -> Array:
        """True noise-free seconds per epoch with so many tasks, float ``[N]``."""
        table = self.params.speed.seconds
        return table[self.model, clip(w, table.shape[1]), clip(p, table.shape[2])]


class Rule(NamedTuple):
    """A rule-based policy of DL2.

    Attributes:
      init: ``init(params) -> memory``.
      plan: ``plan(memory, state, params) -> (Plan, memory)`` for a ``SlotsState``.
    """

    init: Callable[[Params], PyTree]
    plan: Callable[[PyTree, SlotsState, Params], tuple[Plan, PyTree]]


def clip(count: Array, size: int) -> Array:
    """A number of tasks as an index into a table of this size."""
    return jnp.minimum(count, size - 1)


def open_draft(slot: Slot, max_increments: int) -> Draft:
    """Nothing is allocated, nothing logged; ``max_increments`` is L."""
    none = jnp.zeros(slot.active.shape, jnp.int32)
    empty = slot.params.jobs.empty_row
    return Draft(
        empty_servers(slot.rules.cluster),
        Plan(
            workers=none,
            ps=none,
            job=jnp.full((max_increments,), empty, jnp.int32),
            kind=jnp.zeros((max_increments,), jnp.int8),
            servers=jnp.full((max_increments, 2), -1, jnp.int32),
            count=jnp.int32(0),
        ),
    )


def try_increment(
    slot: Slot, draft: Draft, job: Array, kind: Array | int, wanted: Array
) -> tuple[Draft, Array]:
    """Give a job tasks if they fit the servers, and its limits allow them.

    Args:
      slot: the slot.
      draft: the plan so far.
      job: int32 scalar.
      kind: int32 scalar, ``WORKER``, ``PS`` or ``BUNDLE``.
      wanted: bool scalar; false changes nothing.

    Returns:
      The plan then, and whether the tasks were placed.
    """
    rules, plan = slot.rules, draft.plan
    kind = jnp.asarray(kind, jnp.int32)
    worker, server = kind != PS, kind != WORKER
    room = ~worker | (plan.workers[job] < rules.max_workers)
    room &= ~server | (plan.ps[job] < rules.max_ps)
    servers, where, placed = place_tasks(
        rules.cluster, draft.servers, slot.model[job], kind, wanted & room
    )
    return noted(slot, Draft(servers, plan), job, kind, where, placed), placed


def noted(slot: Slot, draft: Draft, job: Array, kind: Array, where: Array, placed: Array) -> Draft:
    """The draft with an increment in its plan, where ``placed``; its servers are as given.

    Args:
      slot: the slot.
      draft: the plan so far, and the servers with the tasks on them.
      job: int32 scalar.
      kind: int32 scalar.
      where: int32 ``[2]``, where its worker and its PS went, S for none.
      placed: bool scalar.
    """
    rules, plan = slot.rules, draft.plan
    worker, server = kind != PS, kind != WORKER
    count = plan.count
    here = (jnp.arange(slot.active.shape[0], dtype=jnp.int32) == job) & placed
    plan = plan._replace(
        workers=plan.workers + (here & worker).astype(jnp.int32),
        ps=plan.ps + (here & server).astype(jnp.int32),
        count=plan.count + placed.astype(jnp.int32),
    )
    length = plan.job.shape[0]
    if length:
        at = jnp.where(placed, count, length)  # out of range: dropped
        used = jnp.where(where < rules.cluster.num_servers, where, -1)
        plan = plan._replace(
            job=plan.job.at[at].set(job.astype(jnp.int32), mode="drop"),
            kind=plan.kind.at[at].set(kind.astype(jnp.int8), mode="drop"),
            servers=plan.servers.at[at].set(used, mode="drop"),
        )
    return Draft(draft.servers, plan)


def see(env: DL2Slots, state: SlotsState, params: Params) -> Slot:
    """What a scheduler sees of a state."""
    cluster = state.cluster
    episode = cluster.episode
    left = whole(params.jobs.epochs, episode) - cluster.progress
    info = whole(params.jobs.info, episode)
    return Slot(
        rules=env.rules,
        params=params,
        active=is_active(cluster),
        model=tables.model_of(info),
        left=jnp.maximum(left, 0.0),
        state=state,
    )


def repeat(
    step: Callable[[Draft, PyTree], tuple[Draft, PyTree, Array]],
    draft: Draft,
    extra: PyTree,
    going: Array | bool = True,
) -> tuple[Draft, PyTree]:
    """``step(draft, extra) -> (draft, extra, going)`` until it no longer goes on."""

    def body(carry: tuple) -> tuple:
        return step(carry[0], carry[1])

    carry: Any = (draft, extra, jnp.asarray(going, bool))
    draft, extra, _ = jax.lax.while_loop(lambda c: c[2], body, carry)
    return draft, extra


def first_best(score: Array, candidates: Array) -> Array:
    """Index of the highest score among the candidates, ties to the lower index; int32 scalar."""
    return jnp.argmax(jnp.where(candidates, score, -jnp.inf)).astype(jnp.int32)


def first_least(key: Array, candidates: Array) -> Array:
    """Index of the smallest integer or real key among the candidates, ties to the lower index."""
    top = jnp.iinfo(key.dtype).max if key.dtype.kind == "i" else jnp.inf
    return jnp.argmin(jnp.where(candidates, key, top)).astype(jnp.int32)


def most_bundles(rules: Rules, cap: int) -> int:
    """How many bundles a job can get."""
    most = min(cap, rules.max_workers)
    return min(most, rules.max_ps) if rules.cluster.needs_ps else most


def shares(slot: Slot, plan: Plan) -> Array:
    """Dominant share of each job, in units of ``1 / U``, int32 ``[N]``."""
    cluster = slot.rules.cluster
    none = np.zeros((1, cluster.worker_shares.shape[1]), np.int32)
    worker = jnp.asarray(np.concatenate([cluster.worker_shares, none]))[slot.model]
    ps = jnp.asarray(np.concatenate([cluster.ps_shares, none]))[slot.model]
    return jnp.max(plan.workers[:, None] * worker + plan.ps[:, None] * ps, axis=-1)


def ranked(slot: Slot, draft: Draft, key: Array, cap: int) -> Draft:
    """In order of the key, each job gets bundles up to the cap, until one does not fit."""
    limit = most_bundles(slot.rules, cap)

    def step(draft: Draft, extra: tuple[()]) -> tuple[Draft, tuple[()], Array]:
        waiting = slot.active & (draft.plan.workers < limit)
        job = first_least(key, waiting)
        draft, placed = try_increment(slot, draft, job, slot.bundle, waiting[job])
        return draft, extra, placed

    return repeat(step, draft, ())[0]
