"""Heuristics of Chic and Chic-Pair, one unit at a time (section 9), and exhaustive search (15).

All decide from the state alone, whatever mask the environment reports. ``optimus``, which decides
at regular instants, is in ``intervals.py``.

Search maximises the sum over the window's workloads of ``1 / (g * sqrt(remaining))``, with ``g``
the published seconds per iteration. Each type has a short list of allocations worth considering:
those than which no other is at least as fast and needs no more. Where the cluster's GPUs alone
decide what fits, only the fastest number of parameter servers (PS) for each number of workers is
left.

Axes: ``I`` rows, ``M`` types, ``C`` candidates of a type.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.elastic.models import CHIC_COEFFICIENTS
from jaxsched.elastic.speed import speed_table
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import LEAST_GAIN_S, gains
from jaxsched.envs.chic.rules import NUM_MODELS, SERVERS, WORKERS, Params, most_units
from jaxsched.envs.chic.rules.dynamics import State, column, exists
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

Find = Callable[[Array, Array, Array], Array]
MAX_COMBINATIONS = 4_000_000


def best_units(env: Chic) -> Find:
    """``find(there, model, left) -> int32 [I, 2]``: the workers and PS of each row.

    Raises:
      JaxschedError: the cluster and the window allow too many combinations.
    """
    capacity = np.array(env.capacity)
    lists = [candidates(model, env) for model in range(NUM_MODELS)]
    if not env.pair and _gpus_alone_decide(lists, env):
        lists = [_fastest_per_worker(units, model) for model, units in enumerate(lists)]
    most = max(len(units) for units in lists)
    if most**env.window > MAX_COMBINATIONS:
        raise JaxschedError(
            f"chic: search would compare {most}**{env.window} allocations; accepted: at most "
            f"{MAX_COMBINATIONS} (a smaller cluster or window)"
        )
    # Padding repeats the first candidate, no unit at all.
    table = np.zeros((NUM_MODELS, most, 2), np.int32)
    for model, units in enumerate(lists):
        table[model, : len(units)] = units
    speed = np.stack([_speed(model, units) for model, units in enumerate(table)])
    needs = np.stack([_needs(model, units) for model, units in enumerate(table)])

    def find(there: Array, model: Array, left: Array) -> Array:
        weight = jnp.where(there, 1.0 / jnp.sqrt(jnp.maximum(left, 1).astype(float)), 0.0)
        value = jnp.asarray(speed, float)[model] * weight[:, None]  # [I, C]
        need = jnp.asarray(needs)[model] * there[:, None, None]  # [I, C, 3]
        total, used = jnp.zeros((), float), [jnp.int32(0)] * len(capacity)
        for row in range(env.window):
            shape = [1] * env.window
            shape[row] = most
            total = total + value[row].reshape(shape)
            used = [u + need[row, :, k].reshape(shape) for k, u in enumerate(used)]
        fits = used[0] <= capacity[0]
        for amount, limit in zip(used[1:], capacity[1:], strict=True):
            fits &= amount <= limit
        best = jnp.argmax(jnp.where(fits, total, -jnp.inf))
        chosen = jnp.stack(jnp.unravel_index(best, (most,) * env.window))
        return jnp.where(there[:, None], jnp.asarray(table)[model, chosen], 0)

    return find


def candidates(model: int, env: Chic) -> np.ndarray:
    """Allocations ``(w, p)`` of a type that are worth considering, ``[C, 2]``; first ``(0, 0)``."""
    most = most_units(env.capacity, WORKERS), most_units(env.capacity, SERVERS)
    grid = np.stack(
        np.meshgrid(np.arange(1, most[0] + 1), np.arange(1, most[1] + 1), indexing="ij"), axis=-1
    )
    units = grid.reshape(-1, 2)
    if env.pair:
        units = units[units[:, 0] == units[:, 1]]
    units = units[np.all(_needs(model, units) <= np.array(env.capacity), axis=-1)]
    speed, needs = _speed(model, units), _needs(model, units)
    kept = []
    for index in range(len(units)):
        cheaper = np.all(needs <= needs[index], axis=-1)
        cheaper[index] = False
        as_fast = speed >= speed[index]
        if not np.any(cheaper & as_fast):
            kept.append(index)
    return np.concatenate([np.zeros((1, 2), int), units[kept]])


def _speed(model: int, units: np.ndarray) -> np.ndarray:
    most = units.max(initial=0)
    seconds = speed_table(CHIC_COEFFICIENTS, most, most)[model]
    return 1.0 / seconds[units[:, 0], units[:, 1]]


def _needs(model: int, units: np.ndarray) -> np.ndarray:
    return (units[:, :1] * WORKERS[model] + units[:, 1:] * SERVERS[model]).astype(np.int32)


def _fastest_per_worker(units: np.ndarray, model: int) -> np.ndarray:
    """Of the candidates with the same number of workers, the fastest."""
    speed = _speed(model, units)
    same = units[:, 0][:, None] == units[:, 0][None, :]
    return units[speed >= np.max(np.where(same, speed, -np.inf), axis=1)]


def _gpus_alone_decide(lists: list[np.ndarray], env: Chic) -> bool:
    """Whether all that fits the GPUs fits the cores and the memory, with the fastest PS."""
    gpus, *others = env.capacity
    needs = np.concatenate(
        [_needs(m, _fastest_per_worker(units, m)) for m, units in enumerate(lists)]
    )
    for resource, limit in enumerate(others, start=1):
        most = np.full(gpus + 1, -np.inf)  # by GPUs used, over the rows so far
        most[0] = 0.0
        for _ in range(env.window):
            grown = most.copy()
            for need in needs:
                kept = most[: gpus + 1 - need[0]] + need[resource]
                grown[need[0] :] = np.maximum(grown[need[0] :], kept)
            most = grown
        if most.max() > limit:
            return False
    return True


Rule = Callable[[State, Params, PRNGKey], Array]


def baseline(name: str, env: Chic) -> Policy:
    """The policy of that name.

    Raises:
      JaxschedError: unknown name, or a rule that has no form in Chic-Pair.
    """
    rules: dict[str, Callable[[Chic], Rule]] = {
        "random": lambda env: partial(random_unit, env),
        "round_robin": lambda env: partial(round_robin, env),
        "optimus_event": lambda env: partial(optimus_event, env),
        "search": searched,
    }
    if name not in rules:
        raise JaxschedError(f"chic: unknown policy {name!r}; known are {', '.join(rules)}")
    if name == "optimus_event" and env.pair:
        raise JaxschedError(
            "chic: optimus_event gives workers and parameter servers apart; accepted: pair false"
        )
    rule = rules[name](env)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights
        return rule(view.state, view.params, key).astype(jnp.int32), memory

    return Policy(name, no_memory, act, privileged=True)


def columns(state: State) -> tuple[Array, Array, Array, Array, Array]:
    """Which rows hold a workload, and their types, remaining iterations, workers, PS; ``[I]``."""
    fields = [[exists(row), *row[1:]] for row in state.rows]
    there, model, left, workers, servers = (column(list(c)) for c in zip(*fields, strict=True))
    return there, model, left, workers, servers


def random_unit(env: Chic, state: State, params: Params, key: PRNGKey) -> Array:
    """Uniform over the units that fit; void where there is none."""
    units = env.legal(state, params)[:-1]
    drawn = jax.random.categorical(key, jnp.where(units, jnp.float32(0), -jnp.inf))
    return jnp.where(jnp.any(units), drawn, env.void)


def round_robin(env: Chic, state: State, params: Params, key: PRNGKey) -> Array:
    """A unit for the workload with the fewest: a worker, or a PS once it has more workers."""
    del key
    _, _, _, workers, servers = columns(state)
    units = env.legal(state, params)[:-1].reshape(env.window, -1)
    possible = jnp.any(units, axis=-1)
    total = jnp.where(possible, workers + servers, jnp.iinfo(jnp.int32).max)
    row = jnp.argmin(total)
    if env.pair:
        return jnp.where(jnp.any(possible), row, env.void)
    wanted = jnp.where(workers[row] <= servers[row], 0, 1)
    kind = jnp.where(units[row, wanted], wanted, 1 - wanted)
    return jnp.where(jnp.any(possible), 2 * row + kind, env.void)


def optimus_event(env: Chic, state: State, params: Params, key: PRNGKey) -> Array:
    """Optimus' rule for the window: one unit of each kind in order, then the largest gain.

    A workload that has none yet starts with a worker if a PS fits as well; what does not fit now
    fits no later in the phase, so the next unit follows from the allocation so far.
    """
    del key
    there, model, left, workers, servers = columns(state)
    cluster, free = env.cluster, env.free(state)
    fits = env.legal(state, params)[:-1].reshape(env.window, 2)
    pair = cluster.need("pair", model)
    starts = there & (workers + servers == 0) & cluster.layout.fits(free, pair)
    waits = there & (workers > 0) & (servers == 0)
    opens = starts | waits
    row = jnp.argmax(opens)
    opening = 2 * row + waits[row]
    gain = gains(params.seconds, env.capacity, model, left, workers, servers)
    best = jnp.argmax(jnp.where(there[:, None], gain, -jnp.inf))
    place, is_server = best // 2, best % 2 == 0
    worthwhile = gain.reshape(-1)[best] > LEAST_GAIN_S
    takes = worthwhile & fits[place, is_server.astype(jnp.int32)]
    more = jnp.where(takes, 2 * place + is_server, env.void)
    return jnp.where(jnp.any(opens), opening, more)


def searched(env: Chic) -> Rule:
    """The window's best static allocation, unit by unit in order, then void."""
    find = best_units(env)

    def rule(state: State, params: Params, key: PRNGKey) -> Array:
        del params, key
        there, model, left, workers, servers = columns(state)
        target = find(there, model, left)  # [I, 2]
        lacks = [target[:, 0] > workers]
        if not env.pair:
            lacks.append(target[:, 1] > servers)
        lacking = jnp.stack(lacks, axis=-1).reshape(-1)
        return jnp.where(jnp.any(lacking), jnp.argmax(lacking), env.void)

    return rule
