"""Schedulers of DL2 that decide once per slot: their environment, and how they plan (section 9).

In ``DL2Slots`` one step is one slot; dynamics, parameters and records are those of ``DL2``, and
there is no window. A plan is increments, one after another, from an empty allocation: a rule-based
policy is a loop over ``try_increment``, which chooses a job and what it should get, and learns
whether that could be placed.

Axes: ``N`` rows of the job table, ``L`` increments, ``M`` job types.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import drawn_episode
from jaxsched.envs.dl2.environment import DL2, StepMetrics
from jaxsched.envs.dl2.rules import (
    BUNDLE,
    PS,
    WORKER,
    Rules,
    Servers,
    dynamics,
    empty_servers,
    place_tasks,
    tables,
)
from jaxsched.envs.dl2.rules.dynamics import (
    ONE_PS,
    ONE_WORKER,
    ClusterState,
    Increment,
    is_active,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.rules.reward import progress
from jaxsched.envs.dl2.rules.tables import Params, whole
from jaxsched.envs.dl2.rules.turns import rows_of
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, TimeStep


class Allocation(NamedTuple):
    """What each job holds in a slot: the action."""

    workers: Array  # int32 [N]
    ps: Array  # int32 [N]


class LastSlot(NamedTuple):
    """What was measured in the previous slot with jobs; zeros before the first."""

    workers: Array  # int32 [N]
    ps: Array  # int32 [N]
    pace: Array  # float [N], epochs per second, 0 for jobs that did not train


class SlotsState(NamedTuple):
    """The cluster at the start of a slot, nothing allocated, and what was measured last."""

    cluster: ClusterState
    last: LastSlot


@dataclass(frozen=True)
class DL2Slots(DL2):
    """``DL2`` with one step per slot, whose action is an ``Allocation``.

    The allocation must fit the cluster: the plans of ``baselines`` do. Jobs that are not active get
    nothing, others at most ``max_workers`` and ``max_ps``. Observation and mask are empty; such
    schedulers read the state. ``assign_bundle`` has no effect.
    """

    name = "dl2-slots"

    def max_steps(self, params: Params) -> int:
        """One per slot."""
        del params
        return self.max_slots

    def observation_spec(self, params: Params) -> PyTree:
        """Nothing is observed."""
        del params
        return ()

    def action_spec(self, params: Params) -> PyTree:
        """Tasks of each job."""
        shape = (params.jobs.empty_row + 1,)
        limits = self.max_workers, self.max_ps if self.comm == "ps" else 0
        return Allocation(*(ArraySpec(shape, jnp.int32, 0, limit) for limit in limits))  # type: ignore[arg-type]

    def observe(  # type: ignore[override]
        self, state: SlotsState, params: Params
    ) -> tuple[tuple[()], tuple[()]]:
        """Nothing."""
        del state, params
        return (), ()

    def reset(  # type: ignore[override]
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[SlotsState, TimeStep]:
        """The first slot with jobs; the table is ``episode``, or one drawn with ``key``."""
        episode = drawn_episode(key, params.draw, episode)
        cluster = dynamics.new_cluster(self.rules, params.jobs, params.speed, episode)
        none = jnp.zeros_like(cluster.tasks)
        state = SlotsState(cluster, LastSlot(none, none, jnp.zeros_like(cluster.progress)))
        _, timestep = self._advance(state, cluster.tasks, params, jnp.bool_(False))
        return state, timestep

    def step(  # type: ignore[override]
        self, key: PRNGKey, state: SlotsState, action: Allocation, params: Params
    ) -> tuple[SlotsState, TimeStep]:
        """One slot with this allocation; ``key`` is not used."""
        del key
        tasks = self.tasks_of(state.cluster, action)
        return self._advance(state, tasks, params, jnp.any(is_active(state.cluster)))

    def tasks_of(self, cluster: ClusterState, action: "Allocation | Plan") -> Array:
        """What the jobs hold in a slot with this allocation, int32 ``[N]``."""
        w = jnp.clip(action.workers, 0, self.max_workers)
        p = jnp.clip(action.ps, 0, self.max_ps if self.comm == "ps" else 0)
        return jnp.where(is_active(cluster), w * ONE_WORKER + p * ONE_PS, 0).astype(jnp.int32)

    def resample_future(  # type: ignore[override]
        self, key: PRNGKey, state: SlotsState, params: Params
    ) -> tuple[SlotsState, Params]:
        """As ``DL2``."""
        cluster, alone = super().resample_future(key, state.cluster, params)
        return state._replace(cluster=cluster), alone

    def _advance(
        self, state: SlotsState, tasks: Array, params: Params, playing: Array
    ) -> tuple[SlotsState, TimeStep]:
        cluster, rules, jobs = state.cluster, self.rules, params.jobs
        model = tables.model_of(whole(jobs.info, cluster.episode))
        rate = dynamics.rates(params.speed, model, tasks)
        held = cluster._replace(tasks=tasks, rate=rate)
        after, report = dynamics.end_slot(rules, held, jobs, params.speed, playing)
        after = after._replace(rows=rows_of(rules, after, jobs.empty_row))
        last = LastSlot(
            jnp.where(playing, workers(tasks), state.last.workers),
            jnp.where(playing, parameter_servers(tasks), state.last.ps),
            jnp.where(playing, report.pace, state.last.pace),
        )
        job_reward = progress(report, jobs, cluster.episode)
        none = jnp.int32(jobs.empty_row)
        nowhere = jnp.full((2,), self.num_servers, jnp.int32)
        timestep = TimeStep(
            observation=(),
            action_mask=(),
            reward=self.reward_of(report, job_reward),
            terminated=dynamics.is_finished(after),
            truncated=dynamics.is_cut(rules, after),
            elapsed=dynamics.seconds_passed(rules, cluster, after, report),
            metrics=StepMetrics(
                slot=cluster.slot,
                batch=jnp.int32(0),
                decisions=jnp.int32(0),
                invalid=jnp.bool_(False),
                increment=Increment(
                    jnp.bool_(False), none, jnp.int32(BUNDLE), nowhere, jnp.bool_(False)
                ),
                slot_ended=playing,
                report=report,
                progress=after.progress,
                job_reward=job_reward,
            ),
        )
        return SlotsState(after, last), timestep


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
