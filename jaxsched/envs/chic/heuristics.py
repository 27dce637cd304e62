"""Heuristics of Chic and Chic-Pair (section 9), one unit at a time.

All decide from the state alone, whatever mask the environment reports. ``optimus``, which decides
at regular instants, is in ``intervals.py``.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.chic.dynamics import State
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.gain import LEAST_GAIN_S, gains
from jaxsched.envs.chic.rows import column, exists
from jaxsched.envs.chic.search import best_units
from jaxsched.envs.chic.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

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
