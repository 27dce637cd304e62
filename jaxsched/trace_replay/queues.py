"""Places inside Tiresias' queues, and promotion of jobs that wait too long.

A value in the order is a queue's number times ``QUEUE`` and a place in the queue: first running
jobs by the instant at which they came to run there, then, from ``BACK`` on downwards, suspended
jobs, and from ``BACK`` on upwards all that came to wait, by the instant. Instants are numbered.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``Q`` thresholds.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.waiting import NONE, Waiting
from jaxsched.types import Array

QUEUE, BACK = 2**28, 2**27


class Promotion(NamedTuple):
    """What is kept of jobs where those that wait too long are promoted, int32.

    Attributes:
      forgiven: ``[n + 1]``, seconds of service before the last promotion.
      waited: ``[n + 1]``, seconds of waits since it that have ended.
      since: ``[n + 1]``, when the job was last suspended.
      due: for each place of the waiting jobs, when the job is promoted.
    """

    forgiven: Array
    waited: Array
    since: Array
    due: Waiting


def nobody_promoted(num_jobs: int, num_blocks: int, width: int) -> Promotion:
    """Nobody has waited."""
    nothing = jnp.zeros(num_jobs + 1, jnp.int32)
    return Promotion(nothing, nothing, nothing, wt.nobody(num_blocks, width))


def standing(before: Array, taken: Array, crosses: Array, instant: Array, goes_on: Array) -> Array:
    """The place in its queue of each GPU's job after a step, int32 ``[M, S]``.

    Args:
      before: the places before it.
      taken: bool ``[M, S]``, GPUs of the job that starts.
      crosses: bool ``[M, S]``, GPUs of jobs that change queue at the instant reached.
      instant: the number of the instant after the step.
      goes_on: whether the step went on to it.
    """
    runs = jnp.where(before >= BACK, before - BACK, before)  # a running job of its queue now
    moved = jnp.where(crosses, BACK + instant, runs)
    return jnp.where(taken, instant, jnp.where(goes_on, moved, before))


def behind(place: Array, instant: Array) -> Array:
    """The place of a job that was at a place, running, and is suspended."""
    return jnp.where(place >= BACK, place, BACK - instant)


def share(seconds: Array, percent: Array) -> Array:
    """So many percent of a time, rounded down and cut below ``NONE``; int32."""
    most = NONE // 2
    whole, rest = seconds // 100, seconds % 100
    fits = whole <= most // jnp.maximum(percent, 1) - 1
    return jnp.where(fits, whole * percent + rest * percent // 100, most)


def suspended(
    promotion: Promotion,
    job: Array,
    place: Array,
    served: Array,
    first: Array,
    time: Array,
    percent: Array,
) -> Promotion:
    """After the suspension of a job.

    Args:
      promotion: before it.
      job: the job, n if nobody is suspended.
      place: where it waits.
      served: seconds for which it has held GPUs.
      first: whether it is in the first queue, which nobody leaves.
      time: now (s).
      percent: see ``Policy.promote_percent``.
    """
    needs = share(served - promotion.forgiven[job], percent) - promotion.waited[job]
    due = time + jnp.maximum(needs, 1)
    nobody = promotion.since.shape[0] - 1
    never = first | (due < time) | (job == nobody)
    return promotion._replace(
        since=promotion.since.at[job].set(time),
        due=wt.put(promotion.due, place, jnp.where(never, NONE, due)),
    )


def started(
    promotion: Promotion, job: Array, place: Array, attained: Array, time: Array
) -> Promotion:
    """After the start of a job (n: of nobody) that has attained service since its promotion."""
    more = jnp.where(attained > 0, time - promotion.since[job], 0)
    return promotion._replace(
        waited=promotion.waited.at[job].add(more), due=wt.put(promotion.due, place, jnp.int32(NONE))
    )


def promoted(promotion: Promotion, job: Array, place: Array, served: Array) -> Promotion:
    """After the promotion of a job (n: of nobody)."""
    return promotion._replace(
        forgiven=promotion.forgiven.at[job].set(served),
        waited=promotion.waited.at[job].set(0),
        due=wt.put(promotion.due, place, jnp.int32(NONE)),
    )


def first_due(promotion: Promotion, job_at: Array, time: Array, nobody: int) -> Array:
    """A job that is to be promoted now, int32 scalar; n if there is none."""
    due = promotion.due
    block = jnp.argmin(due.least)
    place = block * due.values.shape[1] + jnp.argmin(due.values[block])
    return jnp.where(due.least[block] <= time, job_at[place], nobody).astype(jnp.int32)
