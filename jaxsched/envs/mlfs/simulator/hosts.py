"""Where rules place the task on offer (specification, sections 3.3 and 9), and whole slots of it.

Axes: ``S`` servers, ``R`` running tasks.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MODELS
from jaxsched.envs.mlfs.simulator import offers as off
from jaxsched.envs.mlfs.simulator import placing
from jaxsched.envs.mlfs.simulator.cluster import FULL, div
from jaxsched.envs.mlfs.simulator.offers import Standing
from jaxsched.envs.mlfs.simulator.placing import Offered
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.selection import LATE, first_least
from jaxsched.envs.mlfs.simulator.state import NOBODY, State, split
from jaxsched.envs.mlfs.simulator.tables import Params, jobs_at
from jaxsched.ops.batching import any_across_batch
from jaxsched.types import Array

SPREAD = tuple(MODELS.index(name) for name in ("AlexNet", "MLP"))
"""Models whose tasks Tiresias keeps together."""


Host = Callable[[Rules, Params, State, Offered], Array]
"""Server for the task on offer."""


def mlf_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """The server nearest to the ideal one (section 3.3)."""
    del params, state
    usable = ~offer.standing.overloaded
    distance = jnp.zeros(rules.cluster.num_servers, jnp.int32)
    for used in offer.standing.used:
        distance += (used - jnp.min(jnp.where(usable, used, LATE))) ** 2
    share = offer.talk.local_share
    less = share - jnp.max(jnp.where(usable, share, 0))
    distance += jnp.where(rules.use_bandwidth, less**2, 0)
    delay = div(FULL * rules.move_work, jnp.maximum(offer.work + rules.move_work, 1))
    distance += jnp.where(offer.moves, delay, 0) ** 2
    return first_least(offer.valid, distance)


def least_loaded(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """The server whose GPUs are least loaded on average."""
    del rules, params, state
    return first_least(offer.valid, _load(offer))


def tiresias_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """AlexNet and MLP go where most of the job runs already, then to the least loaded."""
    del params
    of_job = split(state.running.task)[0] == offer.place
    count = _by_server(rules, state, of_job)
    together = jnp.any(offer.job.model == np.array(SPREAD, np.int32))
    most = jnp.max(jnp.where(offer.valid, count, -1))
    among = offer.valid & (~together | (count == most))
    return first_least(among, _load(offer))


def gandiva_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """Servers that run jobs of the same size come first."""
    sizes = jobs_at(params, state.episode, state.active.job).num_gpus
    alike = sizes[split(state.running.task)[0]] == offer.job.num_gpus
    hosts = offer.valid & (_by_server(rules, state, alike) > 0)
    among = jnp.where(jnp.any(hosts), hosts, offer.valid)
    return first_least(among, _load(offer))


def _load(offer: Offered) -> Array:
    """Mean load of the servers' GPUs, rounded down."""
    return offer.standing.used[0]


def _by_server(rules: Rules, state: State, chosen: Array) -> Array:
    """How many of the chosen running tasks each server has."""
    runs = chosen & (state.running.task != NOBODY)
    server = jnp.where(runs, state.running.server, rules.cluster.num_servers)
    return jnp.zeros(rules.cluster.num_servers, jnp.int32).at[server].add(1, mode="drop")


HOSTS: dict[str, Host] = {
    "mlf": mlf_host,
    "fair": least_loaded,
    "slaq": least_loaded,
    "tiresias": tiresias_host,
    "gandiva": gandiva_host,
    "graphene": least_loaded,
    "hypersched": least_loaded,
    "fifo": least_loaded,
}
"""Choice of servers by order."""


class Choice(NamedTuple):
    """What is done about an offer.

    Attributes:
      offer: the task.
      server: int32, its host.
      placed: bool, it can run there.
    """

    offer: Offered
    server: Array
    placed: Array


def place_all(rules: Rules, params: Params, state: State) -> State:
    """Step 4 as the order's own rule takes it: every offer is answered by ``HOSTS``.

    Args:
      rules: static options.
      params: of the episode.
      state: offers open, nobody chosen.
    """
    host = HOSTS[rules.order]

    def choice(state: State, standing: Standing | None = None) -> Choice:
        offer = placing.offered(rules, params, state, standing)
        server = host(rules, params, state, offer)
        return Choice(offer, server, offer.valid[server])

    def step(at: tuple[State, Choice]) -> tuple[State, Choice]:
        # What the next choice reads comes after what this one writes: nothing has to be copied.
        state, (offer, server, placed) = at
        state = placing.settled(rules, params, state, offer, server, placed)
        standing = off.standing_after(rules, offer.standing, state.loads, server)
        return state, choice(state, standing)

    state = placing.with_next_offer(rules, params, state)
    # Nothing happens to a copy without an offer.
    return jax.lax.while_loop(
        lambda at: any_across_batch(at[0].offers.place != NOBODY), step, (state, choice(state))
    )[0]
