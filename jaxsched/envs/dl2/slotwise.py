"""DL2 for schedulers that decide once per slot: one step is one slot (section 9).

Dynamics, parameters and records are those of ``DL2``; there is no window.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.envs.dl2 import dynamics, tables
from jaxsched.envs.dl2.cluster import BUNDLE
from jaxsched.envs.dl2.dynamics import (
    ONE_PS,
    ONE_WORKER,
    ClusterState,
    Increment,
    is_active,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.environment import DL2, StepMetrics
from jaxsched.envs.dl2.job_batches import rows_of
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.reward import progress
from jaxsched.envs.dl2.tables import whole
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
        if episode is None:
            share = jax.random.uniform(key, dtype=jnp.float32)
            episode = params.draw[0] + (share * params.draw[1]).astype(jnp.int32)
        cluster = dynamics.new_cluster(self.rules, params.jobs, episode)
        none = jnp.zeros_like(cluster.tasks)
        state = SlotsState(cluster, LastSlot(none, none, jnp.zeros_like(cluster.progress)))
        _, timestep = self._advance(state, cluster.tasks, params, jnp.bool_(False))
        return state, timestep

    def step(  # type: ignore[override]
        self, key: PRNGKey, state: SlotsState, action: Allocation, params: Params
    ) -> tuple[SlotsState, TimeStep]:
        """One slot with this allocation; ``key`` is not used."""
        del key
        active = is_active(state.cluster)
        w = jnp.clip(action.workers, 0, self.max_workers)
        p = jnp.clip(action.ps, 0, self.max_ps if self.comm == "ps" else 0)
        tasks = jnp.where(active, w * ONE_WORKER + p * ONE_PS, 0)
        return self._advance(state, tasks.astype(jnp.int32), params, jnp.any(active))

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
