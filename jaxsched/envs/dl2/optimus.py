"""Optimus for DL2: marginal gains, with a fitted or the true speed model (section 9).

Source: Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters"
(EuroSys 2018). Axes: ``N`` rows of the job table, ``M`` job types.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.elastic import optimus_fit
from jaxsched.elastic.optimus_fit import Evidence
from jaxsched.envs.dl2.cluster import PS, WORKER
from jaxsched.envs.dl2.parameters import PROFILE_POINTS, Params
from jaxsched.envs.dl2.plans import Draft, Plan, Slot, repeat, try_increment
from jaxsched.envs.dl2.tables import NUM_MODELS
from jaxsched.types import Array

Seconds = Callable[[Array, Array], Array]
"""Seconds per epoch of every job with ``w`` workers and ``p`` PS, float ``[N]``."""


class Model(NamedTuple):
    """Memory of the online fit, per job type."""

    evidence: Evidence  # leaves [M, ...]
    theta: Array  # float [M, 5]


def profiled(params: Params) -> Model:
    """The model before the first slot: eight noise-free points of every type."""
    servers, workers = (jnp.asarray(column) for column in np.array(PROFILE_POINTS).T)
    rate = 1.0 / params.known.profile[:NUM_MODELS]
    points = optimus_fit.evidence(workers, servers, rate)
    total = Evidence(jnp.sum(points.gram, axis=1), jnp.sum(points.moment, axis=1))
    return Model(total, optimus_fit.fit(*total))


def learn(model: Model, slot: Slot) -> Model:
    """Add what was measured in the last slot, and refit."""
    last = slot.state.last
    w, p = jnp.maximum(last.workers, 1), jnp.maximum(last.ps, 1)
    points = optimus_fit.evidence(w, p, last.pace)
    types = jnp.arange(NUM_MODELS, dtype=jnp.int32)[:, None]
    of_type = ((slot.model == types) & (last.pace > 0)).astype(last.pace.dtype)
    gram = jnp.sum(of_type[..., None, None] * points.gram, axis=1)
    moment = jnp.sum(of_type[..., None] * points.moment, axis=1)
    total = Evidence(model.evidence.gram + gram, model.evidence.moment + moment)
    return Model(total, optimus_fit.fit(*total))


def fitted(model: Model, slot: Slot) -> Seconds:
    """What the fitted model predicts."""
    theta = model.theta[jnp.minimum(slot.model, NUM_MODELS - 1)]
    return lambda w, p: optimus_fit.predict(theta, w, p)


class Gains(NamedTuple):
    """Epoch seconds saved per share of the cluster, float ``[N]``; -inf where not allowed."""

    worker: Array
    ps: Array


def gains(slot: Slot, plan: Plan, seconds: Seconds) -> Gains:
    """Gain of one more worker and of one more PS of each job (core, section 9)."""
    rules = slot.rules
    cluster = rules.cluster
    w, p = plan.workers, plan.ps
    now = seconds(w, p)

    def gain(more_w: int, more_p: int, shares: np.ndarray, allowed: Array) -> Array:
        unit = np.append(shares.max(axis=-1), 1) / cluster.share_unit
        # One product of a difference: equal speeds give exactly 0, which ends the loop.
        saved = slot.left * (now - seconds(w + more_w, p + more_p))
        return jnp.where(allowed, saved / jnp.asarray(unit, float)[slot.model], -jnp.inf)

    running = slot.active & (w > 0)
    if not cluster.needs_ps:
        worker = gain(1, 0, cluster.worker_shares, running & (w < rules.max_workers))
        return Gains(worker, jnp.full_like(worker, -jnp.inf))
    running &= p > 0
    return Gains(
        gain(1, 0, cluster.worker_shares, running & (w < rules.max_workers)),
        gain(0, 1, cluster.ps_shares, running & (p < rules.max_ps)),
    )


def allocate(slot: Slot, draft: Draft, seconds: Seconds, *, fill: bool) -> Draft:
    """First a bundle for each job in order, then tasks by gain.

    Args:
      slot: the slot.
      draft: nothing is allocated.
      seconds: the speed model.
      fill: where a task does not fit, close that job for that kind and go on, instead of stopping.
    """
    jobs = slot.active.shape[0]

    def first(job: Array, draft: Draft) -> Draft:
        job = jnp.asarray(job, jnp.int32)
        return try_increment(slot, draft, job, slot.bundle, slot.active[job])[0]

    draft = jax.lax.fori_loop(0, jobs - 1, first, draft)

    def step(draft: Draft, closed: Array) -> tuple[Draft, Array, Array]:
        gain = gains(slot, draft.plan, seconds)
        # PS before worker: it wins ties of the same job.
        both = jnp.where(closed, -jnp.inf, jnp.stack([gain.ps, gain.worker], axis=-1).reshape(-1))
        chosen = jnp.argmax(both).astype(jnp.int32)
        kind = jnp.where(chosen % 2 == 0, PS, WORKER)
        worth = both[chosen] > 0
        draft, placed = try_increment(slot, draft, chosen // 2, kind, worth)
        if fill:
            here = jnp.arange(both.shape[0], dtype=jnp.int32) == chosen
            return draft, closed | (here & ~placed), worth
        return draft, closed, placed

    return repeat(step, draft, jnp.zeros(2 * jobs, bool))[0]
