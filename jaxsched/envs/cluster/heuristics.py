"""The replay engine's orders as policies of the environment.

Each gives the schedule of ``jaxsched.trace_replay.replay``, job by job, if all waiting jobs
(with suspension, all running ones too) are in the window. Axes: ``W`` positions.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.cluster.environment import ClusterJobs
from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.dynamics import State
from jaxsched.envs.cluster.rules.suspension import chosen
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.suspension import gpu_seconds
from jaxsched.types import Array, PRNGKey, PyTree

Order = Literal[
    "fifo", "sjf", "lrf", "spf", "qssf", "lifo", "sjf-narrow", "lpf", "f1",
    "slowdown", "srtf", "srsf", "las", "spot",
]  # fmt: skip
Mode = Literal["skip", "block"]
ORDERS: tuple[Order, ...] = (
    "fifo", "sjf", "lrf", "spf", "qssf", "lifo", "sjf-narrow", "lpf", "f1", "slowdown"
)  # fmt: skip
"""Orders that never suspend a job; ``f1`` needs ``commits``, ``slowdown`` types of GPUs."""
SUSPENDING: tuple[Order, ...] = ("srtf", "srsf", "las", "spot")
"""Orders that need ``suspends``; the queues of ``las`` are the parameters' thresholds."""
MOST_WORK = 2**30  # GPU-seconds at which QSSF's estimates are cut


def _key(env: ClusterJobs, order: Order, view: View) -> Array:
    """The order's sort key, lower first; ``[W, 2]``, the second column breaks ties."""
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
        case "lifo":
            return jnp.stack([-jobs.submit[rows], zero], axis=1)
        case "sjf-narrow":
            return jnp.stack([jobs.duration[rows], gpus], axis=1)
        case "lpf":
            return jnp.stack([-jobs.duration[rows], zero], axis=1)
        case "f1":
            assert jobs.f1 is not None
            return jnp.stack([jobs.f1[rows], zero], axis=1)
        case "slowdown":
            assert jobs.typed is not None
            free = dynamics.free_servers(env.rules, state, jobs)
            kinds = dynamics.kinds(env.rules, state, jobs, free, rows)
            slowdown = jnp.take_along_axis(jobs.typed.slowdown[rows], kinds[:, None], axis=1)
            return jnp.append(slowdown, zero[:, None], axis=1)
        case "srtf":
            return jnp.stack([_seconds_left(state), zero], axis=1)
        case "srsf":
            return jnp.stack([gpu_seconds(_seconds_left(state), gpus), zero], axis=1)
        case "las":
            account = dynamics.account_of(state, rows)
            run = jnp.where(dynamics.runs(state), state.time - account.last_start, 0)
            crossed = jobs.crossing[rows] <= (account.served + run)[:, None]
            return jnp.stack([jnp.sum(crossed, axis=1, dtype=jnp.int32), zero], axis=1)
        case "spot":  # no job is suspended for one of equal priority
            waits = dynamics.waits(state, jobs).astype(jnp.int32)
            return jnp.stack([-jobs.priority[rows], waits], axis=1)
        case _:
            return product(jnp.minimum(state.estimate[rows], MOST_WORK // gpus), gpus)


def _seconds_left(state: State) -> Array:
    """Remaining seconds of each position's job, restart included, int32 ``[W]``."""
    account = dynamics.account_of(state, state.window)
    return jnp.where(dynamics.runs(state), account.end - state.time, account.remaining)


def product(seconds: Array, gpus: Array) -> Array:
    """Products of numbers below 2**31 and 2**16 as two digits, ``[W, 2]``: they exceed int32."""
    low = (seconds & 0x7FFF) * gpus
    high = (seconds >> 15) * gpus + (low >> 15)
    return jnp.stack([high, low & 0x7FFF], axis=1)


def rule(env: ClusterJobs, order: Order, mode: Mode = "skip") -> Policy:
    """The first job in order that fits starts (``skip``), or the first in order waits (``block``).

    Where choices commit, both modes choose the first in order, which waits until it fits.
    ``block`` needs ``may_wait``. Where the environment suspends jobs, the policy scores all
    jobs; in orders that never suspend, running jobs come before all waiting ones.

    Raises:
      JaxschedError: an unknown order, or one that suspends where the environment does not, F1 where
        choices do not commit or GPUs have slots, or ``slowdown`` where GPUs are alike.
    """
    known = ORDERS + SUSPENDING if env.suspends else ORDERS
    if order in SUSPENDING and not env.suspends:
        raise JaxschedError(
            f"cluster: order is {order!r}, which suspends jobs; accepted: env.suspends=true, or "
            f"{', '.join(known)}"
        )
    if order == "f1" and not env.commits:
        raise JaxschedError(
            "cluster: order is 'f1', which goes with choices that commit; accepted: "
            "env.commits=true, or another order"
        )
    if order == "f1" and env.gpu_slots() > 1:
        raise JaxschedError(
            "cluster: order is 'f1', which weighs numbers of GPUs, with slots of GPUs; accepted: "
            "another order, or servers without slots"
        )
    if order == "slowdown" and (not env.cluster.gpu_types or env.commits or mode == "block"):
        raise JaxschedError(
            "cluster: order is 'slowdown', which goes with GPUs of different types and mode skip; "
            "accepted: env.servers such as 4x8@v100,8x8@k80, or another order"
        )
    if order not in known:
        raise JaxschedError(f"cluster: order is {order!r}; accepted: {', '.join(known)}")
    choose = _scores if env.suspends else _choice

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        return choose(env, order, mode, view), memory

    suffix = "" if mode == "skip" else "-block"
    return Policy(order + suffix, no_memory, act, privileged=True)


def by_scores(name: str, score: Callable[[PyTree, Array], Array]) -> Policy:
    """A policy whose action is ``score(weights, observation)``, ``[W + 1]``, with suspension."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del key
        return score(weights, view.observation), memory

    return Policy(name, no_memory, act)


def _choice(env: ClusterJobs, order: Order, mode: str, view: View) -> Array:
    """The position that starts, int32 scalar."""
    wait, largest = view.mask.shape[0] - 1, jnp.iinfo(jnp.int32).max
    occupied = view.state.window < view.params.jobs.empty_row
    left = view.mask[:wait] if mode == "skip" else occupied
    keys = _key(env, order, view)
    for digit in range(2):
        column = jnp.where(left, keys[:, digit], largest)
        left &= column == jnp.min(column)
    first = jnp.argmax(left)
    return jnp.where(view.mask[first] & left[first], first, wait).astype(jnp.int32)


def _scores(env: ClusterJobs, order: Order, mode: str, view: View) -> Array:
    """Minus each position's rank in the order, then a lower score for waiting; ``[W + 1]``."""
    state: State = view.state
    jobs = view.params.jobs.of_episode(state.episode)
    waits, keys = dynamics.waits(state, jobs), _key(env, order, view)
    if order in ORDERS:
        keys = jnp.concatenate([waits[:, None].astype(jnp.int32), keys], axis=1)
    before, same = jnp.bool_(False), jnp.bool_(True)
    for column in keys.T:
        before |= same & (column[None, :] < column[:, None])
        same &= column[None, :] == column[:, None]
    place = jnp.sum(before, axis=1, dtype=jnp.int32)
    window = place.shape[0]
    if mode == "block":
        first = jnp.argmin(jnp.where(waits & ~chosen(state, jobs), place, window))
        place = jnp.where(waits & (jnp.arange(window) != first), 2 * window, place)
    return -jnp.append(place, window).astype(jnp.float32)


RULES: Mapping[str, tuple[Order, Mode]] = MappingProxyType(
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
"""Names of ``trace_replay.POLICIES`` -> order and mode."""

COMMITTED_RULES: Mapping[str, tuple[Order, Mode]] = MappingProxyType(
    {
        "lcfs": ("lifo", "block"),
        "sjf-narrow": ("sjf-narrow", "block"),
        "lpf": ("lpf", "block"),
        "f1": ("f1", "block"),
    }
)
"""Names of policies for environments where choices commit."""

TYPED_RULES: Mapping[str, tuple[Order, Mode]] = MappingProxyType(
    {"least-slowdown": ("slowdown", "skip")}
)
"""Names of ``trace_replay.TYPED`` for environments where GPUs have types."""

SUSPENDING_RULES: Mapping[str, tuple[Order, Mode]] = MappingProxyType(
    {name: (name, "skip") for name in SUSPENDING}
)
"""Names of policies that suspend jobs."""
