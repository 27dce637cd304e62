"""The probe: a greedy policy that knows the true speeds and the contention (section 15).

It bounds what is easily attainable, and is no scheduler: it reads what no scheduler knows.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2.cluster import BUNDLE, PS, WORKER
from jaxsched.envs.dl2.dynamics import delay
from jaxsched.envs.dl2.plans import Draft, Plan, Slot, clip, repeat, try_increment
from jaxsched.types import Array

EXPONENT = 0.1
LEAST_LEFT = 1e-3  # epochs, so that the weight is finite


def _with_none(values: np.ndarray) -> Array:
    """A column per job type, with 0 for none."""
    return jnp.asarray(np.append(values, 0))


def probe(slot: Slot, draft: Draft) -> Draft:
    """Increments by what they add to ``sum rate / remaining^0.1`` per dominant share.

    ``rate`` is the true speed without the slot's noise, slowed by the CPU cores of the others; an
    increment is charged with what it slows. It stops when nothing that fits adds anything.
    """
    rules, speed = slot.rules, slot.params.speed
    cluster = rules.cluster
    weight = jnp.maximum(slot.left, LEAST_LEFT) ** -EXPONENT
    kinds = (WORKER, PS, BUNDLE) if cluster.needs_ps else (WORKER,)
    more = {WORKER: (1, 0), PS: (0, 1), BUNDLE: (1, 1)}
    worker_cpus = _with_none(cluster.demands.worker[:, 1])[slot.model]
    ps_cpus = _with_none(cluster.demands.ps[:, 1])[slot.model]

    def rate(w: Array, p: Array) -> Array:
        table = speed.rate
        return table[slot.model, clip(w, table.shape[1]), clip(p, table.shape[2])]

    def values(plan: Plan) -> Array:
        """Added value per share, float ``[kinds, N]``."""
        w, p = plan.workers, plan.ps
        cpus = w * worker_cpus + p * ps_cpus
        total = jnp.sum(cpus, dtype=jnp.int32)
        worth = weight * rate(w, p)
        now = jnp.sum(worth / delay(speed, total - cpus))
        added = []
        for kind in kinds:
            more_w, more_p = more[kind]
            extra = more_w * worker_cpus + more_p * ps_cpus  # [N]
            # Everybody's value if the job of the row gets the increment: others are slowed.
            others = 1.0 / delay(speed, total + extra[:, None] - cpus)  # [row, job]
            slowed = jnp.sum(worth * others, axis=-1) - worth * jnp.diagonal(others)
            own = weight * rate(w + more_w, p + more_p) / delay(speed, total - cpus)
            shares = np.append(
                (more_w * cluster.worker_shares + more_p * cluster.ps_shares).max(axis=-1), 1
            )
            share = jnp.asarray(shares / cluster.share_unit, float)[slot.model]
            allowed = slot.active & (w + more_w <= rules.max_workers)
            allowed &= p + more_p <= rules.max_ps
            added.append(jnp.where(allowed, (slowed + own - now) / share, -jnp.inf))
        return jnp.stack(added)

    def step(draft: Draft, closed: Array) -> tuple[Draft, Array, Array]:
        value = jnp.where(closed, -jnp.inf, values(draft.plan)).reshape(-1)
        chosen = jnp.argmax(value).astype(jnp.int32)
        jobs = slot.active.shape[0]
        worth = value[chosen] > 0
        kind = jnp.asarray(kinds)[chosen // jobs]
        draft, placed = try_increment(slot, draft, chosen % jobs, kind, worth)
        here = jnp.arange(value.shape[0], dtype=jnp.int32) == chosen
        return draft, closed | (here & ~placed).reshape(closed.shape), worth

    closed = jnp.zeros((len(kinds), slot.active.shape[0]), bool)
    return repeat(step, draft, closed)[0]
