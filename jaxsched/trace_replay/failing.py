"""What a replay keeps where servers fail or are drained (``outages``).

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``L`` runs that failures can cut.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.gpu_types import work_within
from jaxsched.trace_replay.outages import NEVER, Events
from jaxsched.types import Array

MOST_WORK = 2**30
"""Seconds of work that a job can have left; restarts add no more."""


class Failing(NamedTuple):
    """Servers that are away, and what failures have left of jobs; int32.

    Attributes:
      number: scalar, the outage that comes next or is being dealt with.
      away_until: ``[S]``.
      job: ``[M, S]``, the GPU's last job.
      remaining: ``[n + 1]``, seconds of work.
      first_start: ``[n + 1]``.
      last_start: ``[n + 1]``.
      held: ``[n + 1]``, seconds of runs that were cut.
      stops: ``[n + 1]``, how often.
      cuts: ``[L + 1, 3]``, these runs: the job, when it began and when it was stopped.
      num_cuts: scalar, how many there are.
    """

    number: Array
    away_until: Array
    job: Array
    remaining: Array
    first_start: Array
    last_start: Array
    held: Array
    stops: Array
    cuts: Array
    num_cuts: Array


def nothing_failed(
    cluster: Cluster, duration: Array, events: Events, *, keeps_cuts: bool = True
) -> Failing:
    """All servers are there; ``keeps_cuts``: the runs that failures cut are kept, each of them."""
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    none = jnp.zeros_like(duration)
    nobody = duration.shape[0] - 1
    most = cluster.gpus_per_server * (events.begin.shape[0] - 1) if keeps_cuts else 0
    return Failing(
        number=jnp.int32(0),
        away_until=jnp.zeros(cluster.num_servers, jnp.int32),
        job=jnp.full(gpus, nobody, jnp.int32),
        remaining=duration,
        first_start=none,
        last_start=none,
        held=none,
        stops=none,
        cuts=jnp.zeros((most + 1, 3), jnp.int32),
        num_cuts=jnp.int32(0),
    )


def is_due(failing: Failing, events: Events, time: Array) -> Array:
    """Whether an outage has begun that is not dealt with, bool scalar."""
    return events.begin[failing.number] <= time


def victim(failing: Failing, events: Events, time: Array, free_from: Array) -> Array:
    """A job that the outage stops, the lowest number; n if there is none or none is due."""
    server, nobody = events.server[failing.number], failing.remaining.shape[0] - 1
    runs = free_from[:, server] > time
    hit = runs & events.fails[failing.number] & is_due(failing, events, time)
    return jnp.min(jnp.where(hit, failing.job[:, server], nobody)).astype(jnp.int32)


def upcoming(failing: Failing, events: Events, time: Array) -> Array:
    """When the next outage begins or a server is back, int32 scalar."""
    back = jnp.where(failing.away_until > time, failing.away_until, NEVER)
    return jnp.minimum(jnp.min(back), events.begin[failing.number])


def dealt_with(
    failing: Failing, events: Events, time: Array, stopped: Array, speed: Array | None, rests: Array
) -> Failing:
    """After a step in which an outage stopped a job (n: nobody, and it is dealt with).

    Args:
      failing: before it.
      events: the outages.
      time: now (s).
      stopped: the job.
      speed: of the job where it ran, in thousandths; None where GPUs have no types.
      rests: bool scalar, nothing happens any more.
    """
    due = is_due(failing, events, time) & ~rests
    nobody = failing.remaining.shape[0] - 1
    stops = stopped < nobody
    server = events.server[failing.number]
    until = jnp.where(due, events.until[failing.number], 0)
    begun = failing.last_start[stopped]
    run = time - begun
    kept = jnp.where(events.checkpoint_s > 0, run - run % jnp.maximum(events.checkpoint_s, 1), 0)
    if speed is not None:
        kept = work_within(kept, speed, MOST_WORK)
    left = jnp.minimum(failing.remaining[stopped] - kept, MOST_WORK) + events.restart_s
    row = jnp.stack([stopped, begun, time])
    place = jnp.where(stops, failing.num_cuts, failing.cuts.shape[0] - 1)
    return failing._replace(
        number=failing.number + (due & ~stops),
        away_until=failing.away_until.at[server].max(until),
        remaining=failing.remaining.at[stopped].set(
            jnp.where(stops, jnp.minimum(left, MOST_WORK), failing.remaining[stopped])
        ),
        held=failing.held.at[stopped].add(jnp.where(stops, run, 0)),
        stops=failing.stops.at[stopped].add(stops),
        cuts=failing.cuts.at[place].set(row),
        num_cuts=failing.num_cuts + stops,
    )


def known_left(failing: Failing, expected: Array, duration: Array, job: Array) -> Array:
    """What jobs have left as the policy knows it (``expected`` of ``duration``), at least 1 s."""
    return jnp.maximum(expected[job] + failing.remaining[job] - duration[job], 1)


def begun(failing: Failing, job: Array, taken: Array, time: Array) -> tuple[Failing, Array]:
    """After the start of a job (n: of nobody) on some GPUs, and when it first started."""
    first = jnp.where(failing.stops[job] > 0, failing.first_start[job], time)
    return failing._replace(
        job=jnp.where(taken, job, failing.job),
        first_start=failing.first_start.at[job].set(first),
        last_start=failing.last_start.at[job].set(time),
    ), first
