"""What a policy sees: never the run time of a job that has not ended.

Axes: ``S`` servers, ``W`` positions, ``C`` numbers of the cluster, ``F`` numbers of a position.
Neither C nor F depends on the cluster, the window or the table, so that weights shared by the
positions play on every workload.
"""

import jax
import jax.numpy as jnp

from jaxsched.envs.cluster import dynamics
from jaxsched.envs.cluster.dynamics import Rules, State
from jaxsched.envs.cluster.tables import Jobs
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.cluster import largest_fit
from jaxsched.types import Array

CLUSTER = (
    "free",
    "largest_fit",
    "none_free",
    "quarter_free",
    "half_free",
    "most_free",
    "nearly_free",
    "wholly_free",
    "running",
    "waiting",
    "behind_window",
    "gpus_wanted",
)
"""Shares of the cluster's GPUs that are free and that one job could get; shares of servers with no
free GPUs, up to a quarter, a half, three quarters, less than all, and all of them; logarithms of
the jobs that run, wait, and wait behind the window, and of the GPUs wanted in the window over those
of the cluster."""

POSITION = (
    "occupied",
    "fits",
    "first",
    "gpus",
    "gpus_of_server",
    "gpus_of_cluster",
    "wait",
    "estimate",
    "estimated_work",
    "owner_holds",
    "owner_waits",
    *(f"{scope}.{name}" for scope in hs.SCOPES for name in ("ended", "fast", "slow", "spread")),
)
"""Whether a job waits there, fits now, and is the oldest; its GPUs (logarithm, shares of a server,
at most 1, and of the cluster); seconds waited, the mean run time of its stream when it was
submitted, and this times its GPUs (logarithms); GPUs that its owner holds (share of the cluster)
and jobs of it that wait (logarithm); and of each scope of the history the logarithm of the jobs
ended, and the recent mean, the mean and the spread of the logarithms of run times, as of now."""

OCTAVES = 16.0  # logarithms are divided by this


def logarithm(value: Array) -> Array:
    """Octaves of one more, in 16ths."""
    return jnp.log2(1.0 + value.astype(jnp.float32)) / OCTAVES


def observe(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``CLUSTER``, then ``POSITION`` of each position, zeros in empty ones; ``[C + WF]``."""
    positions = of_positions(rules, state, jobs)
    return jnp.concatenate([of_cluster(rules, state, jobs), positions.reshape(-1)])


def of_cluster(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``CLUSTER``, float32 ``[C]``."""
    cluster = rules.cluster
    free = dynamics.free_gpus(state)
    full, total = cluster.gpus_per_server, float(cluster.num_gpus)
    quarter = jnp.where(free == full, 5, -(-4 * free // full))
    servers = jnp.sum(quarter[None, :] == jnp.arange(6)[:, None], axis=1) / cluster.num_servers
    wanted = jnp.sum(jnp.where(state.window < jobs.nobody, jobs.num_gpus[state.window], 0))
    return jnp.concatenate(
        [
            jnp.stack([jnp.sum(free), largest_fit(cluster, rules.locality, free)]) / total,
            servers,
            logarithm(
                jnp.stack(
                    [
                        state.running,
                        dynamics.num_waiting(state, jobs),
                        state.arrived - state.entered,
                    ]
                )
            ),
            logarithm(wanted / total)[None],
        ]
    ).astype(jnp.float32)


def of_positions(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``POSITION`` of each position, float32 ``[W, F]``."""
    rows = state.window
    occupied = rows < jobs.nobody
    gpus, group = jobs.num_gpus[rows], jobs.group[rows]
    cluster = rules.cluster
    estimate = state.estimate[rows].astype(jnp.float32)
    scopes = jax.vmap(lambda row: hs.of_scopes(state.history, jobs.known, row))(rows)
    unit = hs.STEPS * hs.FINE * OCTAVES
    history = jnp.stack(
        [
            logarithm(scopes.ended),
            scopes.fast / unit,
            scopes.slow / unit,
            scopes.spread / unit,
        ],
        axis=-1,
    ).reshape(rows.shape[0], -1)
    own = jnp.stack(
        [
            occupied,
            dynamics.fits(rules, state, jobs),
            jnp.arange(rows.shape[0]) == 0,
            logarithm(gpus),
            jnp.minimum(gpus / cluster.gpus_per_server, 1.0),
            gpus / cluster.num_gpus,
            logarithm(state.time - jobs.submit[rows]),
            logarithm(estimate),
            logarithm(estimate * gpus),
            state.held[group] / cluster.num_gpus,
            logarithm(state.queued[group]),
        ],
        axis=-1,
    )
    seen = jnp.concatenate([own.astype(jnp.float32), history.astype(jnp.float32)], axis=-1)
    return jnp.where(occupied[:, None], seen, 0.0)


def names(window: int) -> tuple[str, ...]:
    """What the entries of an observation are."""
    return (*CLUSTER, *(f"position{q}.{name}" for q in range(window) for name in POSITION))
