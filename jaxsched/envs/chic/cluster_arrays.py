"""Chic's cluster as plain arrays: the workloads of the window and what they are given so far.

Axes: ``I`` rows of the window.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import NAMES
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.observation import SCALES, observation_of
from jaxsched.envs.chic.rows import Row
from jaxsched.envs.chic.tables import NUM_MODELS
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput
from jaxsched.types import Array, ArraySpec


def cluster_arrays(env: Chic) -> ClusterArrays:
    """How a cluster is told; workloads oldest first, ``present`` false behind the last."""

    def of_rows(meaning: str, unit: str, dtype: type = jnp.int32) -> ClusterInput:
        return ClusterInput(ArraySpec((env.window,), dtype), meaning, unit)

    models = ", ".join(f"{i} {name}" for i, name in enumerate(NAMES[:NUM_MODELS]))
    inputs = {
        "present": of_rows("whether the row holds a workload", "", jnp.bool_),
        "model": of_rows(f"its model: {models}", ""),
        "iterations_left": of_rows("iterations left", "iterations"),
        "workers": of_rows("workers in the coming phase so far", "tasks"),
        "servers": of_rows("parameter servers likewise; not read by Chic-Pair", "tasks"),
        "backlog": ClusterInput(
            ArraySpec((), jnp.int32), "workloads that wait behind the window", "workloads"
        ),
        "mask": ClusterInput(
            ArraySpec((env.action_spec(None).num_actions,), jnp.bool_),  # type: ignore[arg-type]
            "actions that are possible, in the order of the manifest's names",
            "",
        ),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env))


def _observe(env: Chic, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of a window with these rows."""
    names = ("model", "iterations_left", "workers", "servers")
    told = [jnp.where(arrays["present"], arrays[name], 0) for name in names]
    rows = (Row(jnp.arange(env.window), *told),)
    return observation_of(rows, arrays["backlog"], SCALES, env.pair), arrays["mask"]


def _example(env: Chic, random: np.random.Generator) -> dict[str, Any]:
    """Some workloads, some units."""
    rows, actions = env.window, env.action_spec(None).num_actions  # type: ignore[arg-type]
    return {
        "present": np.arange(rows) < random.integers(1, rows + 1),
        "model": random.integers(0, NUM_MODELS, rows).astype(np.int32),
        "iterations_left": random.integers(1, 400, rows).astype(np.int32),
        "workers": random.integers(0, 9, rows).astype(np.int32),
        "servers": random.integers(0, 9, rows).astype(np.int32),
        "backlog": np.int32(random.integers(0, 20)),
        "mask": np.append(random.random(actions - 1) < 0.5, True),
    }
