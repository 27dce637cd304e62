"""Optimus' marginal gain of one more unit (specification of the elastic core, section 9)."""

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.resources import dominant_amount
from jaxsched.envs.chic.tables import SERVERS, WORKERS
from jaxsched.types import Array

LEAST_GAIN_S = 1e-9  # units that gain no more are not given


def gains(
    seconds: Array,
    capacity: tuple[int, ...],
    model: Array,
    left: Array,
    workers: Array,
    servers: Array,
) -> Array:
    """Seconds of remaining time saved, per amount of the dominant resource, ``[..., 2]``.

    Of one more parameter server (PS), then of one more worker: in this order the first largest
    entry is the one that Optimus takes. Minus infinity for workloads that cannot train yet.

    Args:
      seconds: per iteration, ``[M, W + 2, P + 2]``.
      capacity: of the cluster.
      model: int32 ``[...]``.
      left: remaining iterations ``[...]``.
      workers: int32 ``[...]``.
      servers: int32 ``[...]``.
    """
    amounts = np.stack([dominant_amount(SERVERS, capacity), dominant_amount(WORKERS, capacity)], -1)
    now = left * seconds[model, workers, servers]
    more = jnp.stack(
        [left * seconds[model, workers, servers + 1], left * seconds[model, workers + 1, servers]],
        axis=-1,
    )
    holds = (workers > 0) & (servers > 0)
    saved = jnp.where(holds[..., None], now[..., None] - more, -jnp.inf)
    return saved / jnp.asarray(amounts)[model]
