"""The heuristics of DL2's published simulator, with its own rules (artefact track, section 8).

All start from an empty cluster, see all active jobs and place by the environment's options, which
are to be those of the preset ``artefact`` to reproduce it. Where the paper's text says something
else, the simulator's way is kept: Tetris prefers long jobs, shortest first goes by the remaining
share, Optimus knows the speeds and does not weigh a task by what it takes.

Axes: ``N`` rows of the job table, ``S`` servers, ``M`` job types.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2.cluster import BUNDLE, PS, WORKER, holds, put
from jaxsched.envs.dl2.dynamics import MAX_TASKS
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import (
    Draft,
    Slot,
    clip,
    first_best,
    first_least,
    most_bundles,
    noted,
    ranked,
    repeat,
    shares,
    try_increment,
)
from jaxsched.envs.dl2.tables import whole
from jaxsched.types import Array

ENDLESS = 1e9  # seconds, of a job that does not get on


def drf(slot: Slot, draft: Draft) -> Draft:
    """The smallest dominant share gets the next bundle, until one does not fit."""
    limit = most_bundles(slot.rules, MAX_TASKS)

    def step(draft: Draft, extra: tuple[()]) -> tuple[Draft, tuple[()], Array]:
        live = slot.active & (draft.plan.workers < limit)
        job = first_least(shares(slot, draft.plan), live)
        draft, placed = try_increment(slot, draft, job, BUNDLE, live[job])
        return draft, extra, placed

    return repeat(step, draft, ())[0]


def fifo(slot: Slot, draft: Draft) -> Draft:
    """First come, first served, up to the limits: a job or two take the whole cluster."""
    return ranked(slot, draft, jnp.arange(slot.active.shape[0], dtype=jnp.int32), MAX_TASKS)


def srtf(slot: Slot, draft: Draft) -> Draft:
    """The same by the smallest share of the epochs that remains, not by the time it takes."""
    return ranked(slot, draft, _fraction(slot), MAX_TASKS)


def _fraction(slot: Slot) -> Array:
    """Share of the epochs that remains, float ``[N]``."""
    cluster = slot.state.cluster
    return 1.0 - cluster.progress / whole(slot.params.jobs.expected, cluster.episode)


def tetris(slot: Slot, draft: Draft) -> Draft:
    """Server by server, the job of the highest score, until its bundle does not fit there.

    The score is what a bundle has in common with the server's free resources, plus a weight times
    the work that is left: more work scores higher.
    """
    cluster = slot.rules.cluster
    limit = most_bundles(slot.rules, MAX_TASKS)
    bundle = np.append(cluster.demands.worker + cluster.demands.ps, [[0, 0, 0]], axis=0)
    demand = jnp.asarray(bundle, float)[slot.model]  # [N, R]
    left = jnp.sum(demand, axis=-1) * _fraction(slot)
    packed = cluster.placement[:, :2] + cluster.placement[:, 2:]
    count = jnp.maximum(jnp.sum(slot.active), 1)

    def mean(values: Array) -> Array:
        return jnp.sum(jnp.where(slot.active, values, 0.0)) / count

    def step(draft: Draft, server: Array) -> tuple[Draft, Array, Array]:
        room = draft.servers.free[server]
        align = jnp.sum(demand * cluster.layout.unpack(room), axis=-1)
        weight = mean(align) / mean(left)
        live = slot.active & (draft.plan.workers < limit)
        job = first_best(align + weight * left, live)
        need, load = jnp.asarray(packed).at[slot.model[job]].get(mode="clip")
        placed = live[job] & (weight != 0) & holds(cluster, room, need)
        at = jnp.where(placed, server, cluster.num_servers)
        draft = draft._replace(servers=put(draft.servers, at, need, load))
        where = jnp.stack([at, at])
        draft = noted(slot, draft, job, jnp.int32(BUNDLE), where, placed)
        server = jnp.where(placed, server, server + 1)
        return draft, server, server < cluster.num_servers

    return repeat(step, draft, jnp.int32(0), jnp.any(slot.active))[0]


class Wish(NamedTuple):
    """What each job wants most; ``[...]`` as the jobs."""

    kind: Array  # int32, WORKER or PS
    gain: Array  # float, seconds saved; infinite while it lacks one of the two
    refused: Array  # bool, it has as many of these as it may


def wishes(
    params: Params, limits: tuple[int, int], model: Array, left: Array, tasks: tuple[Array, Array]
) -> Wish:
    """Optimus' marginal gains by the true speeds.

    Args:
      params: with the speeds, of one worker and one PS more than the limits where they are known.
      limits: workers and PS of a job.
      model: int32 ``[...]``, job types.
      left: float ``[...]``, remaining epochs.
      tasks: workers and PS, int32 ``[...]`` each.
    """
    (w, p), rate = tasks, params.speed.rate

    def seconds(w: Array, p: Array) -> Array:
        speed = rate[model, clip(w, rate.shape[1]), clip(p, rate.shape[2])]
        return jnp.where(speed > 0, left / jnp.where(speed > 0, speed, 1.0), ENDLESS)

    now = seconds(w, p)
    by_worker, by_ps = now - seconds(w + 1, p), now - seconds(w, p + 1)
    by_ps = jnp.where((w > 0) & (p == 0), jnp.inf, by_ps)
    by_worker = jnp.where(w == 0, jnp.inf, jnp.where(p == 0, -jnp.inf, by_worker))
    worker = (by_worker > by_ps) | (w == 0)
    refused = jnp.where(worker, w >= limits[0], p >= limits[1])
    return Wish(
        jnp.where(worker, WORKER, PS).astype(jnp.int32), jnp.maximum(by_worker, by_ps), refused
    )


def optimus(slot: Slot, draft: Draft) -> Draft:
    """The largest gain gets its task, until none gains or one does not fit.

    A job that wants what it may have no more of leaves; the other kind is not tried.
    """
    limits = slot.rules.max_workers, slot.rules.max_ps

    def step(draft: Draft, live: Array) -> tuple[Draft, Array, Array]:
        tasks = draft.plan.workers, draft.plan.ps
        wish = wishes(slot.params, limits, slot.model, slot.left, tasks)
        live &= ~wish.refused
        job = first_best(wish.gain, live)
        worth = live[job] & (wish.gain[job] > 0)
        draft, placed = try_increment(slot, draft, job, wish.kind[job], worth)
        return draft, live, placed

    return repeat(step, draft, slot.active)[0]


RULES: dict[str, Callable[[Slot, Draft], Draft]] = {
    "drf": drf,
    "optimus": optimus,
    "srtf": srtf,
    "fifo": fifo,
    "tetris": tetris,
}
