"""What the agent sees (DL2, section 4 of the specification).

Layout of the flat vector, ``J * (L + 5)`` long with ``L = 8`` job types: the one-hot types, row by
row; then, for all rows each, the slots since the arrival, the remaining epochs by the estimate, the
dominant share allocated in this slot, workers and parameter servers.
"""

import jax.numpy as jnp

from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2 import tables
from jaxsched.envs.dl2.cluster import KINDS
from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    Rules,
    options,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.tables import NUM_MODELS, JobTables, lookup
from jaxsched.ops.bounds import known_largest
from jaxsched.types import Array

FIELDS = ("slots", "remaining", "share", "workers", "ps")
KIND_NAMES = ("worker", "ps", "bundle")


def observation_names(window: int) -> tuple[str, ...]:
    """A readable name for each entry of the observation, in order."""
    types = [f"row{r}.{name}" for r in range(window) for name in NAMES]
    return tuple(types + [f"row{r}.{field}" for field in FIELDS for r in range(window)])


def action_names(window: int) -> tuple[str, ...]:
    """A name for each action, in order."""
    return (*(f"row{r}.{kind}" for r in range(window) for kind in KIND_NAMES), "void")


def largest_entry(params: Params, max_slots: int) -> float:
    """A bound of every entry: of flags and shares, epochs, and slots since the arrival."""
    return known_largest(1.0, params.jobs.epochs / params.e_scale, (max_slots + 1) / params.d_scale)


def observe(
    rules: Rules, state: ClusterState, jobs: JobTables, d_scale: Array, e_scale: Array
) -> tuple[Array, Array]:
    """Observation, float ``[J * 13]``, and legal actions, bool ``[3 * J + 1]``.

    Args:
      rules: the rules.
      state: the cluster.
      jobs: job tables.
      d_scale: slots in the cluster that count as 1.
      e_scale: remaining epochs that count as 1.
    """
    static = lookup(jobs.row, state.episode, state.rows)
    info, tasks = static[:, 0], state.tasks.at[state.rows].get(mode="promise_in_bounds")
    w, p = workers(tasks), parameter_servers(tasks)
    usage = tables.usage(static[:, 1], w, p)
    weights = rules.cluster.share_weights
    share = jnp.maximum(usage[0] * weights[0], usage[1] * weights[1])
    share = jnp.maximum(share, usage[2] * weights[2])
    progress = state.progress.at[state.rows].get(mode="promise_in_bounds")
    left = lookup(jobs.epochs, state.episode, state.rows) - progress
    # Empty rows never arrive, so that theirs is 0.
    age = jnp.maximum(state.slot - tables.arrival(info), 0)
    types = tables.model_of(info)[:, None] == jnp.arange(NUM_MODELS, dtype=jnp.int32)
    unit = rules.cluster.share_unit
    parts = [
        types.reshape(-1).astype(left.dtype),
        age.astype(left.dtype) * (1.0 / d_scale),
        jnp.maximum(left, 0.0) * (1.0 / e_scale),
        share.astype(left.dtype) / unit,
        w.astype(left.dtype) / rules.max_workers,
        p.astype(left.dtype) / rules.max_ps,
    ]
    observation = jnp.concatenate(parts)
    allowed = options(rules, tasks, info, state.fits)
    kinds = jnp.arange(KINDS, dtype=jnp.int32)
    legal = (allowed[:, None] >> kinds) & 1 > 0
    return observation, jnp.append(legal.reshape(-1), True)
