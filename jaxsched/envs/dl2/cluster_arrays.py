"""DL2's cluster as plain arrays: the jobs of a slot and what they hold so far.

Axes: ``J`` rows of the window.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.observation import D_SCALE, E_SCALE, Shown, paper_observation
from jaxsched.envs.dl2.tables import NUM_MODELS
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput
from jaxsched.types import Array, ArraySpec


def cluster_arrays(env: DL2) -> ClusterArrays:
    """How a cluster is told; jobs in order of arrival, ``present`` false behind the last."""

    def of_rows(meaning: str, unit: str, dtype: type = jnp.int32) -> ClusterInput:
        return ClusterInput(ArraySpec((env.window,), dtype), meaning, unit)

    models = ", ".join(f"{i} {name}" for i, name in enumerate(NAMES))
    inputs = {
        "present": of_rows("whether the row holds a job", "", jnp.bool_),
        "model": of_rows(f"its model: {models}", ""),
        "slots": of_rows("slots since it arrived", "slots"),
        "epochs_left": of_rows("remaining epochs by the estimate", "epochs", jnp.float32),
        "workers": of_rows("workers in this slot so far", "tasks"),
        "ps": of_rows("parameter servers in this slot so far", "tasks"),
        "mask": ClusterInput(
            ArraySpec((env.action_spec(None).num_actions,), jnp.bool_),  # type: ignore[arg-type]
            "actions that are possible: worker, PS, both of row 0, of row 1, ..., then none",
            "",
        ),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env))


def _observe(env: DL2, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of rows with these jobs."""
    present, model = arrays["present"], arrays["model"]
    names = ("slots", "epochs_left", "workers", "ps")
    slots, left, workers, ps = (jnp.where(present, arrays[name], 0) for name in names)
    cluster = env.cluster
    needs = (
        jnp.asarray(shares, jnp.int32) for shares in (cluster.worker_shares, cluster.ps_shares)
    )
    of_worker, of_ps = (shares[model] for shares in needs)
    share = jnp.max(workers[:, None] * of_worker + ps[:, None] * of_ps, axis=-1)
    shown = Shown(jnp.where(present, model, NUM_MODELS), slots, left, share, workers, ps)
    return paper_observation(env.rules, shown, D_SCALE, E_SCALE), arrays["mask"]


def _example(env: DL2, random: np.random.Generator) -> dict[str, Any]:
    """Some jobs, some tasks."""
    rows, actions = env.window, env.action_spec(None).num_actions  # type: ignore[arg-type]
    return {
        "present": np.arange(rows) < random.integers(1, rows + 1),
        "model": random.integers(0, NUM_MODELS, rows).astype(np.int32),
        "slots": random.integers(0, 40, rows).astype(np.int32),
        "epochs_left": random.uniform(1, 90, rows).astype(np.float32),
        "workers": random.integers(0, env.max_workers + 1, rows).astype(np.int32),
        "ps": random.integers(0, env.max_ps + 1, rows).astype(np.int32),
        "mask": np.append(random.random(actions - 1) < 0.5, True),
    }
