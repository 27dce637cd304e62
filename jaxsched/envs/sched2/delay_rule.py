"""Delay scheduling with tuned patience: a reference policy of 17 numbers (section 12).

A job of the window may start now if it fits and

    it would start at level 0, or has waited for ``patience`` times its ideal run time,
    where patience depends on its class (sensitive or not) and size, and
    it is smaller than a server and would open an entirely free one: more of these than
    ``reserve`` are left.

The one of the highest priority starts, a weighted sum of what is known of each; if there is none,
nothing starts. ``delay_rule.json`` has the numbers that a search on training traces found
(``python -m benchmarks.once.sched2_delay_rule``).

Axes: ``J`` positions, ``C = 2`` classes (insensitive, sensitive), ``Z = 4`` sizes (up to 2, 4 and 8
GPUs, more).
"""

import json
from functools import cache
from importlib import resources
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.outlook import OUTLOOK
from jaxsched.types import Array

SIZES = (2, 4, 8)  # largest demands of the first classes of sizes
SENSITIVE = 1.0  # a slowdown at level 1 of this much above 1 and more
PRIORITIES = ("duration", "wait", "demand", "sensitivity", "left_over", "effectiveness", "age")
FILE = "delay_rule.json"


class DelayRule(NamedTuple):
    """The numbers of the rule, float32."""

    patience: Array | np.ndarray  # [C, Z], logarithm of multiples of the ideal run time
    reserve: Array | np.ndarray  # [2], servers, for jobs of one GPU and of more
    priority: Array | np.ndarray  # [7], weights of PRIORITIES


def strict_rule() -> DelayRule:
    """Close to ``strict_sif``: split after twenty run times only, no reserve, shortest first."""
    weights = [-1.0 if name == "duration" else 0.0 for name in PRIORITIES]
    return DelayRule(
        jnp.full((2, len(SIZES) + 1), 3.0), jnp.full(2, -0.5), jnp.array(weights, jnp.float32)
    )


@cache
def tuned_rule() -> DelayRule:
    """The rule that the search found (numpy arrays)."""
    text = (resources.files("jaxsched.envs.sched2") / FILE).read_text(encoding="utf-8")
    found = json.loads(text)["rule"]
    return DelayRule(*(np.asarray(found[name], np.float32) for name in DelayRule._fields))


def choose(rule: DelayRule, entries: Array, empty: Array, gpus_per_server: int) -> Array:
    """Position of the job that starts, or J if none does; int32 scalar.

    Args:
      rule: the numbers.
      entries: float32 ``[J, 11]``, the window's outlook (``outlook.py``).
      empty: int32 scalar, servers that are entirely free.
      gpus_per_server: G.
    """
    of = {name: entries[:, i] for i, name in enumerate(OUTLOOK)}
    gpus = of["demand"] * gpus_per_server
    size = sum((gpus > most).astype(jnp.int32) for most in SIZES)
    sensitive = (of["sensitivity"] >= SENSITIVE).astype(jnp.int32)
    patience = jnp.exp(jnp.asarray(rule.patience)[sensitive, size])
    waited = of["wait"] >= patience * of["duration"]
    left = of["left_over"] * gpus_per_server
    opens = (gpus < gpus_per_server) & (jnp.abs(left + gpus - gpus_per_server) < 0.5)
    reserve = jnp.asarray(rule.reserve)[(gpus > 1.5).astype(jnp.int32)]
    ready = (of["fits"] > 0) & ((of["level0"] > 0) | waited) & ~(opens & (empty <= reserve))
    num = entries.shape[0]
    known = {
        **of,
        "duration": jnp.log(jnp.maximum(of["duration"], 1e-6)),
        "wait": jnp.log1p(of["wait"] / jnp.maximum(of["duration"], 1e-6)),
        "age": -jnp.arange(num) / num,
    }
    score = jnp.stack([known[name] for name in PRIORITIES], axis=-1) @ jnp.asarray(rule.priority)
    best = jnp.argmax(jnp.where(ready, score, -jnp.inf)).astype(jnp.int32)
    return jnp.where(jnp.any(ready), best, num)
