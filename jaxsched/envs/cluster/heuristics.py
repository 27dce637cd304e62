"""The replay engine's orders that never suspend a job, as policies of the environment.

Each gives the schedule of ``jaxsched.trace_replay.replay``, job by job, as long as all waiting jobs
are in the window. Axes: ``W`` positions.
"""

from types import MappingProxyType
from typing import Literal

import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.cluster.dynamics import State
from jaxsched.envs.cluster.environment import ClusterJobs
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

Order = Literal["fifo", "sjf", "lrf", "spf", "qssf"]
ORDERS: tuple[Order, ...] = ("fifo", "sjf", "lrf", "spf", "qssf")
MOST_WORK = 2**30  # GPU-seconds at which QSSF's estimates are cut


def _key(order: Order, view: View) -> Array:
    """What the order goes by, lower first; ``[W, 2]``, the second column for ties of the first."""
    state: State = view.state
    jobs = view.params.jobs.of_episode(state.episode)
    rows = state.window
    gpus, zero = jobs.num_gpus[rows], jnp.zeros_like(rows)
    match order:
        case "fifo":
            return jnp.stack([zero, zero], axis=1)
        case "sjf":
            return jnp.stack([jobs.duration[rows], zero], axis=1)
        case "lrf":
            return jnp.stack([gpus, zero], axis=1)
        case "spf":
            return product(jobs.duration[rows], gpus)
        case _:
            return product(jnp.minimum(state.estimate[rows], MOST_WORK // gpus), gpus)


def product(seconds: Array, gpus: Array) -> Array:
    """Products of numbers below 2**31 and 2**16 as two digits, ``[W, 2]``: they exceed int32."""
    low = (seconds & 0x7FFF) * gpus
    high = (seconds >> 15) * gpus + (low >> 15)
    return jnp.stack([high, low & 0x7FFF], axis=1)


def rule(env: ClusterJobs, order: Order, mode: Literal["skip", "block"] = "skip") -> Policy:
    """The first job in order that fits starts (``skip``), or the first in order waits (``block``).

    Raises:
      JaxschedError: an unknown order.
    """
    if order not in ORDERS:
        raise JaxschedError(f"cluster: order is {order!r}; accepted: {', '.join(ORDERS)}")
    wait, largest = env.window, jnp.iinfo(jnp.int32).max

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        occupied = view.state.window < view.params.jobs.nobody
        left = view.mask[:wait] if mode == "skip" else occupied
        keys = _key(order, view)
        for digit in range(2):
            column = jnp.where(left, keys[:, digit], largest)
            left &= column == jnp.min(column)
        first = jnp.argmax(left)
        return jnp.where(view.mask[first] & left[first], first, wait).astype(jnp.int32), memory

    suffix = "" if mode == "skip" else "-block"
    return Policy(order + suffix, no_memory, act, privileged=True)


RULES = MappingProxyType(
    {
        "fifo": ("fifo", "block"),
        "fifo-skip": ("fifo", "skip"),
        "sjf": ("sjf", "skip"),
        "sjf-block": ("sjf", "block"),
        "lrf": ("lrf", "skip"),
        "spf": ("spf", "skip"),
        "qssf": ("qssf", "skip"),
    }
)
"""Names of ``trace_replay.POLICIES`` as order and mode."""
