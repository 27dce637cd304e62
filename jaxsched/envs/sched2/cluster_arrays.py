"""SCHED2's cluster as plain arrays: seconds until GPUs are free, and who waits.

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` positions, ``Q`` = ``WAITING`` jobs.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2 import observation as obs
from jaxsched.envs.sched2.dynamics import ClusterState
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.outlook import outlook
from jaxsched.envs.sched2.slowdown import MODELS, NUM_LEVELS, SLOWDOWN_TENTHS, run_time, worst_level
from jaxsched.envs.sched2.tables import NEVER, JobTables
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput
from jaxsched.types import Array, ArraySpec

WAITING = 256
"""Rows for waiting jobs; of more only the oldest are told."""
NOW_S = 2**25  # what the present is called: any time that leaves room before and after


def cluster_arrays(env: Sched2) -> ClusterArrays:
    """How a cluster is told; waiting jobs in order of submission, with 0 GPUs behind the last."""
    jobs = max(WAITING, env.window)

    def of_jobs(meaning: str, unit: str) -> ClusterInput:
        return ClusterInput(ArraySpec((jobs,), jnp.int32), meaning, unit)

    models = ", ".join(f"{i} {model.name}" for i, model in enumerate(MODELS))
    inputs = {
        "busy_s": ClusterInput(
            ArraySpec((env.num_servers, env.gpus_per_server), jnp.int32),
            "time until the job on the GPU ends, 0 if free",
            "s",
        ),
        "job_gpus": of_jobs("GPUs that a waiting job needs, 0: no job", "GPUs"),
        "job_duration_s": of_jobs("its run time with the best locality", "s"),
        "job_wait_s": of_jobs("time since it was submitted", "s"),
        "job_model": of_jobs(f"its model: {models}", ""),
        "more_to_come": ClusterInput(
            ArraySpec((), jnp.bool_), "waiting is allowed although nothing runs", ""
        ),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env, jobs))


def _observe(env: Sched2, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of the state with these jobs."""
    num_jobs = jnp.sum(arrays["job_gpus"] > 0, dtype=jnp.int32)
    window = {name: x[: env.window] for name, x in arrays.items() if name.startswith("job_")}
    state, jobs = _window_alone(env, arrays["busy_s"], window)
    scale = jnp.float32(obs.TIME_SCALE_S)
    parts = [
        arrays["busy_s"].reshape(-1) * (1.0 / scale),
        obs.position_features(state, jobs, scale, env.profile),
        _beyond(env, arrays, jnp.maximum(num_jobs - env.window, 0)),
    ]
    if env.extras:
        parts.append(obs.start_now(state, jobs).reshape(-1))
    if env.outlook:
        parts.append(outlook(state, jobs, scale))
    busy = arrays["busy_s"] > 0
    free = jnp.sum(~busy, dtype=jnp.int32)
    legal = (window["job_gpus"] > 0) & (window["job_gpus"] <= free)
    void = jnp.any(busy) | arrays["more_to_come"] | ~jnp.any(legal)
    return jnp.concatenate(parts).astype(jnp.float32), jnp.append(legal, void)


def _window_alone(
    env: Sched2, busy_s: Array, window: Mapping[str, Array]
) -> tuple[ClusterState, JobTables]:
    """State and table of the jobs in the window, without those beyond it."""
    gpus, duration = window["job_gpus"], window["job_duration_s"]
    real = gpus > 0
    submit = jnp.where(real, NOW_S - window["job_wait_s"], NEVER)
    worst = worst_level(gpus, env.num_servers, env.gpus_per_server)
    level = jnp.minimum(jnp.arange(NUM_LEVELS), worst[:, None])
    tenths = jnp.asarray(SLOWDOWN_TENTHS)[window["job_model"]]
    slowdown = jnp.take_along_axis(tenths, level, axis=-1)
    times = jnp.where(real[:, None], run_time(duration[:, None], slowdown), 0)
    shown = jnp.concatenate([times, gpus[:, None], submit[:, None]], axis=-1)
    unread = jnp.zeros((1, env.window), jnp.int32)  # of jobs beyond the window and to come
    jobs = JobTables(
        submit_time=submit[None],
        num_gpus=gpus[None],
        model=window["job_model"][None],
        run_time=times[None],
        shown=shown[None],
        batch_end=unread,
        sums=unread[..., None],
        num_jobs=unread[:, 0],
    )
    zero = jnp.int32(0)
    state = ClusterState(
        last_job=jnp.where(busy_s > 0, 2 * (NOW_S + busy_s), 0),
        window=jnp.arange(env.window, dtype=jnp.int32),
        in_window=jnp.sum(real, dtype=jnp.int32),
        time=jnp.int32(NOW_S),
        head=zero,
        arrived=zero,
        episode=zero,
    )
    return state, jobs


def _beyond(env: Sched2, arrays: Mapping[str, Array], count: Array) -> Array:
    """The four statistics of the jobs beyond the window (``observation.beyond_window``)."""
    each = 1.0 / jnp.maximum(count, 1)

    def mean(name: str) -> Array:
        rest = jnp.where(arrays["job_gpus"] > 0, arrays[name], 0)[env.window :]
        return jnp.sum(rest.astype(jnp.float32)) * each

    return jnp.stack(
        [
            count / env.window,
            mean("job_gpus") / env.gpus_per_server,
            mean("job_duration_s") / obs.TIME_SCALE_S,
            mean("job_wait_s") / obs.TIME_SCALE_S,
        ]
    ).astype(jnp.float32)


def _example(env: Sched2, jobs: int, random: np.random.Generator) -> dict[str, Any]:
    """Some GPUs free, more jobs than the window holds or fewer."""
    shape = (env.num_servers, env.gpus_per_server)
    real = np.arange(jobs) < random.integers(1, 2 * env.window)
    most = max(env.num_servers * env.gpus_per_server // 4, 1)
    waits = -np.sort(-random.integers(0, 20_000, jobs))
    columns = {
        "job_gpus": random.integers(1, most + 1, jobs),
        "job_duration_s": random.integers(60, 20_000, jobs),
        "job_wait_s": waits,
        "job_model": random.integers(0, len(MODELS), jobs),
    }
    found = {name: np.where(real, x, 0).astype(np.int32) for name, x in columns.items()}
    busy = np.where(random.random(shape) < 0.6, random.integers(1, 9_000, shape), 0)
    return {"busy_s": busy.astype(np.int32), **found, "more_to_come": np.array(True)}
