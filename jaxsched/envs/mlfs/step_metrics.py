"""What the steps of MLFS tell, and how slots of one step add up.

Axes: ``A`` jobs of the window.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.mlfs.simulator.execution import Ended
from jaxsched.envs.mlfs.simulator.state import NOBODY, Active, State
from jaxsched.types import Array


class StepMetrics(NamedTuple):
    """What happened in one step; recorders gather it into records per job.

    Attributes:
      decides: bool, an offer was answered; of a whole slot int32, how many.
      slot: int32, before the step.
      after: int32, slot after it.
      job: int32 ``[A]``, jobs (places in the episode) that finished, and those that were in the
        window when the episode was cut; -1 elsewhere.
      finish: int32 ``[A]``, slot in which these were finished; -1 if they were not.
      start: int32 ``[A]``, first slot with a running task; -1 if there was none.
      home: int32 ``[A]``.
      iterations: int32 ``[A]``.
      by_deadline: int32 ``[A]``, iterations.
      run_slots: int32 ``[A]``.
      completed: int32, iterations of all jobs completed in this step.
      overloads: int32, server-slots.
      evictions: int32.
      migrations: int32.
      sent_mb: int32.
    """

    decides: Array
    slot: Array
    after: Array
    job: Array
    finish: Array
    start: Array
    home: Array
    iterations: Array
    by_deadline: Array
    run_slots: Array
    completed: Array
    overloads: Array
    evictions: Array
    migrations: Array
    sent_mb: Array


class StepAccumulator(NamedTuple):
    """What the slots of one step brought: reward, and ``StepMetrics`` of them."""

    reward: Array
    metrics: StepMetrics


def nothing_yet(state: State) -> StepAccumulator:
    """A step that has brought nothing yet."""
    zero = jnp.int32(0)
    jobs = jnp.full_like(state.active.job, NOBODY)
    metrics = StepMetrics(jnp.bool_(False), state.slot, state.slot, *[jobs] * 7, *[zero] * 5)
    return StepAccumulator(jnp.float32(0), metrics)


def accumulated(
    since: StepAccumulator, gain: Array, ended: Ended, slot: Array, cut: Array
) -> StepAccumulator:
    """``since`` with one slot more, of which ``slot`` is the next."""
    happened, active = since.metrics, ended.active
    told = ended.over | (cut & (active.job != NOBODY) & (happened.job == NOBODY))

    def kept(old: Array, new: Array) -> Array:
        return jnp.where(told, new, old)

    by_job = {
        name: kept(getattr(happened, name), getattr(active, name))
        for name in Active._fields
        if name in StepMetrics._fields
    }
    metrics = happened._replace(
        finish=kept(happened.finish, jnp.where(ended.over, slot, NOBODY)),
        **by_job,
        completed=happened.completed + jnp.sum(ended.completed, dtype=jnp.int32),
        overloads=happened.overloads + ended.overloads,
        evictions=happened.evictions + ended.evictions,
        migrations=happened.migrations + ended.migrations,
        sent_mb=happened.sent_mb + ended.sent,
    )
    return StepAccumulator(since.reward + gain, metrics)
