"""Locality levels and the slowdown table (SCHED2, section 2 of the specification).

Level 1 of VGG16, Transformer, DeepSpeech and InceptionV3 is Fig. 1 of the paper; the rest is the
specification's choice (its section 13). Slowdowns are in tenths so that run times are exact.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxsched.types import Array

NUM_LEVELS = 4


class Model(NamedTuple):
    """A deep-learning model as the cluster sees it."""

    name: str
    slowdown_tenths: tuple[int, int, int, int]  # by locality level


MODELS = (
    Model("AlexNet", (10, 40, 70, 100)),
    Model("InceptionV3", (10, 14, 18, 22)),
    Model("ResNet50", (10, 15, 20, 25)),
    Model("VGG16", (10, 59, 108, 157)),
    Model("DeepSpeech", (10, 16, 22, 28)),
    Model("Transformer", (10, 27, 44, 61)),
)

SLOWDOWN_TENTHS = np.array([model.slowdown_tenths for model in MODELS], np.int32)
SENSITIVE = SLOWDOWN_TENTHS[:, 1] >= 20  # bool [num_models]


def _array(values: ArrayLike) -> Any:
    """Of NumPy if they are: JAX would compile every operation for every shape."""
    return values if isinstance(values, np.ndarray) else jnp.asarray(values)


def level_of(extra_servers: ArrayLike) -> Array:
    """Locality level of a placement on that many more servers than necessary: 0, 1, 2-3, >= 4."""
    extra = _array(extra_servers)
    return (extra >= 1).astype(np.int32) + (extra >= 2) + (extra >= 4)


def fewest_servers(num_gpus: ArrayLike, gpus_per_server: int) -> Array:
    """Servers a gang needs at the least: ``ceil(num_gpus / gpus_per_server)``."""
    return -(-_array(num_gpus) // gpus_per_server)


def worst_level(num_gpus: ArrayLike, num_servers: int, gpus_per_server: int) -> Array:
    """The most scattered level that a gang can reach on this cluster."""
    fewest = fewest_servers(num_gpus, gpus_per_server)
    xp = fewest.__array_namespace__()
    most = xp.maximum(xp.minimum(_array(num_gpus), num_servers), fewest)
    return level_of(most - fewest)


def run_time(duration: ArrayLike, slowdown_tenths: ArrayLike) -> Array:
    """Run time in whole seconds, rounded half up: ``(d * slow10 + 5) // 10``.

    Exact in int32 up to the longest run time of a rigid job, ``jaxsched.jobs.MAX_DURATION_S``: that
    times 157, the largest slowdown of the table, is below 2**31.
    """
    return (_array(duration) * _array(slowdown_tenths) + 5) // 10
